// The complete configs that ship with ng: each runs, and each policy of a cache with a budget has
// one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"

namespace ng::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::Not;

const std::string kShippedConfigs = NG_SOURCE_DIR "/configs/";

// Long enough that tokens leave where a config says that they do.
Result RunConfig(const std::string& path) {
  return NgRun({"--config", path, "--message", "Who art thou?",
                "--run.stop_ids=", "--run.max_new_tokens=110", "--output", "jsonl"});
}

TEST(ShippedConfigs, AllRun) {
  int n_configs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kShippedConfigs)) {
    if (entry.path().extension() != ".ini") continue;
    ++n_configs;
    const Result result = RunConfig(entry.path());
    ASSERT_EQ(result.exit_code, 0) << entry.path() << result.err;
    const Json answer = JsonLines(result.out).front();
    EXPECT_EQ(answer["ids"].size() - answer["prompt_ids"].size(), 110) << entry.path();
    EXPECT_THAT(result.err, Not(ContainsRegex("warning|error"))) << entry.path();
  }
  EXPECT_GT(n_configs, 10);
}

TEST(ShippedConfigs, EveryPolicyHasOneThatLetsTokensGo) {
  std::vector<std::string> names = {"pyramid", "adaptive"};
  for (const auto& entry : std::filesystem::directory_iterator(NG_SOURCE_DIR "/plugins/policy")) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  for (const std::string& name : names) {
    const Result result = RunConfig(absl::StrCat(kShippedConfigs, "budget/", name, ".ini"));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string policy = name == "pyramid" || name == "adaptive" ? "snapkv" : name;
    EXPECT_THAT(result.err,
                ContainsRegex(absl::StrCat("policy ", policy, " let [0-9]+ tokens go")));
  }
}

}  // namespace
}  // namespace ng::test
