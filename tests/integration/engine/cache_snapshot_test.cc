// Snapshots of a prefilled cache in whole runs: what is read from one gives the bits of what is
// computed, and what does not fit or is damaged is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ng/engine.h"
#include "ng/isa.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kContext = 200;
constexpr size_t kFixedBytes = 56;  // of a snapshot, up to its fields

std::vector<int32_t> RandomIds(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>(random() % 61));
  return ids;
}

std::vector<int32_t> First(const std::vector<int32_t>& ids, size_t n) {
  return {ids.begin(), ids.begin() + static_cast<int64_t>(n)};
}

class CacheSnapshot : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    models_ = new TempDir;
    TinyNiels model;
    model.max_positions = kContext;
    std::filesystem::create_directory(Model());
    model.WriteTo(Model());
    model.seed = 2;
    std::filesystem::create_directory(OtherModel());
    model.WriteTo(OtherModel());
  }
  static void TearDownTestSuite() {
    delete models_;
    models_ = nullptr;
  }
  static std::string Model() { return models_->File("model"); }
  static std::string OtherModel() { return models_->File("other"); }

  static Arguments Prompt(const std::vector<int32_t>& ids, int max_new = 6) {
    return Greedy(Model(), absl::StrJoin(ids, " "), max_new) + Arguments{"--run.stop_ids="};
  }

  // Runs, and gives the generated tokens' logits.
  std::vector<float> DecodeLogits(const Arguments& arguments) const {
    const std::string path = dir_.File("logits.safetensors");
    const Result ran =
        NgRun(arguments + Arguments{"--save", path, "--save-tensors", "decode_logits"});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return ReadTensors(path)["decode_logits.0"].data;
  }

  static void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_FALSE(a.empty());
    ASSERT_EQ(a.size(), b.size());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
  }

  // A snapshot of the first tokens of `prompt_`.
  std::string Save(const Arguments& ways = {}, size_t n_tokens = 37) const {
    std::string path = dir_.File("saved.cache");
    const Result saved =
        NgRun(Prompt(First(prompt_, n_tokens), 0) + ways + Arguments{"--save-cache", path});
    EXPECT_EQ(saved.exit_code, 0) << saved.err;
    return path;
  }

  const TempDir dir_;
  const std::vector<int32_t> prompt_ = RandomIds(70, 1);
  static TempDir* models_;
};

TempDir* CacheSnapshot::models_ = nullptr;

TEST_F(CacheSnapshot, GivesTheBitsOfARunWithoutItForEveryStoreCodecAndBackend) {
  for (const char* attention : {"flash", "reference", "sparse"}) {
    for (const char* codec : {"f32", "bf16", "f16", "int8", "int4"}) {
      const Arguments with = {absl::StrCat("--attention.name=", attention),
                              absl::StrCat("--cache.codec=", codec), "--attention.sparse.pages=3"};
      const std::vector<float> plain = DecodeLogits(Prompt(prompt_) + with);
      std::string images[2];
      for (const int from : {0, 1}) {
        const Arguments stores[] = {{"--cache.name=contiguous"},
                                    {"--cache.name=paged", "--cache.paged.page_tokens=16"}};
        const std::string path = Save(with + stores[from]);
        images[from] = ReadFile(path);
        for (const int to : {0, 1}) {
          ExpectSameBits(plain, DecodeLogits(Prompt(prompt_) + with + stores[to] +
                                             Arguments{"--load-cache", path}));
        }
      }
      EXPECT_EQ(images[0], images[1]) << "stores write other files with " << codec;
    }
  }
}

TEST_F(CacheSnapshot, GoesOnFromAnyLengthInAnySplit) {
  const std::vector<float> plain = DecodeLogits(Prompt(prompt_));
  for (const size_t n : {1, 15, 16, 17, 32, 69, 70}) {  // the last is the prompt itself
    const std::string path = Save({"--run.prefill_chunk=7"}, n);
    for (const char* chunk : {"0", "5"}) {
      ExpectSameBits(plain, DecodeLogits(Prompt(prompt_) +
                                         Arguments{"--load-cache", path, "--run.threads=2",
                                                   absl::StrCat("--run.prefill_chunk=", chunk)}));
    }
  }
}

