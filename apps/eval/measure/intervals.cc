#include "apps/eval/measure/intervals.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "apps/eval/tasks/draws.h"

namespace ng::eval {

Interval RatioInterval(std::span<const double> sums, std::span<const double> weights) {
  constexpr int kDraws = 2000;
  constexpr size_t kEdge = kDraws / 40;  // 2.5 %
  const auto n = static_cast<int64_t>(sums.size());
  // The ratio of the blocks that `place` gives.
  const auto ratio = [&](const auto& place) {
    double sum = 0.0;
    double weight = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(place(i));
      sum += sums[at];
      weight += weights[at];
    }
    return sum / weight;
  };
  Interval interval;
  interval.value = ratio([](int64_t i) { return i; });
  Draws draws({.seed = 1});
  std::vector<double> drawn;
  for (int i = 0; i < kDraws; ++i) drawn.push_back(ratio([&](int64_t) { return draws.Below(n); }));
  std::ranges::sort(drawn);
  interval.low = drawn[kEdge];
  interval.high = drawn[kDraws - 1 - kEdge];
  return interval;
}

Interval MeanInterval(std::span<const double> values) {
  const std::vector<double> ones(values.size(), 1.0);
  return RatioInterval(values, ones);
}

}  // namespace ng::eval
