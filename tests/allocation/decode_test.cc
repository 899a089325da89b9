// G5: a decoded token costs no allocation, step by step and in Generate. Each figure is the least
// of several runs, each with an engine of its own: a thread that starts late allocates in
// whatever it falls into, what the engine allocates is there every time.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "ng/engine.h"
#include "tests/allocation/counting_allocator.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

constexpr int kMostRuns = 5;

class DecodeAllocations
    : public testing::TestWithParam<std::tuple<const char*, const char*, const char*, int>> {
 protected:
  void SetUp() override { test::TinyNiels().WriteTo(dir_.path()); }
  virtual std::string ModelPath() const { return dir_.path(); }
  virtual std::vector<std::string> MoreOptions() const { return {}; }

  std::unique_ptr<Engine> Load(const RunNeeds& needs, const std::string& chain) {
    const auto& [attention, cache, codec, threads] = GetParam();
    EngineOptions options;
    options.overrides = {"model.path=" + ModelPath(),
                         std::string("attention.name=") + attention,
                         std::string("cache.name=") + cache,
                         "cache.paged.page_tokens=16",
                         std::string("cache.codec=") + codec,
                         "run.threads=" + std::to_string(threads),
                         "run.stop_ids=",
                         "sampler.chain=" + chain};
    for (const std::string& option : MoreOptions()) options.overrides.push_back(option);
    // It is told what was attended, and counts on a backend that can tell.
    if (std::string(cache) == "cache_faults") {
      options.overrides.insert(
          options.overrides.end(),
          {"plugins.path=" NG_BINARY_DIR "/tests/fixtures/broken_plugins/cache_faults",
           "cache.cache_faults.fault=attended"});
    }
    auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    if (!engine.ok()) return nullptr;
    const absl::Status loaded = (*engine)->Load(needs);
    EXPECT_TRUE(loaded.ok()) << loaded;
    return *std::move(engine);
  }

  // Allocations of 40 decode steps.
  int64_t Decode() {
    constexpr int kSteps = 40;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int run = 0; run < kMostRuns && least > 0; ++run) {
      const auto engine = Load({.max_tokens = 64, .max_sequences = 2}, "greedy");
      const std::vector<SequenceId> sequences = {*engine->OpenSequence(64),
                                                 *engine->OpenSequence(64)};
      const std::vector<std::vector<int32_t>> prompts = {{1, 2, 3, 4, 5, 6, 7}, {8, 9}};
      EXPECT_TRUE(engine->Prefill(sequences, prompts).ok());
      const std::vector<int32_t> tokens = {10, 11};
      EXPECT_TRUE(engine->DecodeStep(sequences, tokens).ok());
      const int64_t before = test::n_allocations;
      for (int step = 0; step < kSteps; ++step) {
        EXPECT_TRUE(engine->DecodeStep(sequences, tokens).ok());
      }
      least = std::min(least, test::n_allocations - before);
    }
    return least;
  }

  // Allocations of a Generate of two requests of `n_tokens` new ones each.
  int64_t Generate(int64_t n_tokens, const std::string& chain) {
    const std::vector<GenerateRequest> requests = {{{1, 2, 3, 4, 5}, n_tokens, {}},
                                                   {{6, 7}, n_tokens, {}}};
    GenerateOptions streamed;
    streamed.on_step = [](int, const StepRecord&) { return absl::OkStatus(); };
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int run = 0; run < kMostRuns; ++run) {
      const auto engine = Load(Needs(requests), chain);
      const int64_t before = test::n_allocations;
      const auto done = engine->Generate(requests, streamed);
      least = std::min(least, test::n_allocations - before);
      EXPECT_TRUE(done.ok()) << done.status();
      EXPECT_EQ(done->back().ids.size(), 2 + static_cast<size_t>(n_tokens));
    }
    return least;
  }

  const test::TempDir dir_;
};

TEST_P(DecodeAllocations, AreNoneInADecodeStep) { EXPECT_EQ(Decode(), 0); }

// Models of other kinds of layers: windows, norms around blocks, experts, sinks, states, latents,
// inputs of each layer.
class KindAllocations : public DecodeAllocations {
 protected:
  std::string ModelPath() const override { return NG_TEST_DATA "/golden/" + model_; }

  std::string model_;
};

TEST_P(KindAllocations, AreNoneInADecodeStep) {
  for (const char* model : {"mistral/window", "gemma2/tiny", "glm4_moe/tiny", "gpt_oss/mxfp4",
                            "lfm2/tiny", "qwen3_next/tiny", "nemotron_h/tiny", "deepseek_v3/tiny",
                            "gemma4/inputs", "gemma4/experts"}) {
    SCOPED_TRACE(model);
    model_ = model;
    EXPECT_EQ(Decode(), 0);
  }
}

// Checkpoints that move along with the answers (cache.checkpoints).
class CheckpointAllocations : public KindAllocations {
 protected:
  std::vector<std::string> MoreOptions() const override {
    return {"cache.checkpoints=6", "run.prefill_chunk=8"};
  }
};