TEST_F(CacheSnapshot, SaysHowManyTokensCameFromIt) {
  const Arguments load = {"--load-cache", Save(), "--output=jsonl"};
  const Result longer = NgRun(Prompt(prompt_) + load);
  EXPECT_THAT(longer.err, HasSubstr("prefill 33 tokens"));
  EXPECT_THAT(longer.err, HasSubstr(", loaded 37 of 70 prompt tokens, cut after 6 tokens"));
  EXPECT_EQ(JsonLines(longer.out)[0]["timings"]["loaded_tokens"], 37);
  EXPECT_EQ(JsonLines(longer.out)[0]["timings"]["prefill_tokens"], 33);
  // Of the prompt itself the last token is computed again.
  const Result equal = NgRun(Prompt(First(prompt_, 37)) + load);
  EXPECT_THAT(equal.err, HasSubstr(", loaded 36 of 37 prompt tokens, cut after 6 tokens"));
  const Result without = NgRun(Prompt(prompt_) + Arguments{"--output=jsonl"});
  EXPECT_THAT(without.err, Not(HasSubstr("loaded")));
  EXPECT_EQ(JsonLines(without.out)[0]["timings"].count("loaded_tokens"), 0U);
}

TEST_F(CacheSnapshot, IsSavedBesideWhatTheRunGenerates) {
  const std::string path = dir_.File("beside.cache");
  const Result with = NgRun(Prompt(First(prompt_, 37)) + Arguments{"--save-cache", path});
  EXPECT_EQ(with.out, NgRun(Prompt(First(prompt_, 37))).out);
  EXPECT_EQ(ReadFile(path), ReadFile(Save()));
}

TEST_F(CacheSnapshot, CanBeExtendedIntoAnother) {
  const std::string path = Save();
  const std::string longer = dir_.File("longer.cache");
  const Arguments load = Prompt(prompt_, 0) + Arguments{"--load-cache", path};
  const Result both = NgRun(load + Arguments{"--save-cache", longer});
  ASSERT_EQ(both.exit_code, 0) << both.err;
  EXPECT_EQ(ReadFile(longer), ReadFile(Save({}, prompt_.size())));
  ExpectError(NgRun(load + Arguments{"--save-cache", path}), 2, {"would overwrite an input"});
}

TEST_F(CacheSnapshot, ServesManyPrompts) {
  std::string lines;
  for (int i = 0; i < 5; ++i) {
    std::vector<int32_t> prompt = First(prompt_, i == 0 ? 37 : 50);
    prompt.back() = i == 0 ? prompt.back() : i;
    lines += Json{{"prompt_ids", prompt}, {"max_new_tokens", 4}}.dump() + "\n";
  }
  const Arguments run = {"--model.path=" + Model(), "--sampler.chain=greedy",
                         "--run.stop_ids=", "--prompts", dir_.Write("p.jsonl", lines)};
  const std::string plain = NgRun(run).out;
  const Arguments load = {"--load-cache", Save()};
  EXPECT_EQ(NgRun(run + load).out, plain);
  EXPECT_EQ(NgRun(run + load + Arguments{"--cache.max_sequences=2"}).out, plain);
  const Arguments paged = {"--cache.name=paged", "--cache.paged.page_tokens=16",
                           "--cache.paged.pool_tokens=128"};
  const Result shared = NgRun(run + load + paged);
  EXPECT_EQ(shared.out, plain) << shared.err;
  EXPECT_THAT(shared.err, HasSubstr("loaded"));
}

TEST_F(CacheSnapshot, RefusesPromptsThatDoNotBeginWithIt) {
  const Arguments load = {"--load-cache", Save()};
  std::vector<int32_t> other = prompt_;
  other[20] = (other[20] + 1) % 61;
  ExpectError(NgRun(Prompt(other) + load), 2,
              {"does not begin with the 37 tokens of ", "saved.cache",
               absl::StrCat("token 20 is ", other[20], ", must be ", prompt_[20])});
  ExpectError(NgRun(Prompt(First(prompt_, 36)) + load), 2, {"saved.cache", "it has only 36"});
  const std::string lines = Json{{"prompt_ids", prompt_}}.dump() + "\n" +
                            Json{{"prompt_ids", First(prompt_, 9)}}.dump() + "\n";
  ExpectError(
      NgRun(Arguments{"--model.path=" + Model(), "--prompts", dir_.Write("two.jsonl", lines)} +
            load),
      2, {"two.jsonl:2: ", "it has only 9"});
}

