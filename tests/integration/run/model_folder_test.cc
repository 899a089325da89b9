// Model folders as people have them: what is refused, what a model's own metadata decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "ng/engine.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kMalformed = NG_TEST_DATA "/malformed/";
const std::string kGolden = NG_TEST_DATA "/golden/";

// A folder of a config.json and a model.safetensors from two places.
struct Folder {
  Folder(const std::string& config, const std::string& weights) {
    std::filesystem::copy(config, dir.File("config.json"));
    std::filesystem::copy(weights, dir.File("model.safetensors"));
  }
  TempDir dir;
};

TEST(MalformedModel, IsRefusedOrRunsAsTheManifestSays) {
  const auto manifest = nlohmann::json::parse(ReadFile(kMalformed + "manifest.json"));
  const std::string sound_config = kMalformed + "cfg_ok_unknown_keys/config.json";
  const std::string sound_weights = kMalformed + "st_ok_padded_metadata/model.safetensors";
  int n_configs = 0;
  int n_weights = 0;
  for (const auto& file : manifest["files"]) {
    const std::string path = file["path"];
    const bool is_config = path.starts_with("cfg_");
    if (!is_config && !path.starts_with("st_")) continue;
    ++(is_config ? n_configs : n_weights);
    SCOPED_TRACE(absl::StrCat(path, ": ", file["reason"].get<std::string>()));
    const Folder folder(is_config ? kMalformed + path : sound_config,
                        is_config ? sound_weights : kMalformed + path);
    const Result result =
        NgRun(Greedy(folder.dir.path(), "1 5 9 2", 6) + Arguments{"--output=jsonl"});
    if (file["expect"] == "ok" && !file.contains("model")) {
      ASSERT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(JsonLines(result.out).at(0)["ids"], Json({1, 5, 9, 2, 22, 22, 22, 22, 22, 22}));
    } else {
      ExpectError(result, 3, {folder.dir.path()});
    }
  }
  EXPECT_EQ(n_configs, 14);
  EXPECT_EQ(n_weights, 26);
}

// A backend that lists no feature.
const Arguments kNoWindow = {"--attention.name=arithmetic_faults",
                             "--plugins.path=" NG_BINARY_DIR
                             "/tests/fixtures/broken_plugins/arithmetic_faults"};

