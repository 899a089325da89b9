// Weights that are read with the prompt: what a user sees of it is the same as before the prompt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LoadWithPrompt : public ::testing::Test {
 protected:
  const TempDir dir_;
};

// With an output to a file all weights are read before it is begun.
TEST_F(LoadWithPrompt, ADamagedLayerIsOneLineAndNothingIsWritten) {
  TinyNiels().WriteTo(dir_.path(), Filling("blocks.1.mlp.fc_out.weight", NAN));
  for (const Arguments& more :
       {Arguments{}, Arguments{"--model.load=before_prompt"}, Arguments{"--output", "jsonl"},
        Arguments{"--run.prefill_chunk=1"}, Arguments{"--run.max_new_tokens=0"},
        Arguments{"--steps", dir_.File("steps")}, Arguments{"--save", dir_.File("saved")},
        Arguments{"--record", dir_.File("record")}, Arguments{"--view", dir_.File("page")},
        Arguments{"--save-cache", dir_.File("cache")}}) {
    SCOPED_TRACE(more.empty() ? "" : more[0]);
    const Result result = NgRun(Greedy(dir_.path(), "1 2 3", 4) + more);
    ExpectError(result, 3, {"model.safetensors", "blocks.1.mlp.fc_out.weight", "NaN"});
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(FilesIn(dir_.path()).size(), 2U);
  }
}

TEST_F(LoadWithPrompt, TheAnswerIsTheSame) {
  TinyNiels().WriteTo(dir_.path());
  const Arguments run = Greedy(dir_.path(), "1 2 3", 4);
  const Result with = NgRun(run);
  const Result before = NgRun(run + Arguments{"--model.load=before_prompt"});
  ASSERT_EQ(with.exit_code, 0) << with.err;
  ASSERT_EQ(before.exit_code, 0) << before.err;
  EXPECT_EQ(with.out, before.out);
}

TEST_F(LoadWithPrompt, ADryRunSaysWhatBothTakeAtOnce) {
  TinyNiels().WriteTo(dir_.path());
  const auto needed = [&](const std::string& load) {
    const Result result = NgRun(Greedy(dir_.path(), "1 2 3", 4) +
                                Arguments{"--model.load=" + load, "--dry-run", "--verbose"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  EXPECT_THAT(needed("with_prompt"), HasSubstr(" in the first step\n"));
  EXPECT_THAT(needed("before_prompt"), Not(HasSubstr(" in the first step\n")));
}

}  // namespace
}  // namespace ng::test
