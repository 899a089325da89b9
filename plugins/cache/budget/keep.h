// Which of a head's slots stay, by their scores.
#ifndef NG_PLUGINS_CACHE_BUDGET_KEEP_H_
#define NG_PLUGINS_CACHE_BUDGET_KEEP_H_

#include <cstdint>
#include <span>

#include "ng/kv_view.h"

namespace ng {

// Writes the slots that stay into `kept`, rising: the first `sinks`, the last `recent`, and of
// those between them the ones with the highest scores; of equal scores the lower slot. order:
// [n_slots], room to work in. REQUIRES: kept.size() is at least sinks + recent and at most
// scores.size(); no score is NaN.
void KeepBest(std::span<const float> scores, int64_t sinks, int64_t recent,
              std::span<int32_t> order, std::span<int32_t> kept);

// The slots of a layer's heads, which lie one behind the other.
struct LayerScores {
  std::span<const float> scores;   // [slots of all heads]
  const KvView& view;              // for how many slots each head has
  std::span<int32_t> order;        // [slots of all heads], room to work in
  std::span<unsigned char> stays;  // [slots of all heads]: 1 where it stays, else 0
};
// Which ones stay of each head.
struct LayerBudget {
  int64_t sinks = 0;   // the first ones
  int64_t recent = 0;  // the last ones
  int64_t least = 0;   // so many of every head, those and the ones with its highest scores
  int64_t total = 0;   // of all heads together
};
// Writes `stays`: of those that do not stay in any case the ones with the highest scores of all
// heads; of equal scores the lower position, then the lower head. REQUIRES: least is at least sinks
// + recent; the total is at least what must stay and at most what is there; no score is NaN.
void KeepBestOfLayer(const LayerBudget& budget, const LayerScores& layer);

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_BUDGET_KEEP_H_
