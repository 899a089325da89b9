#include "ng/status.h"

#include <gtest/gtest.h>

namespace ng {
namespace {

TEST(Status, AMessageIsOneLineWhateverItQuotes) {
  for (const auto make : {RuntimeError, UsageError, ModelFileError, PluginError, LimitError,
                          NumericError, OutputError, InterruptedError}) {
    EXPECT_EQ(make("key \"a\nb\" = \x1B[2J\x7F").message(), "key \"a b\" =  [2J ");
    EXPECT_EQ(make("plain: ä").message(), "plain: ä");
  }
}

}  // namespace
}  // namespace ng
