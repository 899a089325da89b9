// Ctrl-C and SIGTERM at each phase: the run stops at a token and closes every output validly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A model with room for runs that take longer than any test should.
class Signals : public ::testing::Test {
 protected:
  Signals() {
    TinyNiels model;
    model.max_positions = int64_t{1} << 20;
    model.WriteTo(temp_.path());
    for (int i = 0; i < 3000; ++i) absl::StrAppend(&long_prompt_, i % 61, " ");
  }

  // A greedy run; the cache's debug lines on stderr tell how far it is.
  Command GreedyRun(const std::string& prompt_ids, int64_t max_new_tokens) {
    Command command;
    command.program = "ng-run";
    command.arguments = Greedy(temp_.path(), prompt_ids, max_new_tokens) +
                        Arguments{"--output=jsonl", "--debug-cache", "--debug-layer=0"};
    return command;
  }

  TempDir temp_;
  TempDir outputs_;
  std::string long_prompt_;
};

TEST_F(Signals, FirstInterruptStopsDecodingAndClosesTheOutputs) {
  for (const auto& [signal, exit_code] : {std::pair{SIGINT, 130}, {SIGTERM, 143}}) {
    Command command = GreedyRun("1 2 3", 500000);
    command.arguments = command.arguments + Arguments{"--steps", outputs_.File("steps"), "--save",
                                                      outputs_.File("saved")};
    command.signal = signal;
    command.signal_after = 2000;  // some ten steps
    const Result result = test::Run(command);
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_THAT(result.err, ::testing::Not(HasSubstr("error")));
    const Json line = JsonLines(result.out).at(0);
    EXPECT_EQ(line["stop_reason"], "interrupted");
    const size_t n_generated = line["ids"].size() - 3;
    EXPECT_GE(n_generated, 5U);
    EXPECT_EQ(JsonLines(ReadFile(outputs_.File("steps"))).size(), n_generated);
    EXPECT_EQ(ReadTensors(outputs_.File("saved")).at("decode_logits.0").shape[0],
              static_cast<int64_t>(n_generated));
    EXPECT_THAT(FilesIn(outputs_.path()), ElementsAre("saved", "steps"));
  }
}

TEST_F(Signals, InterruptStopsInsideALongPrefill) {
  Command command = GreedyRun(long_prompt_, 8);
  command.arguments.emplace_back("--attention.name=reference");
  command.signal = SIGINT;
  command.signal_after = 1;
  const Result result = test::Run(command);
  EXPECT_EQ(result.exit_code, 130);
  const Json line = JsonLines(result.out).at(0);
  EXPECT_EQ(line["stop_reason"], "interrupted");
  EXPECT_EQ(line["ids"], line["prompt_ids"]);
}

TEST_F(Signals, SecondSignalLeavesAtOnce) {
  const std::string longer_prompt = long_prompt_ + long_prompt_ + long_prompt_ + long_prompt_;
  Command command = GreedyRun(longer_prompt, 8);
  command.arguments.emplace_back("--attention.name=reference");
  command.signal = SIGINT;
  command.signal_after = 1;
  command.next_signal = SIGTERM;
  const Result result = test::Run(command);
  // Where both come at once, the kernel runs the second one's handler first.
  EXPECT_THAT(result.exit_code, AnyOf(130, 143));
  EXPECT_EQ(result.out, "");  // the first one alone would have closed the outputs
}

TEST_F(Signals, InterruptReportsEveryPromptOfABatch) {
  const std::string prompts = outputs_.Write(
      "p.jsonl",
      "{\"prompt_ids\": [1]}\n{\"prompt_ids\": [2]}\n{\"prompt_ids\": [3], \"max_new_tokens\": 1}");
  Command command = GreedyRun("", 500000);
  std::erase_if(command.arguments, [](const std::string& a) { return a.empty(); });
  std::replace(command.arguments.begin(), command.arguments.end(), std::string("--prompt-ids"),
               "--prompts=" + prompts);
  command.arguments.emplace_back("--cache.max_sequences=1");  // the others wait
  command.signal = SIGINT;
  command.signal_after = 2000;
  const Result result = test::Run(command);
  EXPECT_EQ(result.exit_code, 130);
  const std::vector<Json> lines = JsonLines(result.out);
  ASSERT_EQ(lines.size(), 3U);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["index"], i);
    EXPECT_EQ(lines[i]["stop_reason"], "interrupted");
  }
  EXPECT_GT(lines[0]["ids"].size(), 1U);
  EXPECT_EQ(lines[2]["ids"], Json({3}));
}

TEST(ChatSignals, InterruptEndsTheWaitForAMessage) {
  Command command;
  command.program = "ng-run";
  command.arguments = Demo() + Arguments{"--chat", "--run.max_new_tokens=2", "--output=jsonl"};
  command.input = "Hello\n";
  command.hold_stdin = true;
  command.signal = SIGINT;
  command.signal_after = 1;  // the first answer
  const Result result = test::Run(command);
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_EQ(JsonLines(result.out).size(), 1U);
  EXPECT_EQ(result.err, "");
}

}  // namespace
}  // namespace ng::test
