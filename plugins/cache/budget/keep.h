// Which of a head's slots stay, by their scores.
#ifndef NG_PLUGINS_CACHE_BUDGET_KEEP_H_
#define NG_PLUGINS_CACHE_BUDGET_KEEP_H_

#include <cstdint>
#include <span>

namespace ng {

// Writes the slots that stay into `kept`, rising: the first `sinks`, the last `recent`, and of
// those between them the ones with the highest scores; of equal scores the lower slot. order:
// [n_slots], room to work in. REQUIRES: kept.size() is at least sinks + recent and at most
// scores.size(); no score is NaN.
void KeepBest(std::span<const float> scores, int64_t sinks, int64_t recent,
              std::span<int32_t> order, std::span<int32_t> kept);

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_BUDGET_KEEP_H_
