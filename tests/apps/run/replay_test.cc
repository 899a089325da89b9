// Records of runs: 20 runs replay equal, whatever changed is told with its cause, and a file that
// is no record is refused.
#include "apps/run/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/run/run_record.h"
#include "ng/isa.h"
#include "tests/support/temp_dir.h"

namespace ng::run {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;
using Overrides = std::vector<std::string>;

constexpr const char* kDemo = "model.path=" NG_SOURCE_DIR "/configs/demo";

Overrides operator+(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

EngineOptions OptionsOf(const Overrides& overrides, const std::atomic<bool>* stop = nullptr) {
  EngineOptions options;
  options.overrides = overrides;
  options.stop = stop;
  return options;
}

absl::Status LoadFor(Engine& engine, const std::vector<GenerateRequest>& requests) {
  RunNeeds needs = Needs(requests);
  needs.identity = true;
  return engine.Load(needs);
}

// Two prompts of a few tokens, which ask for 6 and for 4 more.
std::vector<GenerateRequest> TwoRequests(const Engine& engine) {
  std::vector<GenerateRequest> requests(2);
  for (int64_t i = 0; i < 7; ++i) {
    const int64_t id = (i * 37 + 11) % engine.model_shape().vocab_size;
    requests[0].prompt_ids.push_back(static_cast<int32_t>(id));
    if (i > 2) requests[1].prompt_ids.push_back(static_cast<int32_t>(id));
  }
  requests[0].max_new_tokens = 6;
  requests[1].max_new_tokens = 4;
  return requests;
}

// The text of a record of this run. It is interrupted behind its step `last_step`, if there is one.
absl::StatusOr<std::string> RecordOf(const Overrides& overrides, int64_t last_step = -1) {
  std::atomic<bool> stop = false;
  NG_ASSIGN_OR_RETURN(const auto engine, Engine::Open(OptionsOf(overrides, &stop)));
  const std::vector<GenerateRequest> requests = TwoRequests(*engine);
  NG_RETURN_IF_ERROR(LoadFor(*engine, requests));
  const test::TempDir dir;
  const std::string path = dir.File("record.json");
  NG_ASSIGN_OR_RETURN(AtomicFileWriter file, AtomicFileWriter::Create(path));
  NG_ASSIGN_OR_RETURN(Recorder recorder, Recorder::Begin(std::move(file), *engine, requests));
  GenerateOptions options;
  options.logits_hash = true;
  options.on_step = [&](int index, const StepRecord& step) {
    recorder.OnStep(index, step);
    if (step.step == last_step) stop = true;
    return absl::OkStatus();
  };
  options.on_done = [&](int index, const Completion& completion) {
    recorder.OnDone(index, completion);
    return absl::OkStatus();
  };
  NG_RETURN_IF_ERROR(engine->Generate(requests, options).status());
  NG_RETURN_IF_ERROR(recorder.Commit());
  return test::Slurp(path);
}

// What a replay says.
struct Told {
  absl::Status status;
  std::vector<std::string> changed;
  std::string verdict;
};

Told ReplayOf(const std::string& text, const Overrides& overrides = {}, bool any_model = false) {
  Told told;
  const auto run = [&]() -> absl::Status {
    NG_ASSIGN_OR_RETURN(const RunRecord record, ParseRecord(text, "r.json"));
    CommandLine line;
    line.replay = "r.json";
    line.replay_any_model = any_model;
    NG_ASSIGN_OR_RETURN(const auto engine,
                        Engine::Open(OptionsOf(OverridesOf(record) + overrides)));
    NG_ASSIGN_OR_RETURN(const auto requests, RequestsOf(record, line, *engine));
    NG_RETURN_IF_ERROR(LoadFor(*engine, requests));
    NG_ASSIGN_OR_RETURN(Replay replay, Replay::Begin(record, line, *engine));
    told.changed = replay.changed();
    GenerateOptions options;
    options.logits_hash = true;
    options.on_step = [&](int index, const StepRecord& step) { return replay.OnStep(index, step); };
    options.on_done = [&](int index, const Completion& completion) {
      return replay.OnDone(index, completion);
    };
    NG_RETURN_IF_ERROR(engine->Generate(requests, options).status());
    told.verdict = replay.Verdict();
    return absl::OkStatus();
  };
  told.status = run();
  return told;
}

void ExpectDiffers(const Told& told, const std::vector<std::string>& parts) {
  EXPECT_EQ(ExitCode(told.status), 8) << told.status;
  for (const std::string& part : parts) {
    EXPECT_THAT(std::string(told.status.message()), HasSubstr(part));
  }
}

// Families, weight types, backends, caches, codecs and chains, each at least once.
struct RecordedRun {
  const char* model;  // below tests/data/golden
  Overrides overrides;
};
const RecordedRun kRuns[] = {
    {"niels/b3", {"sampler.chain=greedy"}},
    {"llama/tied_gqa", {"cache.name=paged", "cache.codec=int8"}},
    {"llama/bf16_sharded", {"cache.codec=bf16", "attention.name=reference"}},
    {"mistral", {"cache.codec=f16", "sampler.chain=repetition_penalty,temperature,top_p"}},
    {"qwen2", {"cache.codec_k=int8", "cache.codec_v=int4", "sampler.chain=min_p"}},
    {"qwen3", {"run.use_cache=false", "sampler.chain=temperature,typical_p"}},
    {"gemma2", {"model.weights=bf16", "sampler.chain=top_n_sigma,xtc", "sampler.seed=7"}},
    {"gemma3", {"cache.name=paged", "sampler.chain=mirostat"}},
    {"gpt2", {"model.weights=int8", "sampler.chain=frequency_penalty,presence_penalty,top_k"}},
    {"gpt_neox", {"model.weights=int4", "cache.codec=int4"}},
    {"olmo2", {"sampler.chain=dry,temperature", "run.prefill_chunk=3"}},
    {"phi3", {"model.weights=f16"}},
    {"qwen3_moe", {"cache.name=paged", "sampler.chain=temperature,min_p"}},
    {"gpt_oss", {"sampler.chain=greedy"}},
    {"lfm2", {"sampler.chain=temperature,top_k"}},
    {"qwen3_next", {"run.use_cache=false"}},
    {"granite_hybrid", {"sampler.chain=logit_bias,temperature"}},
    {"deepseek_v3", {"sampler.seed=3"}},
    {"gguf/qwen2/model-Q8_0.gguf", {"cache.codec=int8"}},
    {"gguf/llama/model-Q4_K_M.gguf", {"attention.name=reference"}},
};

std::string PathOf(const RecordedRun& run) {
  const fs::path path = fs::path(NG_SOURCE_DIR "/tests/data/golden") / run.model;
  if (!fs::is_directory(path) || fs::exists(path / "config.json")) return path;
  std::vector<fs::path> models;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (fs::exists(entry.path() / "config.json")) models.push_back(entry.path());
  }
  return std::ranges::min(models);
}

// Threads and chunks change no bit (G1), so that a replay with others of them is equal too.
TEST(Replay, TwentyRecordedRunsAreEqual) {
  static_assert(std::size(kRuns) == 20);
  for (const RecordedRun& run : kRuns) {
    SCOPED_TRACE(run.model);
    const auto text =
        RecordOf(Overrides{"model.path=" + PathOf(run), "run.stop_ids="} + run.overrides);
    ASSERT_TRUE(text.ok()) << text.status();
    const Told again = ReplayOf(*text);
    EXPECT_TRUE(again.status.ok()) << again.status;
    EXPECT_THAT(again.changed, IsEmpty());
    EXPECT_EQ(again.verdict, "equal: 2 requests, 10 steps");
    const Told otherwise = ReplayOf(*text, {"run.threads=2", "run.prefill_chunk=2"});
    EXPECT_TRUE(otherwise.status.ok()) << otherwise.status;
    EXPECT_THAT(otherwise.changed, Contains(StartsWith("run.threads = 2, recorded: ")));
    const Told warm =
        ReplayOf(*text, {"sampler.chain=temperature", "sampler.temperature.value=50"});
    ExpectDiffers(warm, {"request ", ", step ", "sampler.chain = temperature, recorded: "});
  }
}

class ReplayOfTheDemo : public ::testing::Test {
 protected:
  ReplayOfTheDemo() {
    auto text = RecordOf(run_);
    EXPECT_TRUE(text.ok()) << text.status();
    text_ = *std::move(text);
    record_ = ParseRecord(text_, "r.json").value();
  }
  // The record with a part that was changed in the file.
  std::string Edited(const std::function<void(Json&)>& edit) const {
    Json json = Json::parse(text_);
    edit(json);
    return json.dump();
  }
  // A record that was written so.
  std::string Written(const std::function<void(RunRecord&)>& change) const {
    RunRecord record = record_;
    change(record);
    return RecordText(record);
  }

