// ng-conform as its users see it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "ng/isa.h"
#include "tests/support/subprocess.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kTopK = NG_BINARY_DIR "/lib/ng/plugins/ng_sampler_top_k.so";
const std::string kFlash = NG_BINARY_DIR "/lib/ng/plugins/ng_attention_flash.so";
const std::string kFaults =
    NG_BINARY_DIR "/tests/fixtures/broken_plugins/sampler_faults/ng_sampler_sampler_faults.so";

Result Conform(const std::vector<std::string>& arguments) {
  Command command;
  command.program = "ng-conform";
  command.arguments = arguments;
  return Run(command);
}

TEST(NgConform, RefusesWhatItDoesNotUnderstand) {
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{}, "no plugin is named"},
      {{kTopK, "--case", "no_such"}, "--case: 'no_such' must be one of candidates, "},
      {{kTopK, "--profile", "masked"}, "--profile=masked: is for plugins of kind attention"},
      {{kTopK, "--profile", "odd"}, "must be plain, masked, approximate or constraint"},
      {{kTopK, "--rule", "alibi"}, "--rule is for a plugin of kind attention"},
      {{kFlash, "--rule", "window=0"}, "rule 'window=0', must be alibi, or window, "},
      {{kTopK, "--isa", "sse9"}, "sse9"},
      {{kTopK, "--seed", "-1"}, "must be a whole number"},
      {{kTopK, "--option", "k"}, "--option k: must be KEY=VALUE"},
      {{kTopK, "--option", "k=0"}, "sampler.top_k.k"},
      {{kTopK, "--option", "kk=1"}, "sampler.top_k.kk"},
      {{kTopK, "--with", kFlash}, "is no partner of one of kind sampler"},
      {{kTopK, "--quik"}, "did you mean --quick?"}};
  for (const auto& [arguments, says] : wrong) {
    const Result result = Conform(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, StartsWith("ng-conform: error: "));
    EXPECT_THAT(result.err, HasSubstr(says));
  }
}

TEST(NgConform, RefusesAFileThatIsNoPlugin) {
  for (const char* path : {"/no/such/ng_sampler_none.so", "/etc/hostname"}) {
    EXPECT_EQ(Conform({path}).exit_code, 4) << path;
  }
}

TEST(NgConform, WritesAnObjectForEachCheckAndLevel) {
  const Result result = Conform({kTopK, "--quick", "--isa", "all", "--output", "jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  size_t n = 0;
  for (const absl::string_view line : absl::StrSplit(result.out, '\n', absl::SkipEmpty())) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_THAT(json["command"].get<std::string>(), StartsWith("ng-conform " + kTopK));
    EXPECT_NE(json["result"], "fail") << line;
    EXPECT_TRUE(json.contains("detail") && json.contains("isa")) << line;
    ++n;
  }
  const Result list = Conform({kTopK, "--list"});
  const std::vector<std::string> checks = absl::StrSplit(list.out, '\n', absl::SkipEmpty());
  EXPECT_EQ(n, checks.size() * SupportedIsaLevels().size());
}

// The whole suite goes on behind a check that ends its process.
TEST(NgConform, RunsTheOtherChecksAfterACrash) {
  const Result result = Conform({kFaults, "--quick", "--option", "fault=close_throws"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("ok      growth"));
  EXPECT_THAT(result.out, HasSubstr("FAIL    reopen"));
  EXPECT_THAT(result.out, HasSubstr("ok      nan"));
  EXPECT_THAT(result.err, HasSubstr("fails 3 of "));
  const Result aborts = Conform({kFaults, "--quick", "--option", "fault=aborts"});
  EXPECT_EQ(aborts.exit_code, 1);
  EXPECT_THAT(aborts.out, HasSubstr("ends the process: Aborted"));
  EXPECT_THAT(aborts.out, HasSubstr("skipped definition"));
}

}  // namespace
}  // namespace ng::test
