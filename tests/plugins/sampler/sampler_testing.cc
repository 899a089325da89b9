#include "tests/plugins/sampler/sampler_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/sampling/sampling.h"

namespace ng {
namespace {

absl::StatusOr<std::vector<Candidate>> ApplyTo(SamplerStage& stage, CandidateSet candidates) {
  NG_RETURN_IF_ERROR(stage.Apply(0, DrawKey(), candidates));
  std::vector<Candidate> left(candidates.items().begin(), candidates.items().end());
  std::sort(left.begin(), left.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  return left;
}

// The value that a chi-square variable exceeds with probability 1e-4 (Wilson and Hilferty 1931).
double ChiSquareBound(int degrees) {
  constexpr double kNormalQuantile = 3.719;
  const double a = 2.0 / (9.0 * degrees);
  return degrees * std::pow(1.0 - a + kNormalQuantile * std::sqrt(a), 3);
}

}  // namespace

std::vector<Candidate> Candidates(std::span<const float> logits) {
  std::vector<Candidate> candidates;
  for (const float logit : logits) {
    candidates.push_back({static_cast<int32_t>(candidates.size()), logit});
  }
  return candidates;
}

std::vector<Candidate> Ordered(std::span<const float> logits) {
  std::vector<Candidate> candidates = Candidates(logits);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  return candidates;
}

std::vector<double> Softmax(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> probabilities;
  double total = 0.0;
  for (const float logit : logits) {
    probabilities.push_back(std::exp(logit - max));
    total += probabilities.back();
  }
  for (double& probability : probabilities) probability /= total;
  return probabilities;
}

absl::StatusOr<std::vector<Candidate>> Apply(SamplerStage& stage, std::span<const float> logits) {
  std::vector<Candidate> storage = Candidates(logits);
  return ApplyTo(stage, CandidateSet(storage));
}

absl::StatusOr<std::vector<Candidate>> ApplySparse(SamplerStage& stage,
                                                   std::span<const float> logits) {
  std::vector<Candidate> storage = Candidates(logits);
  CandidateSet candidates(storage);
  candidates.SortByLogit();
  std::sort(storage.begin(), storage.end(),
            [](const Candidate& a, const Candidate& b) { return a.id > b.id; });
  return ApplyTo(stage, candidates);
}

void ExpectDraws(std::unique_ptr<SamplerStage> stage, std::span<const int32_t> prompt_ids,
                 std::span<const float> logits, std::span<const double> probabilities) {
  constexpr int kDraws = 20000;
  std::vector<ChainStage> stages;
  stages.push_back({"stage", std::move(stage)});
  SamplerChain chain(std::move(stages), static_cast<int64_t>(logits.size()));
  ASSERT_TRUE(chain.Open(0, prompt_ids).ok());
  std::vector<int> drawn(logits.size());
  for (int step = 0; step < kDraws; ++step) {
    const absl::StatusOr<int32_t> token = chain.Choose(0, logits, {7, 3, step, 0});
    ASSERT_TRUE(token.ok()) << token.status();
    ++drawn[*token];
  }
  double chi_square = 0.0;
  int categories = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double expected = probabilities[i] * kDraws;
    if (expected == 0.0) {
      EXPECT_EQ(drawn[i], 0) << "token " << i;
      continue;
    }
    ASSERT_GE(expected, 5.0) << "too rare for the test: token " << i;
    chi_square += (drawn[i] - expected) * (drawn[i] - expected) / expected;
    ++categories;
  }
  if (categories > 1) {
    EXPECT_LT(chi_square, ChiSquareBound(categories - 1));
  }
}

rc::Gen<std::vector<float>> Logits() {
  const auto value = rc::gen::map(rc::gen::inRange(-200000, 200000),
                                  [](int i) { return static_cast<float>(i) / 10000.0F; });
  const auto tied =
      rc::gen::map(rc::gen::inRange(-4, 4), [](int i) { return static_cast<float>(i) / 2.0F; });
  return rc::gen::mapcat(rc::gen::pair(rc::gen::inRange<size_t>(1, 60), rc::gen::arbitrary<bool>()),
                         [=](const std::pair<size_t, bool>& shape) {
                           return rc::gen::container<std::vector<float>>(
                               shape.first, shape.second ? tied : value);
                         });
}

rc::Gen<double> Fraction() {
  return rc::gen::map(rc::gen::inRange(0, 1000001), [](int i) { return i / 1e6; });
}

}  // namespace ng