  const Overrides run_ = {kDemo, "run.stop_ids=", "run.arithmetic=portable",
                          "sampler.chain=temperature,top_k"};
  std::string text_;
  RunRecord record_;
};

TEST_F(ReplayOfTheDemo, ToldIdsAndHashesThatWereChangedInTheFile) {
  const std::string edited = "the record was changed after it had been written";
  const int32_t id = record_.requests[0].steps[3].id;
  const std::string other_id = Edited([](Json& json) {
    json["requests"][0]["ids"][3] = 1 + json["requests"][0]["ids"][3].get<int>();
  });
  ExpectDiffers(ReplayOf(other_id), {absl::StrCat("request 0, step 3: token ", id,
                                                  ", recorded: ", id + 1, ", the logits are equal"),
                                     edited});
  const std::string other_prompt =
      Edited([](Json& json) { json["requests"][1]["prompt_ids"][0] = 9; });
  ExpectDiffers(ReplayOf(other_prompt), {"request 1, step 0: ", "the logits differ", edited});
  const std::string other_hash =
      Edited([](Json& json) { json["requests"][0]["logits"][2] = "0123456789abcdef"; });
  ExpectDiffers(ReplayOf(other_hash),
                {"request 0, step 2: token ", " as recorded, but the logits differ", edited});
}

TEST_F(ReplayOfTheDemo, ToldHowARunEndsOtherwise) {
  ExpectDiffers(ReplayOf(Written([](RunRecord& r) { r.requests[1].steps.pop_back(); })),
                {"request 1, step 3: token ", "recorded: the end (max_new_tokens)",
                 "nothing else differs of what is recorded"});
  ExpectDiffers(ReplayOf(Written([](RunRecord& r) {
                  r.requests[1].steps.push_back({5, 6});
                })),
                {"request 1, step 4: the end (max_new_tokens), recorded: token 5"});
  ExpectDiffers(ReplayOf(Written([](RunRecord& r) { r.requests[1].stop_reason = "eot"; })),
                {"request 1, step 4: the end (max_new_tokens), recorded: the end (eot)"});
  const int32_t id = record_.requests[0].steps[1].id;
  ExpectDiffers(ReplayOf(text_, {absl::StrCat("run.stop_ids=", id)}),
                {"request 0, step 2: the end (eot), recorded: token ", "run.stop_ids = "});
}

TEST_F(ReplayOfTheDemo, ToldKeysPluginsAndPrograms) {
  ExpectDiffers(ReplayOf(text_, {"sampler.top_k.k=1"}),
                {"the logits are equal", "sampler.top_k.k = 1, recorded: 50"});
  ExpectDiffers(ReplayOf(text_, {"model.weights=int8"}),
                {"request 0, step 0: ", "logits differ", "model.weights = int8, recorded: auto"});
  // What changes no bit is told, and the run is equal.
  const Told told = ReplayOf(Written([](RunRecord& record) {
    record.made_of.program = "ng 0.0.1 (another)";
    record.made_of.plugins[0].version = "0.9.0";
    record.made_of.plugins[1].hash = "00000000000000aa";
    record.made_of.sdk = "1";
    record.made_of.tokenizer = "none";
    record.made_of.edits = "steer 1.0.0";
  }));
  EXPECT_TRUE(told.status.ok()) << told.status;
  EXPECT_EQ(told.verdict, "equal: 2 requests, 10 steps");
  EXPECT_THAT(told.changed,
              ElementsAre(StartsWith("tokenizer "), "edits none, recorded: steer 1.0.0",
                          StartsWith("program ng "), StartsWith("SDK "),
                          StartsWith("attention plugin flash 1.0.0 (library "),
                          HasSubstr("(library 00000000000000aa)")));
  EXPECT_THAT(told.changed[4], HasSubstr("recorded: 0.9.0"));
}

TEST_F(ReplayOfTheDemo, OneArithmeticIsEqualOnEveryLevelAndAnotherIsTold) {
  for (const IsaLevel level : SupportedIsaLevels()) {
    const std::string name(IsaName(level));
    SCOPED_TRACE(name);
    const Overrides on = {"run.isa=" + name, "run.arithmetic=fastest", "model.weights=bf16"};
    if (ArithmeticOf(level).ToString() == record_.made_of.arithmetic) {
      const Told told = ReplayOf(text_, {"run.isa=" + name});
      EXPECT_TRUE(told.status.ok()) << told.status;
      EXPECT_EQ(told.verdict, "equal: 2 requests, 10 steps");
    } else {
      ExpectDiffers(ReplayOf(text_, on), {"request 0, step 0: ", "logits differ",
                                          "recorded: " + record_.made_of.arithmetic});
    }
  }
  const std::string other =
      Written([](RunRecord& record) { record.made_of.arithmetic = "portable 99"; });
  EXPECT_THAT(ReplayOf(other).changed, ElementsAre(HasSubstr("recorded: portable 99")));
}

// One weight of a copy of the model; and the copy itself, whose path alone is another.
TEST_F(ReplayOfTheDemo, AnotherModelIsRefusedUnlessAskedFor) {
  const test::TempDir dir;
  fs::copy(NG_SOURCE_DIR "/configs/demo", dir.File("demo"), fs::copy_options::recursive);
  const Overrides moved = {"model.path=" + dir.File("demo")};
  const Told same = ReplayOf(text_, moved);
  EXPECT_TRUE(same.status.ok()) << same.status;
  EXPECT_THAT(same.changed, ElementsAre(StartsWith("model.path = " + dir.File("demo"))));
  const std::string weights = dir.File("demo/model.safetensors");
  std::string bytes = test::Slurp(weights);
  bytes[bytes.size() / 2] ^= 0x01;
  dir.Write("demo/model.safetensors", bytes);
  const Told refused = ReplayOf(text_, moved);
  EXPECT_EQ(ExitCode(refused.status), 3);
  EXPECT_THAT(
      std::string(refused.status.message()),
      AllOf(StartsWith("r.json: the model " + dir.File("demo") + " has the hash "),
            HasSubstr("must be " + record_.made_of.model), HasSubstr("--replay-any-model")));
  const Told allowed = ReplayOf(text_, moved, true);
  EXPECT_THAT(allowed.changed, Contains(HasSubstr("recorded: " + record_.made_of.model)));
  ExpectDiffers(allowed, {"request 0, step 0: ", "logits differ", "not as recorded: model "});
}

TEST_F(ReplayOfTheDemo, AnInterruptedRunIsVerifiedAsFarAsItCame) {
  const auto text = RecordOf(run_, 2);
  ASSERT_TRUE(text.ok()) << text.status();
  const RunRecord record = ParseRecord(*text, "r.json").value();
  EXPECT_EQ(record.requests[0].stop_reason, "interrupted");
  const size_t n_steps = record.requests[0].steps.size() + record.requests[1].steps.size();
  ASSERT_GE(n_steps, 5U);
  ASSERT_LT(n_steps, 10U);
  const Told told = ReplayOf(*text);
  EXPECT_TRUE(told.status.ok()) << told.status;
  EXPECT_EQ(told.verdict, absl::StrCat("equal: 2 requests, ", n_steps, " steps"));
}

TEST_F(ReplayOfTheDemo, RefusesWhatIsNoRecord) {
  const auto set = [&](const char* pointer, const Json& value) {
    return Edited([&](Json& json) { json[Json::json_pointer(pointer)] = value; });
  };
  const Json huge = Json::parse("18446744073709551615");
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {"", {"r.json"}},
      {text_.substr(0, text_.size() / 2), {"r.json"}},
      {"[]", {"is no record of ng-run"}},
      {"{}", {"is no record of ng-run"}},
      {set("/ng_record", 2), {"ng_record = 2, must be 1"}},
      {set("/ng_record", "1"), {"ng_record = \"1\", must be 1"}},
      {set("/requests/0/note", 1), {"requests[0]: unknown field \"note\"", "prompt_ids"}},
      {set("/seed", 1), {"unknown field \"seed\""}},
      {set("/requests", Json::array()), {"requests is empty"}},
      {set("/requests", 5), {"requests = 5, must be a list"}},
      {set("/requests/1", 5), {"requests[1] = 5, must be an object"}},
      {set("/requests/0/ids/1", huge), {"requests[0].ids[1] = 18446744073709551615, must be "}},
      {set("/requests/0/ids/1", -1), {"requests[0].ids[1] = -1, must be an integer in [0, "}},
      {set("/requests/0/ids/1", 1.5), {"requests[0].ids[1] = 1.5"}},
      {set("/requests/0/prompt_ids/2", "a"), {"requests[0].prompt_ids[2] = \"a\""}},
      {set("/requests/0/prompt_ids/2", 5000), {"r.json: requests[0]: ", "5000"}},
      {set("/requests/0/prompt_ids", Json::array()), {"r.json: requests[0]: "}},
      {set("/requests/0/max_new_tokens", huge), {"requests[0].max_new_tokens = 18446744073709"}},
      {set("/requests/0/stop_reason", "tired"), {"stop_reason = \"tired\"", "max_new_tokens"}},
      {set("/requests/0/logits/0", "12"), {"requests[0].logits[0] = \"12\"", "16 hexadecimal"}},
      {set("/requests/0/logits/0", "0123456789ABCDEF"), {"must be a hash"}},
      {set("/requests/0/ids", Json::array()), {"logits has 6 hashes, must be 0"}},
      {set("/config/run.threads", 2), {"config.run.threads = 2, must be a text"}},
      {set("/config", 2), {"config = 2, must be an object"}},
      {set("/plugins/0/hash", "x"), {"plugins[0].hash = \"x\""}},
      {set("/plugins/0/name", nullptr), {"plugins[0].name = null, must be a text"}},
      {set("/model", ""), {"model = \"\", must be a hash"}},
      {set("/tokenizer", "some"), {"tokenizer = \"some\", must be a hash"}},
      {set("/checksum", 1), {"checksum = 1"}},
      {Edited([](Json& json) { json.erase("isa"); }), {"has no \"isa\""}},
      {std::string(40, '[') + std::string(40, ']'), {"r.json"}},
      {"{\"ng_record\":1,\"ng_record\":1}", {"appears twice"}},
      {"{\"ng_record\":1e999}", {"r.json"}},
  };
  for (const auto& [text, parts] : cases) {
    SCOPED_TRACE(text.substr(0, 60));
    const absl::Status status = ReplayOf(text).status;
    EXPECT_EQ(ExitCode(status), 3) << status;
    for (const std::string& part : parts) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
  }
}

}  // namespace
}  // namespace ng::run
