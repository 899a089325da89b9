#include <immintrin.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "ng/vec16.h"
#include "plugins/attention/flash/flash_kernel.h"
#include "plugins/attention/flash/flash_pairs.h"
#include "plugins/attention/flash/flash_scratch.h"

NG_BEGIN_TARGET_AVX2
#include "plugins/attention/flash/flash_kernel-inl.h"
NG_END_TARGET

namespace ng {
namespace {

struct Avx2 {
  using V = avx2::Vec16;
  using F32 = F32Lanes<V>;
  using Bf16 = Bf16Lanes<V>;
  using F16 = F16Lanes<V>;
  using Int8 = IntLanes<Codec::kInt8, V, avx2::IntPairs, avx2::PairSums>;
  using Int4 = IntLanes<Codec::kInt4, V, avx2::IntPairs, avx2::PairSums>;
  static constexpr int kBlockRows = 6;
  static constexpr int kMostColumns = 2;
  // Of two registers each; an unpacked step takes two or four of the sixteen.
  template <class L>
  static constexpr int Accumulators() {
    return L::kStep == 1 || L::kWide ? 6 : 4;
  }
};

}  // namespace

const FlashKernel& Avx2FlashKernel() { return Flash<Avx2>::kKernel; }

}  // namespace ng
