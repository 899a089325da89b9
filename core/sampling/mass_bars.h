// The order in which tokens are taken until their mass reaches a goal, bars that divide it, and the
// counting of marks. Used by the files of DenseLogits.
#ifndef NG_CORE_SAMPLING_MASS_BARS_H_
#define NG_CORE_SAMPLING_MASS_BARS_H_

#include <array>
#include <cstdint>
#include <span>

#include "core/kernels/kernel_table.h"
#include "ng/candidate_set.h"

namespace ng {

inline constexpr auto kBefore = [](const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
};

using Bars = std::array<float, kMassBars>;  // falling

// Ending at `low`.
inline Bars Spread(float low, float high) {
  Bars bars;
  const double width = static_cast<double>(high) - low;
  for (int j = 0; j < kMassBars; ++j) {
    bars[j] = static_cast<float>(high - width * (j + 1) / kMassBars);
  }
  return bars;
}

// How many bits are set. In plain arithmetic, which the compiler does in vectors: std::popcount is
// a call where it may not assume the instruction.
inline int64_t CountBits(std::span<const uint64_t> words) {
  int64_t n = 0;
  for (uint64_t x : words) {
    x -= x >> 1 & 0x5555555555555555U;
    x = (x & 0x3333333333333333U) + (x >> 2 & 0x3333333333333333U);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fU;
    x += x >> 8;
    x += x >> 16;
    x += x >> 32;
    n += static_cast<int64_t>(x & 0x7f);
  }
  return n;
}

}  // namespace ng

#endif  // NG_CORE_SAMPLING_MASS_BARS_H_
