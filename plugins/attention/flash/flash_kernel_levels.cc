// The kernel of each level: what it is made of there, and how it is cut. Compiled once for each
// level.
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "ng/level.h"
#include "plugins/attention/flash/flash_kernel.h"
#include "plugins/attention/flash/flash_pairs.h"
#include "plugins/attention/flash/flash_scratch.h"

NG_BEGIN_LEVEL
#include "plugins/attention/flash/flash_kernel-inl.h"
#if defined(NG_LEVEL_AVX512_BF16)
#include "plugins/attention/flash/flash_bf16_dot-inl.h"
#endif
#if defined(NG_LEVEL_AVX512) || defined(NG_LEVEL_AVX512_VNNI) || defined(NG_LEVEL_AVX512_BF16)
#include "plugins/attention/flash/flash_turn_avx512-inl.h"
#endif
NG_END_LEVEL

namespace ng {
namespace {

#if defined(NG_LEVEL_AVX512) || defined(NG_LEVEL_AVX512_VNNI) || defined(NG_LEVEL_AVX512_BF16)
using WordTurn = Avx512WordTurn;
#else
using WordTurn = PlainWordTurn;
#endif
#if defined(NG_LEVEL_AVX512_BF16)
using Bf16Columns = Bf16DotLanes;
#else
using Bf16Columns = Bf16Lanes<level::Vec16>;
#endif
#if defined(NG_LEVEL_AVX512_VNNI) || defined(NG_LEVEL_AVX512_BF16)
using PairSums = avx512_vnni::PairSums;
#elif defined(NG_LEVEL_AVX_VNNI)
using PairSums = avx_vnni::PairSums;
#else
using PairSums = level::PairSums;
#endif

constexpr bool k256Bits = kLevel == IsaLevel::kAvx2 || kLevel == IsaLevel::kAvxVnni;

struct Level {
  using V = level::Vec16;
  using Turn = WordTurn;
  using F32 = F32Lanes<V>;
  using Bf16 = Bf16Columns;
  using F16 = F16Lanes<V>;
  using Int8 = IntLanes<Codec::kInt8, V, level::IntPairs, PairSums>;
  using Int4 = IntLanes<Codec::kInt4, V, level::IntPairs, PairSums>;
  static constexpr int kBlockRows = kLevel == IsaLevel::kScalar ? 4 : 6;
  static constexpr int kMostColumns = kLevel == IsaLevel::kScalar ? 1 : k256Bits ? 2 : 4;
  // Vectors of scores whose exponentials are computed together.
  static constexpr int kExpVectors = kLevel == IsaLevel::kScalar || k256Bits ? 1 : 4;
  // How many sums fit the registers, beside what a step unpacks.
  template <class L>
  static constexpr int Accumulators() {
    constexpr bool kDot = kLevel == IsaLevel::kAvx512Bf16 && std::is_same_v<L, Bf16>;
    constexpr bool kLittle = L::kStep == 1 || L::kWide || kDot;
    if (kLevel == IsaLevel::kScalar) return kBlockRows * L::kAccumulators;
    // Of two registers each; an unpacked step takes two or four of the sixteen.
    if (k256Bits) return kLittle ? 6 : 4;
    return kLittle ? 24 : L::kStep == 8 ? 12 : 18;
  }
};

}  // namespace

template <>
const FlashKernel& FlashKernel::At<kLevel>() {
  return Flash<Level>::kKernel;
}

}  // namespace ng