// Opens and loads a model for runs of up to `max_tokens`, with options as on a command line.
std::unique_ptr<Engine> Load(const std::string& dir, int64_t max_tokens,
                             const Arguments& more = {}) {
  EngineOptions options;
  options.overrides = {"model.path=" + dir, "sampler.chain=greedy"};
  for (const std::string& option : more) options.overrides.push_back(option.substr(2));
  auto engine = Engine::Open(options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  RunNeeds needs;
  needs.max_tokens = max_tokens;
  const absl::Status loaded = (*engine)->Load(needs);
  EXPECT_TRUE(loaded.ok()) << loaded;
  return *std::move(engine);
}

TEST(SlidingWindow, ARunLongerThanItIsRefusedBeforeAnyToken) {
  const std::string mistral = kGolden + "mistral/tiny";
  EXPECT_EQ(NgRun(Greedy(mistral, "1 2 3", 25) + kNoWindow).exit_code, 0);
  const Result longer = NgRun(Greedy(mistral, "1 2 3", 26) + kNoWindow);
  ExpectError(longer, 5, {"sliding window", "3 + max_new_tokens 26 = 29 > 28", "to 25"});
  EXPECT_EQ(longer.out, "");
  std::string prompt = "1";
  for (int i = 0; i < 28; ++i) prompt += " 1";
  ExpectError(NgRun(Greedy(mistral, prompt, 0) + kNoWindow), 5, {"sliding window", "29 > 28"});
}

TEST(SlidingWindow, IsSeenThroughByABackendThatListsIt) {
  const std::string model = kGolden + "mistral/window";  // a window of 6
  const auto golden = nlohmann::json::parse(ReadFile(model + "/case.json"));
  const auto prompt = golden["prompts"][0].get<std::vector<int32_t>>();
  const Arguments run = Greedy(model, absl::StrJoin(prompt, " "), 12) +
                        Arguments{"--output=jsonl", "--model.weights=f32"};
  const Arguments dry = Arguments{"--dry-run", "--model.path=" + model};
  for (const char* const name : {"flash", "reference"}) {
    const Arguments backend = {std::string("--attention.name=") + name};
    const Result seen = NgRun(run + backend);
    ASSERT_EQ(seen.exit_code, 0) << seen.err;
    EXPECT_EQ(JsonLines(seen.out).at(0)["ids"].get<std::vector<int32_t>>(),
              golden["greedy_ids"][0].get<std::vector<int32_t>>());
    EXPECT_THAT(NgRun(dry + backend).out,
                AllOf(HasSubstr("sliding window 6;"), Not(HasSubstr("must end within"))));
  }
  ExpectError(NgRun(run + kNoWindow), 5,
              {"attention 'arithmetic_faults' does not implement the model's sliding window, a run "
               "must end within it: prompt 5 + max_new_tokens 12 = 17 > 6 sliding_window"});
  EXPECT_THAT(NgRun(dry + kNoWindow).out, HasSubstr("a run must end within the sliding window 6"));
}

// Keys and values beyond the first layer depend on the window: what others have of them must too.
TEST(SlidingWindow, KeepsItsBitsThroughSharedPagesAndSnapshots) {
  const TempDir temp;
  const std::string model = kGolden + "qwen2/window";  // a window of 6 in two layers of three
  std::string prompt = "7";
  for (int i = 1; i < 40; ++i) absl::StrAppend(&prompt, " ", i * 11 % 41);
  const auto logits = [&](const Arguments& more) {
    const std::string path = temp.File("logits");
    const Result ran = NgRun(Greedy(model, prompt, 6) +
                             Arguments{"--save", path, "--save-tensors=decode_logits"} + more);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return ReadTensors(path)["decode_logits.0"].data;
  };
  const std::vector<float> plain = logits({});
  ASSERT_FALSE(plain.empty());
  EXPECT_EQ(logits({"--run.prefill_chunk=3", "--cache.name=paged"}), plain);
  EXPECT_EQ(logits({"--run.use_cache=false"}), plain);
  const std::string saved = temp.File("saved.cache");
  const std::string begin = prompt.substr(0, prompt.rfind(' '));
  ASSERT_EQ(NgRun(Greedy(model, begin, 0) + Arguments{"--save-cache", saved}).exit_code, 0);
  EXPECT_EQ(logits({"--load-cache", saved}), plain);
  // A backend that does not see through the window has other bits, and must not go beyond it.
  EXPECT_NE(
      NgRun(Greedy(model, prompt, 6) + kNoWindow + Arguments{"--load-cache", saved}).exit_code, 0);

  // The second of two equal requests begins with the first one's pages.
  EngineOptions options;
  options.overrides = {"model.path=" + model, "sampler.chain=greedy", "cache.name=paged",
                       "cache.paged.page_tokens=16"};
  const auto engine = Engine::Open(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  GenerateRequest request;
  for (int i = 0; i < 40; ++i) request.prompt_ids.push_back(i == 0 ? 7 : i * 11 % 41);
  request.max_new_tokens = 6;
  const std::vector<GenerateRequest> requests(2, request);
  ASSERT_TRUE((*engine)->Load(Needs(requests)).ok());
  GenerateOptions keep;
  keep.capture_decode_logits = true;
  const auto done = (*engine)->Generate(requests, keep);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->at(1).timings.shared_tokens, 32);
  for (const Completion& each : *done) EXPECT_EQ(each.captured.decode_logits, plain);
}

TEST(SlidingWindow, BoundsSteppingToo) {
  const auto engine = Load(kGolden + "mistral/tiny", 40, kNoWindow);
  const auto sequence = engine->OpenSequence(40);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  const SequenceId ids[] = {*sequence};
  const std::vector<int32_t> prompt(27, 1);
  ASSERT_TRUE(engine->Prefill(ids, {&prompt, 1}).ok());
  const int32_t token[] = {1};
  ASSERT_TRUE(engine->DecodeStep(ids, token).ok());
  EXPECT_EQ(ExitCode(engine->DecodeStep(ids, token).status()), 5);
  const std::vector<int32_t> more = {1};
  const absl::Status extended = engine->Extend(ids, {&more, 1}).status();
  EXPECT_EQ(ExitCode(extended), 5);
  EXPECT_THAT(std::string(extended.message()), HasSubstr("sliding window"));
  EXPECT_EQ(engine->SequenceLength(*sequence), 28);
}

// The last token is never fed, so 16 positions hold a run of 17 tokens.
TEST(PostLn, RunsOneTokenBeyondItsPositionsAndNoFurther) {
  const std::string model = kGolden + "postln/max_new_0";
  EXPECT_EQ(NgRun(Greedy(model, "1 2 3", 14)).exit_code, 0);
  ExpectError(NgRun(Greedy(model, "1 2 3", 15)), 5, {"3 + max_new_tokens 15 = 18 > 17 T_max"});
  const std::string prompt = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17";
  const Result same = NgRun(Greedy(model, prompt, 0) + Arguments{"--output=jsonl"});
  ASSERT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(JsonLines(same.out).at(0)["ids"].size(), 17U);
  // To look inside, all of the prompt has to be fed.
  const TempDir temp;
  ExpectError(NgRun(Greedy(model, prompt, 0) +
                    Arguments{"--save", temp.File("x"), "--save-tensors=logits"}),
              5, {"prompt 17 > 16 T_max"});
  // Nor is there a position to trace the last token at.
  const Result traced =
      NgRun(Greedy(model, "1 2 3", 14) +
            Arguments{"--trace-layer=0", "--save", temp.File("y"), "--save-tensors=attn_full"});
  ASSERT_EQ(traced.exit_code, 0) << traced.err;
  EXPECT_EQ(ReadTensors(temp.File("y"))["attn_full.0.layer0"].shape,
            (std::vector<int64_t>{2, 16, 16}));
}

// Products with what is packed round their inputs to bytes, as llama.cpp does and transformers does
// not.
TEST(HeldWeights, OfMxfp4ArePackedFromGgufAndByName) {
  const auto said = [](const std::string& model, const std::string& weights) {
    return NgRun({"--model.path=" + kGolden + model, "--model.weights=" + weights, "--prompt-ids=5",
                  "--run.max_new_tokens=1", "--dry-run"});
  };
  EXPECT_THAT(said("gguf/low_bits/model-LOW.gguf", "auto").out,
              HasSubstr("weights held as iq1+iq2+iq3_s+iq3_xxs+iq4_nl+iq4_xs+mxfp4+ternary"));
  EXPECT_THAT(said("gpt_oss/mxfp4", "auto").out, HasSubstr("weights held as bf16+f32\n"));
  EXPECT_THAT(said("gpt_oss/mxfp4", "mxfp4").out, HasSubstr("weights held as f32+mxfp4\n"));
  const Result none = said("gpt_oss/tiny", "mxfp4");
  EXPECT_EQ(none.exit_code, 4);
  EXPECT_THAT(none.err, HasSubstr("gpt_oss/tiny/model.safetensors is MXFP4; can run: auto, f32"));
}

class StopIdsTest : public ::testing::Test {
 protected:
  StopIdsTest() { TinyNiels().WriteTo(dir_.path()); }

  // config.json with this eos_token_id, and generation_config.json where it is not empty.
  void Write(const std::string& eos, const std::string& generation_config = "") {
    dir_.Write("config.json",
               absl::StrReplaceAll(TinyNiels().ConfigJson(), {{"{", absl::StrCat("{", eos)}}));
    std::filesystem::remove(dir_.File("generation_config.json"));
    if (!generation_config.empty()) dir_.Write("generation_config.json", generation_config);
  }

  Result DryRun(const Arguments& more = {}) {
    return NgRun(Arguments{"--config", dir_.Write("run.ini", "[model]\npath = .\n"), "--dry-run"} +
                 more);
  }

  void ExpectIds(const std::string& ids) {
    const Result result = DryRun();
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(absl::StrCat("stop ids ", ids, "\n")));
  }

  TempDir dir_;
};

