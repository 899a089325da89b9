#include "plugins/cache/budget/keep.h"

#include <algorithm>
#include <numeric>

namespace ng {

void KeepBest(std::span<const float> scores, int64_t sinks, int64_t recent,
              std::span<int32_t> order, std::span<int32_t> kept) {
  const auto n_slots = static_cast<int64_t>(scores.size());
  std::iota(kept.begin(), kept.begin() + sinks, 0);
  std::iota(kept.end() - recent, kept.end(), static_cast<int32_t>(n_slots - recent));
  const auto chosen =
      kept.subspan(static_cast<size_t>(sinks), kept.size() - static_cast<size_t>(sinks + recent));
  const auto others = order.first(static_cast<size_t>(n_slots - sinks - recent));
  std::iota(others.begin(), others.end(), static_cast<int32_t>(sinks));
  const auto better = [&](int32_t a, int32_t b) {
    const float of_a = scores[static_cast<size_t>(a)];
    const float of_b = scores[static_cast<size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  };
  const auto end = others.begin() + static_cast<int64_t>(chosen.size());
  if (end != others.end()) std::nth_element(others.begin(), end, others.end(), better);
  std::sort(others.begin(), end);
  std::copy(others.begin(), end, chosen.begin());
}

}  // namespace ng
