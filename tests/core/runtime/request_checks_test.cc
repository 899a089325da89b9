// What is refused before anything is computed.
#include "core/runtime/engine/request_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace ng {
namespace {

using ::testing::HasSubstr;

TEST(CheckCap, NamesAllNumbersAndTheRemedy) {
  EXPECT_TRUE(CheckCap(1900, 147, 2048, "cache tokens").ok());
  EXPECT_TRUE(CheckCap(1900, 148, 2048, "cache tokens").ok());
  const absl::Status over = CheckCap(1900, 200, 2048, "cache tokens");
  EXPECT_EQ(ExitCode(over), 5);
  EXPECT_EQ(over.message(),
            "prompt 1900 + max_new_tokens 200 = 2100 > 2048 cache tokens; lower "
            "run.max_new_tokens to 148");
}

TEST(CheckCap, SaysWhenThePromptAloneIsTooLong) {
  const absl::Status over = CheckCap(49, 1, 48, "T_max");
  EXPECT_EQ(ExitCode(over), 5);
  EXPECT_THAT(std::string(over.message()), HasSubstr("prompt length exceeds T_max"));
  EXPECT_THAT(std::string(over.message()), HasSubstr("49"));
}

TEST(CheckCap, DoesNotOverflow) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  const absl::Status over = CheckCap(10, most, 48, "T_max");
  EXPECT_EQ(ExitCode(over), 5);
  EXPECT_THAT(std::string(over.message()), HasSubstr("9223372036854775817"));
  EXPECT_EQ(ExitCode(CheckCap(10, int64_t{1} << 31, 48, "T_max")), 5);
}

}  // namespace
}  // namespace ng
