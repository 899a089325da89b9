#include "plugins/policy/lagkv/lagkv.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "plugins/policy/exp.h"

namespace ng {
namespace {

using Rows = TensorView<const float, 2>;  // [n_tokens, width]

// The standard deviation of a row as the partition behind scales it.
double DeviationOf(const float* row, std::span<const float> least, std::span<const float> most) {
  const auto scaled = [&](size_t d) {
    const double range = double{most[d]} - double{least[d]};
    return range > 0.0 ? (double{row[d]} - double{least[d]}) / range : 0.0;
  };
  const size_t width = least.size();
  double sum = 0.0;
  for (size_t d = 0; d < width; ++d) sum += scaled(d);
  const double mean = sum / static_cast<double>(width);
  double squares = 0.0;
  for (size_t d = 0; d < width; ++d) squares += (scaled(d) - mean) * (scaled(d) - mean);
  return std::sqrt(squares / static_cast<double>(std::max<size_t>(1, width - 1)));
}

// Adds the shares of the tokens [begin, begin + lag), which are 1 together. shares: [lag]
void AddShares(const Rows& rows, int64_t begin, std::span<double> shares) {
  const auto lag = static_cast<int64_t>(shares.size());
  const auto width = static_cast<size_t>(rows.extent[1]);
  const float* const first = rows.Row(begin + lag);
  std::vector<float> least(first, first + width);
  std::vector<float> most = least;
  for (int64_t i = begin + lag + 1; i < begin + 2 * lag; ++i) {
    for (size_t d = 0; d < width; ++d) {
      least[d] = std::min(least[d], rows.Row(i)[d]);
      most[d] = std::max(most[d], rows.Row(i)[d]);
    }
  }
  std::vector<double> own(shares.size());
  for (int64_t i = 0; i < lag; ++i) {
    own[static_cast<size_t>(i)] = DeviationOf(rows.Row(begin + i), least, most);
  }
  const double largest = *std::ranges::max_element(own);
  double sum = 0.0;
  for (double& x : own) sum += x = ExpOfNonPositive(x - largest);
  for (size_t i = 0; i < own.size(); ++i) shares[i] += own[i] / sum;
}

}  // namespace

absl::Status LagkvPolicy::Score(const HeldTokens& tokens, std::span<float> scores) const {
  const int64_t n = tokens.n_tokens();
  std::ranges::fill(scores, 1.0F);
  if (n < sinks_ + 2 * lag_) {
    for (int64_t i = sinks_; i < n; ++i) {
      scores[static_cast<size_t>(i)] =
          static_cast<float>(static_cast<double>(i - sinks_) / static_cast<double>(n - sinks_));
    }
    return absl::OkStatus();
  }
  const auto lag = static_cast<size_t>(lag_);
  std::vector<double> shares(lag);
  std::vector<size_t> order(lag);
  for (int64_t begin = sinks_; begin + 2 * lag_ <= n; begin += lag_) {
    std::ranges::fill(shares, 0.0);
    AddShares(tokens.keys, begin, shares);
    AddShares(tokens.values, begin, shares);
    if (!std::ranges::all_of(shares, [](double share) { return std::isfinite(share); })) {
      return NumericError("layer " + std::to_string(tokens.layer) + ", kv head " +
                          std::to_string(tokens.kv_head) + ": keys or values are not finite");
    }
    std::iota(order.begin(), order.end(), size_t{0});
    // Of equal shares that of the lower position is the larger.
    std::ranges::sort(order, [&](size_t a, size_t b) {
      return shares[a] != shares[b] ? shares[a] < shares[b] : a > b;
    });
    for (size_t rank = 0; rank < lag; ++rank) {
      scores[static_cast<size_t>(begin) + order[rank]] =
          static_cast<float>(static_cast<double>(rank) / static_cast<double>(lag));
    }
  }
  return absl::OkStatus();
}

}  // namespace ng
