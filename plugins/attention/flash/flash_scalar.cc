#include "plugins/attention/flash/flash_kernel-inl.h"

namespace ng {
namespace {

struct Scalar {
  using V = scalar::Vec16;
  using F32 = F32Lanes<V>;
  using Bf16 = Bf16Lanes<V>;
  using F16 = F16Lanes<V>;
  using Int8 = IntLanes<Codec::kInt8, V, scalar::IntPairs, scalar::PairSums>;
  using Int4 = IntLanes<Codec::kInt4, V, scalar::IntPairs, scalar::PairSums>;
  static constexpr int kBlockRows = 4;
  static constexpr int kMostColumns = 1;
  template <class L>
  static constexpr int Accumulators() {
    return kBlockRows * L::kAccumulators;
  }
};

}  // namespace

const FlashKernel& ScalarFlashKernel() { return Flash<Scalar>::kKernel; }

}  // namespace ng