TEST_F(StopIdsTest, AreTheModelsOwnEosIds) {
  Write("");
  ExpectIds("none");
  Write("\"eos_token_id\": null, ");
  ExpectIds("none");
  Write("\"eos_token_id\": 7, ");
  ExpectIds("7");
  Write("\"eos_token_id\": [7, 9, 7], ");
  ExpectIds("7,9");
}

TEST_F(StopIdsTest, GenerationConfigGoesBeforeConfig) {
  Write("\"eos_token_id\": 7, ", R"({"eos_token_id": [8, 60]})");
  ExpectIds("8,60");
  Write("\"eos_token_id\": 7, ", R"({"eos_token_id": null})");
  ExpectIds("7");
  Write("\"eos_token_id\": 7, ", "{}");
  ExpectIds("7");
}

TEST_F(StopIdsTest, EndARunAndBelongToItsIds) {
  const Arguments run = Greedy(dir_.path(), "5 6", 8) + Arguments{"--output=jsonl"};
  const Json ids = JsonLines(NgRun(run).out).at(0)["ids"];
  ASSERT_EQ(ids.size(), 10U);
  Write(absl::StrCat("\"eos_token_id\": ", ids[4].get<int>(), ", "));
  Arguments with_defaults;
  for (const std::string& argument : run) {
    if (argument.find("stop_ids") == std::string::npos) with_defaults.push_back(argument);
  }
  const Json ended = JsonLines(NgRun(with_defaults).out).at(0);
  EXPECT_EQ(ended["stop_reason"], "eot");
  EXPECT_EQ(ended["ids"].back(), ids[4]);
}

