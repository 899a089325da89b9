// The shipped sampler stages leave what their definitions leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ng/conform/sampler.h"
#include "plugins/sampler/banned_tokens/banned_tokens.h"
#include "plugins/sampler/dry/dry.h"
#include "plugins/sampler/frequency_penalty/count_penalty.h"
#include "plugins/sampler/greedy/greedy.h"
#include "plugins/sampler/logit_bias/logit_bias.h"
#include "plugins/sampler/min_p/min_p.h"
#include "plugins/sampler/repetition_penalty/repetition_penalty.h"
#include "plugins/sampler/temperature/temperature.h"
#include "plugins/sampler/top_k/top_k.h"
#include "plugins/sampler/top_n_sigma/top_n_sigma.h"
#include "plugins/sampler/top_p/top_p.h"
#include "plugins/sampler/typical_p/typical_p.h"
#include "plugins/sampler/xtc/xtc.h"
#include "tests/support/floats.h"

namespace ng::conform {
namespace {

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

double WeightOf(float logit, const TokenLogits& logits) {
  const float max = *std::max_element(logits.begin(), logits.end());
  return std::exp(static_cast<double>(logit) - max);
}

double Total(const TokenLogits& logits) {
  return std::accumulate(logits.begin(), logits.end(), 0.0,
                         [&](double sum, float logit) { return sum + WeightOf(logit, logits); });
}

TokenLogits TypicalDefinition(TokenSpan /*tokens*/, const TokenLogits& logits) {
  const double total = Total(logits);
  double expected = 0.0;
  for (const float logit : logits) {
    if (logit > -kInf) expected += WeightOf(logit, logits) / total * logit;
  }
  const auto centre = static_cast<float>(expected);
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return std::abs(logits[a] - centre) < std::abs(logits[b] - centre);
  });
  TokenLogits left(logits.size(), -kInf);
  double mass = 0.0;
  for (size_t n = 0; mass / total < 0.6137; ++n) {
    mass += WeightOf(logits[ids[n]], logits);
    left[ids[n]] = logits[ids[n]];
  }
  return left;
}

// What cannot be drawn does not count.
TokenLogits SigmaDefinition(TokenSpan /*tokens*/, TokenLogits logits) {
  const auto mean_of = [&](auto of) {
    double sum = 0.0;
    double n = 0.0;
    for (const float logit : logits) {
      if (logit == -kInf) continue;
      sum += of(static_cast<double>(logit));
      n += 1.0;
    }
    return sum / n;
  };
  const double mean = mean_of([](double logit) { return logit; });
  const double variance = mean_of([&](double logit) { return (logit - mean) * (logit - mean); });
  const double bar = *std::max_element(logits.begin(), logits.end()) - 1.2345 * std::sqrt(variance);
  for (float& logit : logits) {
    if (logit < bar) logit = -kInf;
  }
  return logits;
}

TokenLogits XtcDefinition(TokenSpan /*tokens*/, TokenLogits logits) {
  const double total = Total(logits);
  std::vector<int32_t> top;
  for (int32_t id = 0; id < std::ssize(logits); ++id) {
    if (WeightOf(logits[id], logits) / total >= 0.0513) top.push_back(id);
  }
  if (top.size() < 2) return logits;
  top.erase(std::ranges::min_element(top, {}, [&](int32_t id) { return logits[id]; }));
  for (const int32_t id : top) logits[id] = -kInf;
  return logits;
}

constexpr std::string_view kBiases[] = {"3=-inf", "5=2.5", "17=-1", "5=1"};

TokenLogits BiasDefinition(TokenSpan /*tokens*/, TokenLogits logits) {
  logits[3] = -kInf;
  logits[5] += 3.5F;
  logits[17] -= 1.0F;
  return logits;
}

TokenLogits FrequencyDefinition(TokenSpan tokens, TokenLogits logits) {
  for (const int32_t id : tokens.last(std::min(kWindow, tokens.size()))) logits[id] -= 0.7F;
  return logits;
}

TokenLogits PresenceDefinition(TokenSpan tokens, TokenLogits logits) {
  const TokenSpan recent = tokens.last(std::min(kWindow, tokens.size()));
  for (const int32_t id : std::set<int32_t>(recent.begin(), recent.end())) logits[id] -= 0.7F;
  return logits;
}

TokenLogits DryDefinition(TokenSpan tokens, TokenLogits logits) {
  for (int32_t id = 0; id < std::ssize(logits); ++id) {
    int64_t longest = 0;
    for (int64_t place = 1; place < std::ssize(tokens); ++place) {
      if (tokens[place] != id) continue;
      int64_t n = 0;
      while (n < place && tokens[place - 1 - n] == tokens[tokens.size() - 1 - n]) ++n;
      longest = std::max(longest, n);
    }
    if (longest >= 1) logits[id] -= static_cast<float>(0.8 * std::pow(1.5, longest - 1));
  }
  return logits;
}

template <CountsAs kCountsAs>
absl::StatusOr<std::unique_ptr<SamplerStage>> MakeCountPenalty(const PluginContext& context) {
  const CountPenaltyOptions options = {.value = 0.7, .window = kWindow};
  return std::make_unique<CountPenalty>(kCountsAs, options, context.model);
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
    ::testing::Values(
        Shipped{"greedy", [](auto&) { return std::make_unique<Greedy>(); }, GreedyDefinition},
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
                BannedDefinition},
        Shipped{"typical_p", [](auto&) { return TypicalP::Create(0.6137); }, TypicalDefinition},
        Shipped{"top_n_sigma", [](auto&) { return TopNSigma::Create(1.2345); }, SigmaDefinition},
        Shipped{"xtc",
                [](const PluginContext& context) {
                  return Xtc::Create({.probability = 1, .threshold = 0.0513},
                                     context.model.vocab_size);
                },
                XtcDefinition},
        Shipped{"logit_bias",
                [](const PluginContext& context) {
                  return LogitBias::Create(kBiases, context.model.vocab_size);
                },
                BiasDefinition},
        Shipped{"frequency_penalty", MakeCountPenalty<CountsAs::kFrequency>, FrequencyDefinition},
        Shipped{"presence_penalty", MakeCountPenalty<CountsAs::kPresence>, PresenceDefinition},
        Shipped{"dry",
                [](const PluginContext& context) {
                  return Dry::Create({.base = 1.5, .allowed = 1}, context);
                },
                DryDefinition}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(SamplerDefinition, IsHeldAgainstTheStage) {
  const SamplerSubject wrong{.make = [](auto&) { return TopK::Create(8); },
                             .definition = TopKDefinition};
  EXPECT_THAT(CheckSampler(wrong), ::testing::ElementsAre(::testing::StartsWith("definition: ")));
}

}  // namespace
}  // namespace ng::conform
