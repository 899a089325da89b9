// No stage, and no choice, allocates per token. Counts calls of this program's operator new, which
// the libraries use too.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>

#include "core/runtime/sampling.h"
#include "plugins/sampler/banned_tokens/banned_tokens.h"
#include "plugins/sampler/greedy/greedy.h"
#include "plugins/sampler/min_p/min_p.h"
#include "plugins/sampler/repetition_penalty/repetition_penalty.h"
#include "plugins/sampler/temperature/temperature.h"
#include "plugins/sampler/top_k/top_k.h"
#include "plugins/sampler/top_p/top_p.h"

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

TEST(SamplerChain, AllocatesNothingPerToken) {
  constexpr int64_t kVocabSize = 1000;
  ModelShape model;
  model.vocab_size = kVocabSize;
  model.max_positions = 8000;
  const auto banned = std::vector<int64_t>{1, 5, 9};
  std::vector<ChainStage> stages;
  stages.push_back({"banned_tokens", *BannedTokens::Create(banned, kVocabSize), nullptr});
  stages.push_back({"repetition_penalty", *RepetitionPenalty::Create({}, model), nullptr});
  stages.push_back({"temperature", *Temperature::Create(2.0), nullptr});
  stages.push_back({"min_p", *MinP::Create(1e-9), nullptr});
  stages.push_back({"top_p", *TopP::Create(0.99), nullptr});
  stages.push_back({"top_k", *TopK::Create(40), nullptr});
  stages.push_back({"repetition_penalty", *RepetitionPenalty::Create({}, model), nullptr});
  SamplerChain chain(std::move(stages), kVocabSize);
  std::vector<float> logits(kVocabSize);
  std::iota(logits.begin(), logits.end(), -500.0F);
  for (float& logit : logits) logit /= 100.0F;
  ASSERT_TRUE(chain.Open(0, std::vector<int32_t>{1, 2, 3}).ok());

  const int64_t before = allocations;
  bool ok = true;
  for (int step = 0; step < 5000; ++step) {
    const absl::StatusOr<int32_t> token = chain.Choose(0, logits, {1, 0, step});
    ok &= token.ok() && chain.Accept(0, *token).ok();
  }
  EXPECT_EQ(allocations - before, 0);
  EXPECT_TRUE(ok);
}

TEST(SamplerChain, AllocatesNothingForGreedy) {
  std::vector<ChainStage> stages;
  stages.push_back({"greedy", std::make_unique<Greedy>(), nullptr});
  SamplerChain chain(std::move(stages), 3);
  const std::vector<float> logits = {1, 3, 2};
  const int64_t before = allocations;
  EXPECT_EQ(*chain.Choose(0, logits, {}), 1);
  EXPECT_EQ(allocations - before, 0);
}

}  // namespace
}  // namespace ng
