// No stage, and no choice, allocates per token. Counts calls of this program's operator new, which
// the libraries use too.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>

#include "core/plugin/guarded_sampler.h"
#include "core/sampling/sampling.h"
#include "plugins/sampler/banned_tokens/banned_tokens.h"
#include "plugins/sampler/dry/dry.h"
#include "plugins/sampler/frequency_penalty/count_penalty.h"
#include "plugins/sampler/greedy/greedy.h"
#include "plugins/sampler/logit_bias/logit_bias.h"
#include "plugins/sampler/min_p/min_p.h"
#include "plugins/sampler/mirostat/mirostat.h"
#include "plugins/sampler/repetition_penalty/repetition_penalty.h"
#include "plugins/sampler/stop_texts/stop_texts.h"
#include "plugins/sampler/temperature/temperature.h"
#include "plugins/sampler/thoughts/thoughts.h"
#include "plugins/sampler/top_k/top_k.h"
#include "plugins/sampler/top_n_sigma/top_n_sigma.h"
#include "plugins/sampler/top_p/top_p.h"
#include "plugins/sampler/typical_p/typical_p.h"
#include "plugins/sampler/xtc/xtc.h"

namespace {
std::atomic<int64_t> allocations = 0;
}  // namespace

// None is inlined: GCC 12 takes what is inside for the wrong partner of the other.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t& /*tag*/) noexcept {
  ++allocations;
  return std::malloc(size);
}
[[gnu::noinline]] void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t /*size*/) noexcept {
  std::free(memory);
}

namespace ng {
namespace {

// Keeps every other token, over a row and over a list.
class Masks final : public SamplerStage {
 public:
  explicit Masks(int64_t vocab_size) : bits_((vocab_size + 63) / 64, 0x5555555555555555) {}
  absl::Status Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) override {
    candidates.Mask(bits_);
    candidates.KeepIds(ids_);
    return candidates.MaxLogit().status();
  }

 private:
  std::vector<uint64_t> bits_;
  std::vector<int32_t> ids_ = {2, 4, 6, 8, 40, 42, 60, 90, 120, 400, 490, 500};
};

class AllocationTest : public ::testing::TestWithParam<bool> {};

TEST_P(AllocationTest, IsNothingPerToken) {
  constexpr int64_t kVocabSize = 1000;
  static constexpr PluginDescriptor kDescriptor = EveryCpuPlugin("sampler", "here", "1", "", {});
  PluginContext context;
  context.model.vocab_size = kVocabSize;
  context.model.max_positions = 8000;
  context.check = GetParam();
  const std::vector<std::string_view> token_bytes(kVocabSize, "ab");
  context.token_bytes = token_bytes;
  const auto banned = std::vector<int64_t>{1, 5, 9};
  const auto biases = std::vector<std::string_view>{"7=1.5"};
  const auto texts = std::vector<std::string_view>{"bb", "abc"};
  std::vector<ChainStage> stages;
  const auto add = [&](const char* name, absl::StatusOr<std::unique_ptr<SamplerStage>> stage) {
    stages.push_back({name, std::make_unique<GuardedSampler>(LoadedPlugin{&kDescriptor, "/here.so"},
                                                             *std::move(stage), context)});
  };
  add("thoughts",
      Thoughts::Create(3, R"({"begin": [970], "ends": [[971, 972]], "close": [971, 972]})",
                       context));
  add("banned_tokens", BannedTokens::Create(banned, kVocabSize));
  add("repetition_penalty", RepetitionPenalty::Create({}, context.model));
  add("frequency_penalty",
      std::make_unique<CountPenalty>(CountsAs::kPresence, CountPenaltyOptions(), context.model));
  add("dry", Dry::Create({.multiplier = 0.01, .base = 1, .allowed = 1}, context));
  add("logit_bias", LogitBias::Create(biases, kVocabSize));
  add("stop_texts", StopTexts::Create(texts, context));
  add("xtc", Xtc::Create({.threshold = 0.01}, kVocabSize));
  add("temperature", Temperature::Create(2.0));
  add("top_n_sigma", TopNSigma::Create(50.0));
  add("typical_p", TypicalP::Create(0.9999999));
  add("min_p", MinP::Create(1e-9));
  add("top_p", TopP::Create(0.99));
  add("masks", std::make_unique<Masks>(kVocabSize));
  add("top_k", TopK::Create(40));
  add("repetition_penalty", RepetitionPenalty::Create({}, context.model));
  add("masks", std::make_unique<Masks>(kVocabSize));
  add("mirostat", Mirostat::Create({}, context.model));
  SamplerChain chain(std::move(stages), kVocabSize);
  std::vector<float> logits(kVocabSize);
  std::iota(logits.begin(), logits.end(), -500.0F);
  for (float& logit : logits) logit /= 100.0F;
  ASSERT_TRUE(chain.Open(0, std::vector<int32_t>{1, 2, 3}).ok());

  const int64_t before = allocations;
  bool ok = true;
  for (int step = 0; step < 5000; ++step) {
    const absl::StatusOr<int32_t> token = chain.Choose(0, logits, {1, 0, step, 0});
    ok &= token.ok() && chain.Accept(0, *token).ok() && chain.HeldBytes(0).ok();
  }
  EXPECT_EQ(allocations - before, 0);
  EXPECT_TRUE(ok);
}

TEST(SamplerChain, AllocatesNothingForGreedy) {
  std::vector<ChainStage> stages;
  stages.push_back({"greedy", std::make_unique<Greedy>()});
  SamplerChain chain(std::move(stages), 3);
  const std::vector<float> logits = {1, 3, 2};
  const int64_t before = allocations;
  EXPECT_EQ(*chain.Choose(0, logits, {}), 1);
  EXPECT_EQ(allocations - before, 0);
}

INSTANTIATE_TEST_SUITE_P(SamplerChain, AllocationTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Checked" : "Guarded"; });

}  // namespace
}  // namespace ng