// Nothing comes from such an id: as in transformers, it ends nothing.
TEST_F(StopIdsTest, OnesOutsideTheVocabularyAreSaid) {
  Write("\"eos_token_id\": [61, 7.0], ");
  ExpectIds("7");
  const Result run = DryRun();
  for (const char* const part : {"config.json", "eos_token_id", "61", "[0, 60]", "run.stop_ids"}) {
    EXPECT_THAT(run.err, HasSubstr(part));
  }
  EXPECT_EQ(DryRun({"--model.strict=true"}).exit_code, 3);
}

TEST_F(StopIdsTest, WrongOnesAreRefusedAndMayBeOverridden) {
  Write("\"eos_token_id\": \"two\", ");
  ExpectError(DryRun(), 3, {"config.json", "eos_token_id", "two", "list"});
  Write("", R"({"eos_token_id": "two"})");
  ExpectError(DryRun(), 3, {"generation_config.json"});
}

// As in transformers, where config.json is read in its place.
TEST_F(StopIdsTest, AGenerationConfigThatIsNoJsonObjectStopsNoRun) {
  for (const char* const odd : {" ", "\xEF\xBB\xBF{\"eos_token_id\": 8}", "[1]", "{\"a\": "}) {
    Write("\"eos_token_id\": 7, ", odd);
    const Result result = DryRun();
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("stop ids 7\n"));
    EXPECT_THAT(result.out + result.err, HasSubstr("generation_config.json"));
    EXPECT_THAT(result.out + result.err, HasSubstr("the file is not used"));
    ExpectError(DryRun({"--model.strict=true"}), 3, {"generation_config.json", "not used"});
  }
}

TEST_F(StopIdsTest, TokensThatItSuppressesAreNotDrawn) {
  const Arguments greedy = Greedy(dir_.path(), "5 6", 4) + Arguments{"--output=jsonl"};
  Arguments run;
  for (const std::string& argument : greedy) {
    if (argument.find("sampler") == std::string::npos) run.push_back(argument);
  }
  run = run + Arguments{"--sampler.temperature.value=0.001"};
  const Json first = JsonLines(NgRun(run).out).at(0)["ids"][2];
  Write("", absl::StrCat("{\"suppress_tokens\": [", first.get<int>(), ", -1, 99]}"));
  EXPECT_NE(JsonLines(NgRun(run).out).at(0)["ids"][2], first);
  Write("", absl::StrCat("{\"bad_words_ids\": [[", first.get<int>(), "], [1, 2]]}"));
  const Result banned = NgRun(run);
  EXPECT_NE(JsonLines(banned.out).at(0)["ids"][2], first) << banned.err;
  EXPECT_THAT(banned.err, HasSubstr("bad_words_ids of one entry is not used"));
}

