#include "ng/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/kernels/kernel_table.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

class ChooseIsaTest : public ::testing::Test {
 protected:
  ChooseIsaTest() {
    if (const char* value = std::getenv("NG_ISA")) before_ = value;
    unsetenv("NG_ISA");
  }
  ~ChooseIsaTest() override {
    if (before_.empty()) {
      unsetenv("NG_ISA");
    } else {
      setenv("NG_ISA", before_.c_str(), 1);
    }
  }

 private:
  std::string before_;
};

// On CPUs of Intel dot products of bf16 pairs are slower than multiply-adds of f32.
IsaLevel FastestLevel() {
  const IsaLevel last = SupportedIsaLevels().back();
  const bool slow = last == IsaLevel::kAvx512Bf16 && __builtin_cpu_is("intel") != 0;
  return slow ? IsaLevel::kAvx512Vnni : last;
}

TEST_F(ChooseIsaTest, AutoIsTheFastestSupportedLevel) {
  EXPECT_EQ(*ChooseIsa("auto"), FastestLevel());
}

TEST_F(ChooseIsaTest, AutoFollowsTheEnvironment) {
  setenv("NG_ISA", "scalar", 1);
  EXPECT_EQ(*ChooseIsa("auto"), IsaLevel::kScalar);
}

TEST_F(ChooseIsaTest, ANameOverridesTheEnvironment) {
  setenv("NG_ISA", "nonsense", 1);
  for (const IsaLevel level : SupportedIsaLevels()) EXPECT_EQ(*ChooseIsa(IsaName(level)), level);
}

TEST_F(ChooseIsaTest, RejectsAnUnknownNameAndListsTheLevels) {
  const absl::Status status = ChooseIsa("avx1024").status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("run.isa = avx1024"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("auto, scalar"));
}

// In a build of few levels, as that of the sanitizers.
TEST_F(ChooseIsaTest, SaysThatALevelWasNotBuiltThatTheCpuHas) {
  const bool has_avx512 =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  const IsaLevel level = has_avx512 ? IsaLevel::kAvx512 : IsaLevel::kAvx2;
  if (__builtin_cpu_supports("avx2") == 0 || std::ranges::count(SupportedIsaLevels(), level) != 0) {
    GTEST_SKIP() << "all levels of this CPU were built";
  }
  const absl::Status status = ChooseIsa(IsaName(level)).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("this CPU has it, but this build of ng does not (NG_LEVELS); allowed: "));
}

TEST_F(ChooseIsaTest, NamesTheEnvironmentWhenThatIsWrong) {
  setenv("NG_ISA", "sse9", 1);
  EXPECT_THAT(std::string(ChooseIsa("auto").status().message()), HasSubstr("NG_ISA = sse9"));
}

TEST_F(ChooseIsaTest, PortableIsTheBestLevelOfThatArithmetic) {
  const IsaLevel level = *ChooseIsa("auto", "portable");
  EXPECT_EQ(ArithmeticOf(level).name, "portable");
  for (const IsaLevel other : SupportedIsaLevels()) {
    if (ArithmeticOf(other).name != "portable") continue;
    EXPECT_LE(other, level);
  }
  EXPECT_EQ(*ChooseIsa("auto", "fastest"), FastestLevel());
  EXPECT_EQ(*ChooseIsa("scalar", "portable"), IsaLevel::kScalar);
  setenv("NG_ISA", "scalar", 1);
  EXPECT_EQ(*ChooseIsa("auto", "portable"), IsaLevel::kScalar);
}

TEST_F(ChooseIsaTest, RefusesALevelOfAnotherArithmetic) {
  if (SupportedIsaLevels().back() != IsaLevel::kAvx512Bf16) GTEST_SKIP() << "no level of another";
  std::string problem =
      " = avx512_bf16: its arithmetic is bf16_dot 1, and run.arithmetic = portable; allowed: auto";
  for (const IsaLevel level : SupportedIsaLevels()) {
    if (level != IsaLevel::kAvx512Bf16) problem += ", " + std::string(IsaName(level));
  }
  const absl::Status named = ChooseIsa("avx512_bf16", "portable").status();
  EXPECT_EQ(ExitCode(named), 2);
  EXPECT_EQ(std::string(named.message()), "run.isa" + problem);
  setenv("NG_ISA", "avx512_bf16", 1);
  EXPECT_EQ(std::string(ChooseIsa("auto", "portable").status().message()), "NG_ISA" + problem);
}

TEST(Arithmetic, IsThatOfEachLevelByNameAndVersion) {
  EXPECT_EQ(ArithmeticOf(IsaLevel::kScalar).ToString(), "portable 1");
  EXPECT_EQ(ArithmeticOf(IsaLevel::kAvx2).ToString(), "portable 1");
  EXPECT_EQ(ArithmeticOf(IsaLevel::kAvxVnni).ToString(), "portable 1");
  EXPECT_EQ(ArithmeticOf(IsaLevel::kAvx512).ToString(), "portable 1");
  EXPECT_EQ(ArithmeticOf(IsaLevel::kAvx512Vnni).ToString(), "portable 1");
  EXPECT_EQ(ArithmeticOf(IsaLevel::kAvx512Bf16).ToString(), "bf16_dot 1");
}

TEST(Kernels, EachLevelHasItsOwnTable) {
  for (const IsaLevel level : SupportedIsaLevels()) EXPECT_EQ(Kernels(level).isa, level);
}

}  // namespace
}  // namespace ng
