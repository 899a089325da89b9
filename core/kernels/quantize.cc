#include "core/kernels/quantize.h"

#include <algorithm>
#include <cmath>

#include "ng/half.h"

namespace ng {
namespace {

// Rounds to the nearest whole number, adds `zero`, and limits the result to [low, high].
void Round(const float* x, float scale, int zero, int high, uint8_t* q) {
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  for (int64_t i = 0; i < kQuantBlock; ++i) {
    const float shifted = x[i] * inverse + static_cast<float>(zero) + 0.5F;
    q[i] = static_cast<uint8_t>(std::clamp(shifted, 0.0F, static_cast<float>(high)));
  }
}

struct Fit {
  float error;  // sum of squared differences
  float scale;  // the best one for these integers
};

Fit Measure(const float* x, const QuantSpan& quants, int zero) {
  const float scale = F16ToF32(quants.d);
  float error = 0.0F;
  float xq = 0.0F;
  float qq = 0.0F;
  for (int64_t i = 0; i < kQuantBlock; ++i) {
    const auto q = static_cast<float>(quants.q[i] - zero);
    const float difference = x[i] - scale * q;
    error += difference * difference;
    xq += x[i] * q;
    qq += q * q;
  }
  return {error, qq > 0.0F ? xq / qq : 0.0F};
}

}  // namespace

QuantSpan QuantizeInt8(const float* x) {
  float max = 0.0F;
  for (int64_t i = 0; i < kQuantBlock; ++i) max = std::max(max, std::abs(x[i]));
  QuantSpan quants;
  quants.d = F32ToF16(max / 127.0F);
  Round(x, F16ToF32(quants.d), 128, 255, quants.q);
  return quants;
}

QuantSpan QuantizeInt4(const float* x) {
  constexpr int kZero = 8;
  constexpr int kRefinements = 2;
  const float* end = x + kQuantBlock;
  const float most =
      *std::max_element(x, end, [](float a, float b) { return std::abs(a) < std::abs(b); });
  QuantSpan best;
  Fit best_fit = {};
  float scale = most / -8.0F;
  for (int i = 0; i <= kRefinements; ++i) {
    QuantSpan quants;
    quants.d = F32ToF16(scale);
    Round(x, F16ToF32(quants.d), kZero, 15, quants.q);
    const Fit fit = Measure(x, quants, kZero);
    if (i == 0 || fit.error < best_fit.error) {
      best = quants;
      best_fit = fit;
    }
    scale = fit.scale;
  }
  return best;
}

}  // namespace ng