TEST_F(CacheSnapshot, RefusesWhatWasMadeWithAnythingElse) {
  const std::string path = Save();
  const Arguments run = Prompt(prompt_) + Arguments{"--load-cache", path};
  ExpectError(NgRun(run + Arguments{"--model.path=" + OtherModel()}), 3,
              {path, "was made with model = ", ", this run has "});
  ExpectError(NgRun(run + Arguments{"--model.weights=bf16"}), 3,
              {path, "model.weights = f32, this run has bf16"});
  ExpectError(NgRun(run + Arguments{"--attention.name=reference"}), 3,
              {path, "attention = flash 1.0.0, this run has reference 1.0.0"});
  const Arguments sparse = {"--attention.name=sparse", "--attention.sparse.pages=3"};
  const std::string sparse_path = Save(sparse);
  ExpectError(NgRun(Prompt(prompt_) + sparse +
                    Arguments{"--load-cache", sparse_path, "--attention.sparse.pages=4"}),
              3, {sparse_path, "pages = 3", "this run has sparse 1.0.0, pages = 4"});
  Save();
  ExpectError(NgRun(run + Arguments{"--cache.codec_v=int8"}), 3,
              {path, "cache.codec_v = f32, this run has int8"});
  ExpectError(NgRun(DemoTurn(3) + Arguments{"--load-cache", path}), 3, {path, "shape = 2 layers"});
  // One weight and nothing else.
  const TempDir changed;
  TinyNiels model;
  model.max_positions = kContext;
  model.WriteTo(changed.path(), [](auto& tensors) { tensors.back().data.back() += 0.01F; });
  ExpectError(NgRun(run + Arguments{"--model.path=" + changed.path()}), 3, {"with model = "});
  // What is not of the weights: another base of the rotation.
  model.rope_theta = 20000.0;
  model.WriteTo(changed.path());
  ExpectError(NgRun(run + Arguments{"--model.path=" + changed.path()}), 3, {"with model = "});
}

TEST_F(CacheSnapshot, IsReadOnEveryLevelOfItsArithmetic) {
  for (const IsaLevel from : SupportedIsaLevels()) {
    const auto on = [](IsaLevel level) {
      return Arguments{absl::StrCat("--run.isa=", std::string(IsaName(level))),
                       "--model.weights=bf16", "--cache.codec=bf16"};
    };
    const std::string path = Save(on(from));
    const std::vector<float> plain = DecodeLogits(Prompt(prompt_) + on(from));
    for (const IsaLevel to : SupportedIsaLevels()) {
      SCOPED_TRACE(absl::StrCat(std::string(IsaName(from)), " to ", std::string(IsaName(to))));
      const Arguments run = Prompt(prompt_) + on(to) + Arguments{"--load-cache", path};
      const std::string had = ArithmeticOf(from).ToString();
      const std::string has = ArithmeticOf(to).ToString();
      if (had == has) {
        ExpectSameBits(plain, DecodeLogits(run));
      } else {
        ExpectError(
            NgRun(run), 3,
            {path, absl::StrCat("was made with arithmetic = ", had, ", this run has ", has)});
      }
    }
  }
}

TEST_F(CacheSnapshot, RefusesAnotherTokenizer) {
  const std::string path = dir_.File("demo.cache");
  const Arguments turn = DemoTurn(0);
  ASSERT_EQ(NgRun(turn + Arguments{"--save-cache", path}).exit_code, 0);
  const Arguments load = {"--load-cache", path};
  ASSERT_EQ(NgRun(turn + load).exit_code, 0);
  const Result ids = NgRun(turn + Arguments{"--output=jsonl"});
  const std::string prompt =
      absl::StrJoin(JsonLines(ids.out)[0]["prompt_ids"].get<std::vector<int>>(), " ");
  // A vocabulary as large as can be in place of the demo's.
  const TempDir bare;
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::copy(std::string(NG_SOURCE_DIR "/configs/demo/") + name, bare.File(name));
  }
  ExpectError(NgRun(Greedy(bare.path(), prompt, 1) + load), 3,
              {path, "tokenizer = ", ", this run has none"});
}

TEST_F(CacheSnapshot, NeedsACacheThatKeepsSnapshots) {
  const Arguments run = Prompt(prompt_) + Arguments{"--cache.name=no_snapshots",
                                                    "--plugins.path=" NG_BINARY_DIR
                                                    "/tests/fixtures/broken_plugins/no_snapshots"};
  const std::string path = dir_.File("never.cache");
  ExpectError(NgRun(run + Arguments{"--save-cache", path}), 4,
              {"cache plugin 'no_snapshots' 1.0.0", "keeps no snapshots"});
  ExpectError(NgRun(run + Arguments{"--load-cache", Save()}), 4, {"keeps no snapshots"});
  ExpectError(NgRun(run), 4, {"create was reached"});
}

