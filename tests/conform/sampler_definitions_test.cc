// The shipped sampler stages leave what their definitions leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ng/conform/sampler.h"
#include "plugins/sampler/banned_tokens/banned_tokens.h"
#include "plugins/sampler/greedy/greedy.h"
#include "plugins/sampler/min_p/min_p.h"
#include "plugins/sampler/repetition_penalty/repetition_penalty.h"
#include "plugins/sampler/temperature/temperature.h"
#include "plugins/sampler/top_k/top_k.h"
#include "plugins/sampler/top_p/top_p.h"

namespace ng::conform {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr size_t kWindow = 5;

using TokenSpan = std::span<const int32_t>;

// The definitions, in the plainest form.

std::vector<int32_t> ByFallingLogit(const TokenLogits& logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  return ids;
}

TokenLogits First(size_t n, const TokenLogits& logits) {
  const std::vector<int32_t> ids = ByFallingLogit(logits);
  TokenLogits left(logits.size(), -kInf);
  for (size_t i = 0; i < n; ++i) left[ids[i]] = logits[ids[i]];
  return left;
}

TokenLogits TopKDefinition(TokenSpan /*tokens*/, const TokenLogits& logits) {
  return First(7, logits);
}

TokenLogits GreedyDefinition(TokenSpan /*tokens*/, const TokenLogits& logits) {
  return First(1, logits);
}

TokenLogits TemperatureDefinition(TokenSpan /*tokens*/, TokenLogits logits) {
  for (float& logit : logits) logit /= 0.7F;
  return logits;
}

TokenLogits TopPDefinition(TokenSpan /*tokens*/, const TokenLogits& logits) {
  const std::vector<int32_t> ids = ByFallingLogit(logits);
  const auto weight = [&](int32_t id) {
    return std::exp(static_cast<double>(logits[id]) - logits[ids[0]]);
  };
  double total = 0.0;
  for (const int32_t id : ids) total += weight(id);
  double mass = 0.0;
  size_t n = 0;
  while (mass / total < 0.83) mass += weight(ids[n++]);
  return First(n, logits);
}

TokenLogits MinPDefinition(TokenSpan /*tokens*/, TokenLogits logits) {
  const float max = *std::max_element(logits.begin(), logits.end());
  for (float& logit : logits) {
    if (std::exp(static_cast<double>(logit) - max) < 0.1) logit = -kInf;
  }
  return logits;
}

TokenLogits PenaltyDefinition(TokenSpan tokens, TokenLogits logits) {
  const TokenSpan recent = tokens.last(std::min(kWindow, tokens.size()));
  for (const int32_t id : std::set<int32_t>(recent.begin(), recent.end())) {
    logits[id] = logits[id] > 0 ? logits[id] / 1.5F : logits[id] * 1.5F;
  }
  return logits;
}

constexpr int64_t kBanned[] = {0, 3, 17, 39};

TokenLogits BannedDefinition(TokenSpan /*tokens*/, TokenLogits logits) {
  for (const int64_t id : kBanned) logits[id] = -kInf;
  return logits;
}

struct Shipped {
  const char* name;
  MakeSampler make;
  SamplerDefinition definition;
};

void PrintTo(const Shipped& shipped, std::ostream* out) { *out << shipped.name; }

class ShippedSampler : public ::testing::TestWithParam<Shipped> {};

TEST_P(ShippedSampler, LeavesWhatItsDefinitionLeaves) {
  EXPECT_THAT(CheckSampler({.make = GetParam().make, .definition = GetParam().definition}),
              ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    All, ShippedSampler,
    ::testing::Values(Shipped{"greedy", [](auto&) { return std::make_unique<Greedy>(); },
                              GreedyDefinition},
                      Shipped{"temperature", [](auto&) { return Temperature::Create(0.7); },
                              TemperatureDefinition},
                      Shipped{"top_k", [](auto&) { return TopK::Create(7); }, TopKDefinition},
                      Shipped{"top_p", [](auto&) { return TopP::Create(0.83); }, TopPDefinition},
                      Shipped{"min_p", [](auto&) { return MinP::Create(0.1); }, MinPDefinition},
                      Shipped{"repetition_penalty",
                              [](const PluginContext& context) {
                                return RepetitionPenalty::Create({.value = 1.5, .window = kWindow},
                                                                 context.model);
                              },
                              PenaltyDefinition},
                      Shipped{"banned_tokens",
                              [](const PluginContext& context) {
                                return BannedTokens::Create(kBanned, context.model.vocab_size);
                              },
                              BannedDefinition}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(SamplerDefinition, IsHeldAgainstTheStage) {
  const SamplerSubject wrong{.make = [](auto&) { return TopK::Create(8); },
                             .definition = TopKDefinition};
  EXPECT_THAT(CheckSampler(wrong), ::testing::ElementsAre(::testing::StartsWith("definition: ")));
}

}  // namespace
}  // namespace ng::conform