TEST_P(CheckpointAllocations, DoNotGrowWithTheTokensOfGenerate) {
  for (const char* model : {"mistral/window", "gemma4/inputs", "qwen3_5/tiny", "nemotron_h/tiny"}) {
    SCOPED_TRACE(model);
    model_ = model;
    EXPECT_EQ(Generate(16, "greedy"), Generate(50, "greedy"));
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, CheckpointAllocations,
                         testing::Combine(testing::Values("flash"), testing::Values("paged"),
                                          testing::Values("bf16"), testing::Values(1, 2)));

INSTANTIATE_TEST_SUITE_P(Threads, KindAllocations,
                         testing::Combine(testing::Values("flash"),
                                          testing::Values("contiguous", "paged"),
                                          testing::Values("bf16"), testing::Values(1, 2)));

TEST_P(DecodeAllocations, DoNotGrowWithTheTokensOfGenerate) {
  for (const char* chain : {"temperature,top_k,top_p", "repetition_penalty,min_p", "greedy"}) {
    EXPECT_EQ(Generate(20, chain), Generate(40, chain)) << chain;
  }
}

INSTANTIATE_TEST_SUITE_P(StoresCodecsAndThreads, DecodeAllocations,
                         testing::Combine(testing::Values("flash"),
                                          testing::Values("contiguous", "paged"),
                                          testing::Values("f32", "bf16", "f16", "int4"),
                                          testing::Values(1, 2)));
INSTANTIATE_TEST_SUITE_P(Reference, DecodeAllocations,
                         testing::Combine(testing::Values("reference"),
                                          testing::Values("contiguous"), testing::Values("int8"),
                                          testing::Values(2)));

INSTANTIATE_TEST_SUITE_P(AttendedMass, DecodeAllocations,
                         testing::Combine(testing::Values("reference"),
                                          testing::Values("cache_faults"), testing::Values("f32"),
                                          testing::Values(1, 2)));

// Drafts of a sequence's own tokens, and of the same model once more: all that they need is there
// before the first token.
class DraftAllocations : public DecodeAllocations {
 protected:
  std::vector<std::string> MoreOptions() const override {
    return {"drafter.name=" + drafter_, "drafter.ngram.min=1", "drafter.model.path=" + ModelPath(),
            "drafter.gamma=3", "drafter.adapt=false"};
  }

  std::string drafter_;
};

TEST_P(DraftAllocations, DoNotGrowWithTheTokensOfGenerate) {
  for (const char* drafter : {"ngram", "model"}) {
    drafter_ = drafter;
    // Not always as many: both requests may end in one step, or each in its own.
    EXPECT_LE(Generate(40, "greedy"), Generate(20, "greedy")) << drafter;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, DraftAllocations,
                         testing::Combine(testing::Values("flash"),
                                          testing::Values("contiguous", "paged"),
                                          testing::Values("bf16"), testing::Values(1, 2)));

// Behind an answer, the same answer again comes to no place that the stage has not met: nothing is
// allocated, also where lists lie within lists.
class GrammarAllocations : public DecodeAllocations {
 protected:
  void SetUp() override {
    test::TinyNiels model;
    model.vocab_size = 1024;
    model.WriteTo(dir_.path());
    std::filesystem::copy(NG_TEST_DATA "/tokenizers/spm_unigram/tokenizer.model", dir_.path());
  }
  // A list may end within a token, and behind it there are many places at once.
  std::vector<std::string> MoreOptions() const override {
    std::string words = "\" \"";
    for (char c = 'a'; c <= 'z'; ++c) words += std::string(" | \"") + c + "\" | \"-" + c + "\"";
    return {"sampler.grammar.gbnf=root ::= list (" + words + ")+\nlist ::= (\"(\" list \")\" | " +
                words + ")*",
            "sampler.temperature.value=5"};
  }
  int64_t GenerateAgain(int64_t n_tokens) {
    const std::vector<GenerateRequest> requests = {{{1, 2, 3, 4, 5}, n_tokens, {}}};
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int run = 0; run < 2; ++run) {
      const auto engine = Load(Needs(requests), "grammar,temperature");
      if (engine == nullptr) return -1;
      EXPECT_TRUE(engine->Generate(requests, {}).ok());
      const int64_t before = test::n_allocations;
      const auto done = engine->Generate(requests, {});
      least = std::min(least, test::n_allocations - before);
      EXPECT_TRUE(done.ok()) << done.status();
      EXPECT_EQ(done->back().ids.size(), 5 + static_cast<size_t>(n_tokens));
    }
    return least;
  }
};

TEST_P(GrammarAllocations, AreNoneWhereTheAnswerHasBeen) {
  EXPECT_EQ(GenerateAgain(20), GenerateAgain(50));
}

INSTANTIATE_TEST_SUITE_P(Threads, GrammarAllocations,
                         testing::Combine(testing::Values("flash"), testing::Values("contiguous"),
                                          testing::Values("f32"), testing::Values(1)));

TEST(CountingAllocator, CountsNewAndMalloc) {
  const int64_t before = test::n_allocations;
  const auto counted = std::make_unique<std::vector<int>>(100);
  EXPECT_EQ(test::n_allocations - before, 2);
}

}  // namespace
}  // namespace ng
