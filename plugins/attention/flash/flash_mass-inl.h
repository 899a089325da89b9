// What the heads that share a kv head give to each slot, from the weights that were kept of every
// split (flash_scratch.h). Included between a level's target macros. No include guard.

#include <cstdint>
#include <cstring>

#include "ng/vec16.h"
#include "plugins/attention/flash/flash_kernel.h"
#include "plugins/attention/flash/flash_scratch.h"

namespace ng {

template <class Level>
struct FlashMass {
  using V = typename Level::V;

  // Keeps the weights of the keys [first, n) of a split, of which `max` is the largest score, as
  // they are before they are rounded. scores: L's Elements.
  template <class L>
  static void Keep(const float* scores, int first, int n, float* to) {
    const auto* from = reinterpret_cast<const typename L::Element*>(scores);
    for (int i = first / 16 * 16; i < n; i += 16) L::Widen(from + i).Store(to + i);
  }

  // What makes probabilities of a split's weights.
  static float Factor(float max, Softmax row) {
    float lanes[16];  // every lane the same
    V::Div(ExpOfNonPositive(V::Set(max - row.max)), V::Set(row.sum)).Store(lanes);
    return lanes[0];
  }

  // The keys of a query, which are [first, end) of n_slots.
  struct Keys {
    int64_t first;
    int64_t end;
    int64_t n_slots;
  };
  // Adds up the probabilities of `group` rows from `row` on, in their order. out: [keys.n_slots]
  static void AddUp(const KeptWeights& kept, int64_t row, int group, const Keys& keys, float* out) {
    const int64_t begin = keys.first / 16 * 16;
    std::memset(out, 0, static_cast<size_t>(begin) * sizeof(float));
    std::memset(out + keys.end, 0, static_cast<size_t>(keys.n_slots - keys.end) * sizeof(float));
    for (int64_t slot = begin; slot < keys.end; slot += 16) {
      const int64_t split = slot / kSplitKeys - kept.leftmost;
      const float* weights = kept.Weights(row, split) + slot % kSplitKeys;
      V sum = V::Mul(V::Load(weights), V::Set(kept.Factor(row, split)));
      for (int head = 1; head < group; ++head) {
        weights += kept.n_splits * kSplitKeys;
        sum = V::MulAdd(V::Load(weights), V::Set(kept.Factor(row + head, split)), sum);
      }
      sum.StoreFirst(out + slot, static_cast<int>(keys.end - slot < 16 ? keys.end - slot : 16));
    }
  }
};

}  // namespace ng
