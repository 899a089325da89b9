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

NG_BEGIN_TARGET_AVX512
#include "plugins/attention/flash/flash_kernel-inl.h"
NG_END_TARGET

namespace ng {
namespace {

struct Avx512 {
  using V = avx512::Vec16;
  using F32 = F32Lanes<V>;
  using Bf16 = Bf16Lanes<V>;
  using F16 = F16Lanes<V>;
  using Int8 = IntLanes<Codec::kInt8, V, avx512::IntPairs, avx512::PairSums>;
  using Int4 = IntLanes<Codec::kInt4, V, avx512::IntPairs, avx512::PairSums>;
  static constexpr int kBlockRows = 6;
  static constexpr int kMostColumns = 4;
  template <class L>
  static constexpr int Accumulators() {
    return L::kStep == 1 || L::kWide ? 24 : L::kStep == 8 ? 12 : 18;
  }
};

}  // namespace

const FlashKernel& Avx512FlashKernel() { return Flash<Avx512>::kKernel; }

}  // namespace ng
