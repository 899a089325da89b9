// ng-run --record and --replay as programs: what is written, said and returned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class RecordedBatch : public ::testing::Test {
 protected:
  RecordedBatch() {
    const std::string prompts = dir_.Write(
        "prompts.jsonl",
        "{\"prompt\": \"Who art thou?\"}\n{\"prompt_ids\": [5, 6, 7], \"max_new_tokens\": 3}\n");
    recorded_ = NgRun(Demo() + Arguments{"--prompts", prompts, "--run.max_new_tokens=8", "--record",
                                         file_, "--output=jsonl", "--steps", dir_.File("steps"),
                                         "--serve.key=sesame"});
    EXPECT_EQ(recorded_.exit_code, 0) << recorded_.err;
  }
  Arguments Replay() const { return {"--replay", file_, "--output=jsonl"}; }

  const TempDir dir_;
  const std::string file_ = dir_.File("r.json");
  Result recorded_;
};

TEST_F(RecordedBatch, ReplaysWithTheSameOutputs) {
  const Json record = Json::parse(ReadFile(file_));
  EXPECT_EQ(record["config"]["run.max_new_tokens"], "8");
  EXPECT_EQ(record["config"]["serve.key"], "") << "a secret";
  const std::vector<Json> lines = JsonLines(recorded_.out);
  ASSERT_EQ(record["requests"].size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    const Json& request = record["requests"][i];
    EXPECT_EQ(request["prompt_ids"], lines[i]["prompt_ids"]);
    EXPECT_EQ(request["stop_reason"], lines[i]["stop_reason"]);
    std::vector<int> ids = request["prompt_ids"].get<std::vector<int>>();
    for (const Json& id : request["ids"]) ids.push_back(id.get<int>());
    EXPECT_EQ(lines[i]["ids"].get<std::vector<int>>(), ids);
    EXPECT_EQ(request["logits"].size(), request["ids"].size());
  }
  // A record of the replay says the same as the record.
  const Result again = NgRun(
      Replay() + Arguments{"--steps", dir_.File("again"), "--record", dir_.File("again.json")});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, AllOf(StartsWith("seed 1, "),
                               EndsWith("ng-run: replay equal: 2 requests, 11 steps\n")));
  EXPECT_EQ(ReadFile(dir_.File("again")), ReadFile(dir_.File("steps")));
  EXPECT_EQ(ReadFile(dir_.File("again.json")), ReadFile(file_));
  EXPECT_EQ(JsonLines(again.out).at(1)["ids"], lines[1]["ids"]);
}

TEST_F(RecordedBatch, StopsAtTheFirstDifferenceWithWholeOutputs) {
  const Result result =
      NgRun(Replay() + Arguments{"--sampler.chain=greedy", "--steps", dir_.File("s"), "--save",
                                 dir_.File("t"), "--save-tensors=decode_logits"});
  EXPECT_EQ(result.exit_code, 8) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("ng-run: not as recorded: sampler.chain = greedy, recorded: "),
                    HasSubstr("ng-run: replay differs: request 0, step 0: token "),
                    EndsWith("; what else is not as recorded: sampler.chain = greedy, recorded: "
                             "temperature,top_k\n")));
  EXPECT_EQ(JsonLines(ReadFile(dir_.File("s"))).size(), 1U) << "the step that differs is the last";
  EXPECT_EQ(ReadTensors(dir_.File("t")).at("decode_logits.0").shape[0], 1);
  for (const Json& line : JsonLines(result.out)) EXPECT_EQ(line["stop_reason"], "error");
}

TEST_F(RecordedBatch, TheConfigIsTheRecords) {
  const Result config = NgRun({"--replay", file_, "--print-config", "--sampler.top_k.k=9"});
  EXPECT_EQ(config.exit_code, 0);
  EXPECT_THAT(config.out, AllOf(HasSubstr("max_new_tokens = 8"), HasSubstr("top_k.k = 9")));
}

TEST_F(RecordedBatch, RefusesWhatDoesNotGoTogether) {
  ExpectError(NgRun(Demo() + Arguments{"--chat", "--record", dir_.File("c.json")}), 2,
              {"--chat records nothing", "--record"});
  ExpectError(NgRun({"--replay", file_, "--message=a"}), 2, {"--replay runs the prompts"});
  ExpectError(NgRun({"--replay", file_, "--chat"}), 2, {"--replay runs the prompts"});
  ExpectError(NgRun(Demo() + Arguments{"--replay", file_}), 2, {"--config may not be given"});
  ExpectError(NgRun(DemoTurn(1) + Arguments{"--replay-any-model"}), 2, {"needs --replay"});
  ExpectError(NgRun({"--replay", dir_.File("none")}), 3, {"none"});
  ExpectError(NgRun({"--replay", file_, "--record", file_}), 2,
              {"--record would overwrite", file_});
  EXPECT_THAT(ReadFile(file_), StartsWith("{\"ng_record\":1,"));
}

}  // namespace
}  // namespace ng::test
