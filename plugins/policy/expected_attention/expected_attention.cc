#include "plugins/policy/expected_attention/expected_attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "plugins/policy/exp.h"

namespace ng {
namespace {

// The queries to come of one head, and the memory of what FutureQueries points to.
struct Future {
  FutureQueries queries;
  std::vector<float> mean;
  std::vector<float> spread;
};

Future FutureOf(const QueryStatistics& statistics, int64_t head, const MeanRotation& rotation,
                bool covariance) {
  const int64_t n = statistics.mean.extent[1];
  const int64_t width = (n + 15) / 16 * 16;
  Future future;
  future.mean.resize(static_cast<size_t>(width));
  future.spread.resize(static_cast<size_t>(n * width));
  future.queries = {n, width, future.mean.data(), future.spread.data()};
  std::vector<double> mean(statistics.mean.Row(head), statistics.mean.Row(head) + n);
  rotation.Turn(mean.data());
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    future.mean[at] = static_cast<float>(mean[at] * statistics.scale);
  }
  if (!covariance) return future;
  const double* const given = statistics.covariance.Row(head, 0);
  std::vector<double> spread(given, given + n * n);
  for (int64_t i = 0; i < n; ++i) rotation.Turn(spread.data() + i * n);
  for (int64_t i = 0; i < n; ++i) rotation.Turn(spread.data() + i, n);
  const double half = statistics.scale * statistics.scale / 2.0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i; j < n; ++j) {  // what is below the diagonal is the same once more
      const double x = spread[static_cast<size_t>(i * n + j)] * (i == j ? half : 2.0 * half);
      future.spread[static_cast<size_t>(i * width + j)] = static_cast<float>(x);
    }
  }
  return future;
}

// Makes scores shares of 1. Whether they were finite. shares: [n_tokens]
bool MakeShares(std::span<const float> scores, std::span<double> shares) {
  const double largest = scores.empty() ? 0.0 : double{*std::ranges::max_element(scores)};
  double sum = 0.0;
  for (size_t i = 0; i < scores.size(); ++i) {
    sum += shares[i] = ExpOfNonPositive(double{scores[i]} - largest);
  }
  for (double& x : shares) x /= sum;
  return std::isfinite(sum);
}

}  // namespace

ExpectedAttentionPolicy::ExpectedAttentionPolicy(const PluginContext& context)
    : kernel_(KernelsFor<ExpectedKernel>(context.isa)),
      future_(context.options.Int("future")),
      sinks_(context.options.Int("sinks")),
      covariance_(context.options.Bool("covariance")),
      value_norm_(context.options.Bool("value_norm")),
      epsilon_(context.options.Real("epsilon")) {}

absl::Status ExpectedAttentionPolicy::Score(const HeldTokens& tokens,
                                            std::span<float> scores) const {
  const auto n_tokens = static_cast<size_t>(tokens.n_tokens());
  const auto first = static_cast<size_t>(std::ranges::lower_bound(tokens.positions, sinks_) -
                                         tokens.positions.begin());
  std::ranges::fill(scores.first(first), std::numeric_limits<float>::infinity());
  const MeanRotation rotation(tokens.rotation, tokens.length, future_);
  const int64_t n_heads = tokens.queries.n_heads();
  const size_t n = n_tokens - first;
  const float* const keys = n == 0 ? nullptr : tokens.keys.Row(static_cast<int64_t>(first));
  std::vector<float> expected(n);
  std::vector<double> of_head(n);
  std::vector<double> shares(n);  // of all heads
  bool finite = true;
  for (int64_t head = 0; head < n_heads && n > 0; ++head) {
    const Future future = FutureOf(tokens.queries, head, rotation, covariance_);
    kernel_.score(future.queries, keys, tokens.keys.stride[0], static_cast<int64_t>(n),
                  expected.data());
    finite = MakeShares(expected, of_head) && finite;
    for (size_t i = 0; i < n; ++i) shares[i] += of_head[i];
  }
  for (size_t i = 0; i < n; ++i) {
    double share = shares[i] / static_cast<double>(n_heads);
    if (value_norm_) {
      const float* const value = tokens.values.Row(static_cast<int64_t>(first + i));
      double square = 0.0;
      for (int64_t d = 0; d < tokens.values.extent[1]; ++d) {
        square += double{value[d]} * double{value[d]};
      }
      share = (share + epsilon_) * std::sqrt(square);
    }
    scores[first + i] = static_cast<float>(share);
    finite = finite && std::isfinite(share);
  }
  if (finite) return absl::OkStatus();
  return NumericError("layer " + std::to_string(tokens.layer) + ", kv head " +
                      std::to_string(tokens.kv_head) + ": queries, keys or values are not finite");
}

}  // namespace ng
