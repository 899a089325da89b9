// Which tiles of keys a query reads (Tang et al. 2024): those of which its products can be largest.
// Of a tile's keys a store keeps, for each dimension, the least and the largest number (layout
// "tiles16_bounds"). So no product of a query q with a key of the tile exceeds
//   sum over d of max(q[d] * least[d], q[d] * largest[d])
// and a tile's score is the largest of these over the heads that share the kv head, with ALiBi as
// the tile's last key would have it. A score that is NaN becomes infinite.
//
// All levels give the same bits: a score is summed in 16 lanes, dimension d in lane d % 16, the
// largest number's product first, and the lanes in one fixed order.
#ifndef NG_PLUGINS_ATTENTION_SPARSE_CHOOSE_KERNEL_H_
#define NG_PLUGINS_ATTENTION_SPARSE_CHOOSE_KERNEL_H_

#include <cstdint>

#include "ng/attention_backend.h"
#include "ng/isa.h"

namespace ng {

// Tiles [begin, end) for one query and the heads of one kv head.
struct TilesToScore {
  const AttentionSpec& spec;
  const KvView& view;
  const float* q;      // [group], heads q_stride floats apart
  int64_t q_stride;    //
  int kv_head;         //
  int64_t pos;         // of the query
  int64_t begin, end;  // tiles that are full
};

struct ChooseKernel {
  // Floats that `score` needs to work in.
  static int64_t RoomFor(const AttentionSpec& spec) {
    const int64_t group = spec.n_heads / spec.n_kv_heads;
    return group * 2 * ((spec.head_dim + 15) / 16 * 16);
  }
  // [worker] scores: [end - begin]. room: [RoomFor(spec)]
  void (*score)(const TilesToScore& tiles, float* room, float* scores);
  // [worker] The places of the n_wanted largest scores, rising; of equal ones the first. scores:
  // [n], read and changed up to n rounded up to 16; 0 < n_wanted <= n. out: [n_wanted + 1], of
  // which the last may hold anything.
  void (*choose)(float* scores, int64_t n, int64_t n_wanted, int32_t* out);

  template <IsaLevel>
  static const ChooseKernel& At();  // one for each level: choose_kernel_levels.cc
};

}  // namespace ng

#endif  // NG_PLUGINS_ATTENTION_SPARSE_CHOOSE_KERNEL_H_
