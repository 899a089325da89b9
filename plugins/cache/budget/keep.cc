#include "plugins/cache/budget/keep.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

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

void KeepBestOfLayer(const LayerBudget& budget, const LayerScores& layer) {
  std::ranges::fill(layer.stays, 0);
  int64_t n_open = 0;  // in front of `order`: those that nothing has been said of
  int64_t left = budget.total;
  int64_t begin = 0;
  const auto score = [&](int32_t slot) { return layer.scores[static_cast<size_t>(slot)]; };
  const auto keep = [&](int64_t slot) {
    layer.stays[static_cast<size_t>(slot)] = 1;
    --left;
  };
  for (int head = 0; begin < std::ssize(layer.scores); ++head) {
    const int64_t n_slots = layer.view.n_slots(head);
    const int64_t sinks = std::min(budget.sinks, n_slots);
    const int64_t recent = std::min(budget.recent, n_slots - sinks);
    for (int64_t i = 0; i < sinks; ++i) keep(begin + i);
    for (int64_t i = n_slots - recent; i < n_slots; ++i) keep(begin + i);
    const auto others = layer.order.subspan(static_cast<size_t>(n_open),
                                            static_cast<size_t>(n_slots - sinks - recent));
    std::iota(others.begin(), others.end(), static_cast<int32_t>(begin + sinks));
    const int64_t safe = std::clamp<int64_t>(budget.least - sinks - recent, 0, std::ssize(others));
    const auto better = [&](int32_t a, int32_t b) {
      return score(a) != score(b) ? score(a) > score(b) : a < b;
    };
    const auto end = others.begin() + safe;
    if (end != others.begin() && end != others.end()) {
      std::nth_element(others.begin(), end, others.end(), better);
    }
    std::for_each(others.begin(), end, keep);
    std::copy(end, others.end(), others.begin());
    n_open += std::ssize(others) - safe;
    begin += n_slots;
  }
  // The position and the head of a slot among those of all heads.
  const auto place = [&](int64_t slot) {
    int head = 0;
    while (slot >= layer.view.n_slots(head)) slot -= layer.view.n_slots(head++);
    return std::pair(layer.view.TokenAt(head, slot), head);
  };
  const auto better = [&](int32_t a, int32_t b) {
    return score(a) != score(b) ? score(a) > score(b) : place(a) < place(b);
  };
  const auto open = layer.order.first(static_cast<size_t>(n_open));
  const auto end = open.begin() + std::clamp<int64_t>(left, 0, n_open);
  if (end != open.end()) std::nth_element(open.begin(), end, open.end(), better);
  std::for_each(open.begin(), end, keep);
}

}  // namespace ng
