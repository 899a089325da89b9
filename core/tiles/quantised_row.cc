#include <algorithm>
#include <bit>
#include <limits>

#include "ng/tiles16.h"

namespace ng {
namespace {

constexpr int32_t kInfinityBits = 0x7F800000;

// Without its sign a float's bits order as its magnitude does, NaN and infinity last; and unlike a
// maximum of floats, one of integers is computed many at a time.
int32_t MagnitudeBits(float x) { return std::bit_cast<int32_t>(x) & 0x7FFFFFFF; }

}  // namespace

float RowScale(Codec codec, const float* row, int n) {
  int32_t most = 0;
  for (int i = 0; i < n; ++i) most = std::max(most, MagnitudeBits(row[i]));
  if (most >= kInfinityBits) return std::numeric_limits<float>::quiet_NaN();
  float scale = std::bit_cast<float>(most) / 127.0F;
  if (codec == Codec::kInt4) {
    scale = *std::find_if(row, row + n, [&](float x) { return MagnitudeBits(x) == most; }) / -8.0F;
  }
  return MagnitudeBits(scale) < MagnitudeBits(std::numeric_limits<float>::min()) ? 0.0F : scale;
}

void QuantiseRow(Codec codec, float scale, const float* row, int n, int8_t* out) {
  if (!(scale < 0.0F || scale > 0.0F)) {
    std::fill_n(out, n, int8_t{0});
    return;
  }
  // Adding it leaves no bits for a fraction, and the low bits of the sum hold the integer.
  constexpr float kShifter = 0x1.8p23F;
  const int most = codec == Codec::kInt4 ? 7 : 127;
  for (int i = 0; i < n; ++i) {
    const int32_t bits = std::bit_cast<int32_t>(row[i] / scale + kShifter);
    out[i] = static_cast<int8_t>(std::min(bits - std::bit_cast<int32_t>(kShifter), most));
  }
}

}  // namespace ng
