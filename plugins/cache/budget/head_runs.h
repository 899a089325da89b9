// Where heads of a layer hold different numbers of tokens, each of them has a run of tiles of its
// own among those of the layer, and the runs move when tokens leave.
#ifndef NG_PLUGINS_CACHE_BUDGET_HEAD_RUNS_H_
#define NG_PLUGINS_CACHE_BUDGET_HEAD_RUNS_H_

#include <cstdint>

#include "ng/kv_view.h"

namespace ng {

// Tiles for so many slots.
inline int64_t TilesOf(int64_t n_slots) { return (n_slots + kTileTokens - 1) / kTileTokens; }

// Calls move(head) for each head whose run begins elsewhere afterwards, in an order in which nobody
// writes over what is still to be moved: runs come one behind the other, before and after. before,
// after: where the run of a head begins.
template <class Before, class After, class Move>
void MoveRuns(int n_heads, const Before& before, const After& after, const Move& move) {
  for (int head = 0; head < n_heads; ++head) {
    if (after(head) < before(head)) move(head);
  }
  for (int head = n_heads; head-- > 0;) {
    if (after(head) > before(head)) move(head);
  }
}

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_BUDGET_HEAD_RUNS_H_
