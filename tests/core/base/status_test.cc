#include "ng/status.h"

#include <gtest/gtest.h>

namespace ng {
namespace {

TEST(Status, AMessageIsOneLineWhateverItQuotes) {
  for (const auto make :
       {RuntimeError, UsageError, ModelFileError, PluginError, LimitError, NumericError,
        OutputError, DifferenceError, InterruptedError, UnsupportedError}) {
    EXPECT_EQ(make("key \"a\nb\" = \x1B[2J\x7F").message(), "key \"a b\" = ^[[2J^?");
    EXPECT_EQ(make("plain: ä").message(), "plain: ä");
  }
}

TEST(Status, ADifferenceHasAnExitCodeOfItsOwn) {
  EXPECT_EQ(ExitCode(DifferenceError("step 3")), 8);
}

TEST(Status, WhatIsUnsupportedIsToldFromWhatFailed) {
  EXPECT_TRUE(IsUnsupported(UnsupportedError("cannot go back")));
  EXPECT_FALSE(IsUnsupported(RuntimeError("cannot go back")));
  EXPECT_FALSE(IsUnsupported(absl::OkStatus()));
  EXPECT_EQ(ExitCode(UnsupportedError("cannot go back")), 1);
}

}  // namespace
}  // namespace ng
