#include "core/model/rows/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace ng {
namespace {

// The frequency of Llama 3.1 (Grattafiori et al. 2024).
double Llama3Frequency(double frequency, const RopeScaling& scaling) {
  const double turns =
      static_cast<double>(scaling.original_positions) * frequency / (2.0 * std::numbers::pi);
  if (turns > scaling.high_freq_factor) return frequency;
  const double slow = frequency / scaling.factor;
  if (turns < scaling.low_freq_factor) return slow;
  const double part =
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0 - part) * slow + part * frequency;
}

}  // namespace

std::vector<double> RopeFrequencies(const RopeSpec& spec) {
  const int64_t half = spec.n_dims / 2;
  std::vector<double> frequencies(static_cast<size_t>(half));
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = -static_cast<double>(i) / static_cast<double>(half);
    double& frequency = frequencies[static_cast<size_t>(i)];
    frequency = std::pow(spec.theta, exponent);
    switch (spec.scaling.kind) {
      case RopeScalingKind::kNone:
        break;
      case RopeScalingKind::kLinear:
        frequency /= spec.scaling.factor;
        break;
      case RopeScalingKind::kLlama3:
        frequency = Llama3Frequency(frequency, spec.scaling);
        break;
      case RopeScalingKind::kYarn: {
        const auto& [low, high] = std::pair(spec.scaling.low_pair, spec.scaling.high_pair);
        const double part = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
        frequency = frequency / spec.scaling.factor * part + frequency * (1.0 - part);
        break;
      }
      case RopeScalingKind::kLongRope:
        frequency /= spec.scaling.factors[static_cast<size_t>(i)];
        break;
    }
    if (spec.n_turning > 0 && i >= spec.n_turning) frequency = 0.0;
  }
  return frequencies;
}

RopeTable::RopeTable(const RopeSpec& spec, std::span<const float> factors, int64_t max_positions,
                     int64_t reserved)
    : half_(spec.n_dims / 2),
      max_positions_(max_positions),
      magnitude_(spec.scaling.magnitude),
      backwards_(spec.backwards),
      frequencies_(RopeFrequencies(spec)) {
  for (size_t i = 0; i < factors.size(); ++i) {
    frequencies_[i] /= static_cast<double>(factors[i]);
  }
  if (max_positions > 0) reserved = std::min(reserved, max_positions);
  values_.reserve(static_cast<size_t>(reserved * 2 * half_));
}

void RopeTable::Grow(int64_t n_positions) {
  const auto have = static_cast<int64_t>(values_.size()) / (2 * half_);
  if (have >= n_positions) return;
  // Doubling, so that a long decode does not come back here for every token, but not beyond what
  // is reserved.
  const auto room = static_cast<int64_t>(values_.capacity()) / (2 * half_);
  int64_t wanted = std::max(n_positions, std::min(2 * have, room));
  if (max_positions_ > 0) wanted = std::min(wanted, max_positions_);
  values_.resize(static_cast<size_t>(wanted * half_ * 2));
  for (int64_t i = 0; i < half_; ++i) {
    const double frequency = frequencies_[static_cast<size_t>(i)];
    for (int64_t pos = have; pos < wanted; ++pos) {
      const double angle = static_cast<double>(backwards_ ? -pos : pos) * frequency;
      float* const cos_sin = values_.data() + 2 * pos * half_ + i;
      cos_sin[0] = static_cast<float>(std::cos(angle) * magnitude_);
      cos_sin[half_] = static_cast<float>(std::sin(angle) * magnitude_);
    }
  }
}

}  // namespace ng