// A byte of every region, and every way to end too early or too late.
TEST_F(CacheSnapshot, RefusesEveryDamagedRegion) {
  const std::string path = Save();
  const std::string whole = ReadFile(path);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, whole.data() + 16, 8);
  const size_t layer = (whole.size() - header_bytes) / 2;
  const size_t ids = header_bytes - 8 - 37 * 4;
  const auto expect_refused = [&](const std::string& bytes, const std::string& part) {
    const std::string damaged = dir_.Write("damaged.cache", bytes);
    for (const char* max_new : {"0", "3"}) {
      const Result result =
          NgRun(Prompt(prompt_) +
                Arguments{"--load-cache", damaged, absl::StrCat("--run.max_new_tokens=", max_new)});
      ExpectError(result, 3, {damaged + ": ", part});
      EXPECT_EQ(result.out, "");
    }
  };
  const struct {
    size_t at;
    const char* part;
  } regions[] = {{0, "is no cache snapshot"},
                 {8, "version 3, must be 2"},
                 {12, "header's checksum"},
                 {16, "header"},
                 {24, "bytes, must have"},
                 {32, "bytes, must have"},
                 {40, "bytes, must have"},
                 {48, "header's checksum"},
                 {kFixedBytes, "header's checksum"},
                 {kFixedBytes + 20, "header's checksum"},
                 {ids - 1, "header's checksum"},
                 {ids, "header's checksum"},
                 {header_bytes - 8, "header's checksum"},
                 {header_bytes, "layer 0's checksum"},
                 {header_bytes + layer - 8, "layer 0's checksum"},
                 {header_bytes + layer, "layer 1's checksum"},
                 {whole.size() - 9, "layer 1's checksum"},
                 {whole.size() - 1, "layer 1's checksum"}};
  for (const auto& region : regions) {
    std::string bytes = whole;
    bytes[region.at] = static_cast<char>(bytes[region.at] ^ 1);
    expect_refused(bytes, region.part);
  }
  for (const size_t n :
       {size_t{0}, size_t{4}, size_t{20}, kFixedBytes, ids + 2, header_bytes - 1, header_bytes,
        header_bytes + layer / 2, header_bytes + layer, whole.size() - 1}) {
    expect_refused(whole.substr(0, n), "");
  }
  expect_refused(whole + "x", "must have");
}

TEST_F(CacheSnapshot, RefusesFilesThatAreNotThereAndTargetsThatCannotBeWritten) {
  const Arguments run = Prompt(prompt_);
  ExpectError(NgRun(run + Arguments{"--load-cache", dir_.File("absent")}), 3, {"absent"});
  ExpectError(NgRun(run + Arguments{"--load-cache", dir_.path()}), 3, {"is a folder"});
  ExpectError(NgRun(run + Arguments{"--save-cache", dir_.File("absent/x")}), 7, {"absent/x"});
  ExpectError(NgRun(run + Arguments{"--save-cache", "/dev/full"}), 7, {"/dev/full"});
  EXPECT_THAT(dir_.Names(), ::testing::IsEmpty());
}

TEST_F(CacheSnapshot, RefusesWhatDoesNotGoTogether) {
  const std::string path = Save();
  const Arguments run = Prompt(prompt_);
  const Arguments load = {"--load-cache", path};
  ExpectError(NgRun(run + load + Arguments{"--run.use_cache=false"}), 2, {"run.use_cache"});
  ExpectError(NgRun(run + load + Arguments{"--save", dir_.File("t")}), 2,
              {"--load-cache", "decode_logits"});
  ExpectError(NgRun(run + Arguments{"--save-cache", path, "--save", path}), 2,
              {"--save and --save-cache name one file"});
  ExpectError(NgRun(Demo() + Arguments{"--chat"} + load), 2, {"--load-cache", "--chat"});
  ExpectError(NgRun(run + Arguments{"--save-cache", ""}), 2, {"--save-cache needs a file name"});
  const std::string line = Json{{"prompt_ids", prompt_}}.dump() + "\n";
  ExpectError(NgRun({"--model.path=" + Model(), "--prompts", dir_.Write("two.jsonl", line + line),
                     "--save-cache", path}),
              2, {"two.jsonl: holds 2 prompts, --save-cache takes one"});
}

