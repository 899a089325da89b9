#include "plugins/policy/keydiff/keydiff.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ng {
namespace {

// Shorter vectors count as so long: a key of zeros is like no other.
constexpr double kShortest = 1e-12;

// In lanes, so that sums do not wait for one another; always in the same order.
constexpr size_t kLanes = 8;

// The sum of a[d] * b(d), a: [n].
template <class Other>
double Dot(std::span<const float> a, const Other* b) {
  double sums[kLanes] = {};
  size_t d = 0;
  for (; d + kLanes <= a.size(); d += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) sums[i] += double{a[d + i]} * double{b[d + i]};
  }
  for (size_t i = 0; d < a.size(); ++d, ++i) sums[i] += double{a[d]} * double{b[d]};
  double sum = 0.0;
  for (const double x : sums) sum += x;
  return sum;
}

double LengthOf(std::span<const float> key) {
  return std::max(std::sqrt(Dot(key, key.data())), kShortest);
}

}  // namespace

absl::Status KeydiffPolicy::Score(const HeldTokens& tokens, std::span<float> scores) const {
  const auto head_dim = static_cast<size_t>(tokens.keys.extent[1]);
  std::vector<double> sum(head_dim);  // of the keys, each of length 1
  std::vector<double> scales(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    const std::span<const float> key(tokens.keys.Row(static_cast<int64_t>(i)), head_dim);
    scales[i] = 1.0 / LengthOf(key);
    for (size_t d = 0; d < head_dim; ++d) sum[d] += double{key[d]} * scales[i];
  }
  double square = 0.0;
  for (const double x : sum) square += x * x;
  const double length = std::max(std::sqrt(square), kShortest);
  for (size_t i = 0; i < scores.size(); ++i) {
    const std::span<const float> key(tokens.keys.Row(static_cast<int64_t>(i)), head_dim);
    scores[i] = static_cast<float>(-Dot(key, sum.data()) * scales[i] / length);
  }
  return absl::OkStatus();
}

}  // namespace ng