TEST(DemoStopIds, KeepTheEotOfTheTemplateFirst) {
  const TempDir temp;
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.model"}) {
    std::filesystem::copy(absl::StrCat(NG_SOURCE_DIR, "/configs/demo/", name), temp.File(name));
  }
  temp.Write("generation_config.json", R"({"eos_token_id": [2, 6]})");
  const std::string ini = temp.Write("run.ini", "[model]\npath = .\n");
  EXPECT_THAT(NgRun({"--config", ini, "--dry-run"}).out, HasSubstr("stop ids 6,2\n"));
}

TEST(DryRunOfAFamily, ShowsItsVariantsAndEachTensorsFate) {
  const TempDir temp;
  const auto dry_run = [&](const std::string& name) {
    const Result result = NgRun({"--config", temp.Write("run.ini", ""),
                                 "--model.path=" + kGolden + name, "--dry-run", "-v"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string postln = dry_run("postln/basic");
  for (const char* part :
       {"family postln", "attention 0, then (layer norm without weights, eps 1e-05) of the stream",
        "learned positions", "gelu by tanh", "no biases", "head of its own",
        "blocks_weights F32 [2, 6, 24, 24] -> part 11: layer 1 mlp down"}) {
    EXPECT_THAT(postln, HasSubstr(part));
  }
  const std::string qwen3 = dry_run("qwen3/tiny");
  for (const char* part :
       {"family qwen3", "(rms norm, eps 1e-06) attention 0; (rms norm", "head_dim 10",
        "rope 0: half-split theta 10000 over 10 dimensions", "norms of q and k heads",
        "self_attn.k_norm.weight F32 [10] -> layer 1 k norm"}) {
    EXPECT_THAT(qwen3, HasSubstr(part));
  }
  EXPECT_THAT(dry_run("mistral/tiny"), HasSubstr("sliding window 28"));
  EXPECT_THAT(dry_run("llama/rope_linear"), HasSubstr("scaled linear by 4\n"));
  EXPECT_THAT(dry_run("llama/rope_linear"),
              AllOf(HasSubstr("biases of q, k, v, output"), HasSubstr("gate; biases")));
  EXPECT_THAT(dry_run("llama/rope_llama3"), HasSubstr("scaled llama3 by 8"));
  EXPECT_THAT(dry_run("qwen2/tiny"),
              AllOf(HasSubstr("biases of q, k, v\n"), HasSubstr("head tied")));
  EXPECT_THAT(dry_run("qwen2/tiny"), Not(HasSubstr("unused")));
  EXPECT_THAT(dry_run("gpt2/hub_layout"), HasSubstr("-> unused"));
}

TEST(DryRunOfAFamily, CountsTensorsUnlessItIsToListThem) {
  const TempDir temp;
  const Arguments dry = {"--config", temp.Write("run.ini", ""),
                         "--model.path=" + kGolden + "gpt2/hub_layout", "--dry-run"};
  const std::string all = NgRun(dry + Arguments{"--verbose"}).out;
  const auto ends_of = [&all](const std::string& end) {
    int n = 0;
    for (size_t at = all.find(end); at != std::string::npos; at = all.find(end, at + 1)) ++n;
    return n;
  };
  const int n_unused = ends_of(" -> unused\n");
  EXPECT_GT(n_unused, 0);
  const std::string screen = NgRun(dry).out;
  EXPECT_THAT(screen, HasSubstr("  tensors: " + std::to_string(ends_of(" -> ") - n_unused) +
                                " used, all of the expected shapes, " + std::to_string(n_unused) +
                                " unused; -v lists them\n"));
  EXPECT_THAT(screen, Not(HasSubstr(" -> ")));
}

}  // namespace
}  // namespace ng::test