// The engine's own calls, over and over in one process and through files.
class CacheSnapshotCycles : public CacheSnapshot {
 protected:
  static std::unique_ptr<Engine> Load(const std::vector<std::string>& ways) {
    EngineOptions options;
    options.overrides = {"model.path=" + Model(), "cache.max_sequences=2"};
    options.overrides.insert(options.overrides.end(), ways.begin(), ways.end());
    auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    const absl::Status loaded = (*engine)->Load({.max_tokens = kContext, .snapshots = true});
    EXPECT_TRUE(loaded.ok()) << loaded;
    return *std::move(engine);
  }

  static std::vector<float> Decode(Engine& engine, SequenceId sequence, int32_t token) {
    const auto step = engine.DecodeStep({&sequence, 1}, {&token, 1});
    EXPECT_TRUE(step.ok()) << step.status();
    const float* row = step->logits.Row(0);
    return {row, row + step->logits.extent[1]};
  }
};

TEST_F(CacheSnapshotCycles, HundredTimesKeepEveryBit) {
  for (const char* codec : {"f32", "int4"}) {
    const std::vector<std::string> ways[] = {
        {absl::StrCat("cache.codec=", codec)},
        {absl::StrCat("cache.codec=", codec), "cache.name=paged"}};
    const std::unique_ptr<Engine> engines[] = {Load(ways[0]), Load(ways[1])};
    const SequenceId first = *engines[0]->OpenSequence(kContext);
    ASSERT_TRUE(engines[0]->Prefill({&first, 1}, {&prompt_, 1}).ok());
    const std::string path = dir_.File("cycle.cache");
    ASSERT_TRUE(engines[0]->SaveSequence(first, prompt_, path).ok());
    const std::string bytes = ReadFile(path);
    const std::vector<float> logits = Decode(*engines[0], first, 7);
    for (int i = 0; i < 100; ++i) {
      Engine& engine = *engines[i % 2];
      const auto loaded = engine.LoadSequence(path, kContext);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      ASSERT_EQ(loaded->ids, prompt_);
      ASSERT_TRUE(engine.SaveSequence(loaded->sequence, loaded->ids, path).ok());
      ASSERT_EQ(ReadFile(path), bytes) << i;
      ExpectSameBits(Decode(engine, loaded->sequence, 7), logits);
      engine.CloseSequence(loaded->sequence);
    }
    EXPECT_EQ(StatisticValue(engines[1]->CacheStatistics().value(), "pages_held"), 0);
  }
}

TEST_F(CacheSnapshotCycles, LeaveNothingOpenWhenTheyFail) {
  const std::unique_ptr<Engine> engine = Load({"cache.name=paged", "cache.max_sequences=1"});
  const SequenceId sequence = *engine->OpenSequence(kContext);
  ASSERT_TRUE(engine->Prefill({&sequence, 1}, {&prompt_, 1}).ok());
  const std::string path = dir_.File("x.cache");
  EXPECT_EQ(ExitCode(engine->SaveSequence(sequence, First(prompt_, 9), path)), 2);
  EXPECT_EQ(ExitCode(engine->SaveSequence(sequence, {}, path)), 2);
  ASSERT_TRUE(engine->SaveSequence(sequence, prompt_, path).ok());
  engine->CloseSequence(sequence);
  EXPECT_EQ(ExitCode(engine->LoadSequence(path, 69).status()), 5);
  EXPECT_EQ(ExitCode(engine->LoadSequence(path, kContext + 1).status()), 5);
  std::string damaged = ReadFile(path);
  damaged.back() ^= 1;
  EXPECT_EQ(ExitCode(engine->LoadSequence(dir_.Write("y.cache", damaged), 100).status()), 3);
  EXPECT_EQ(StatisticValue(engine->CacheStatistics().value(), "pages_held"), 0);
  EXPECT_TRUE(engine->LoadSequence(path, 70).ok());
}

TEST_F(CacheSnapshotCycles, NeedALoadThatKnowsOfThem) {
  EngineOptions options;
  options.overrides = {"model.path=" + Model()};
  const auto engine = Engine::Open(options);
  ASSERT_TRUE(engine.ok());
  EXPECT_EQ(ExitCode((*engine)->LoadSequence("x", 9).status()), 1);
  ASSERT_TRUE((*engine)->Load({.max_tokens = 9}).ok());
  EXPECT_EQ(ExitCode((*engine)->LoadSequence("x", 9).status()), 1);
  GenerateRequest request{{1, 2, 3}, 1, {}};
  request.save_cache = dir_.File("never.cache");
  EXPECT_EQ(ExitCode((*engine)->Generate({&request, 1}, {}).status()), 1);
}

}  // namespace
}  // namespace ng::test
