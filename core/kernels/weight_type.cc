#include "core/kernels/weight_type.h"

#include <algorithm>
#include <bit>

#include "ng/half.h"

namespace ng {

std::string_view WeightTypeName(WeightType type) {
  constexpr std::string_view kNames[kWeightTypes] = {
      "f32",   "bf16",    "f16",     "int8",     "int4",   "q4_1",   "q5_0",    "q5_1",  "q2_k",
      "q3_k",  "q4_k",    "q5_k",    "q6_k",     "iq4_nl", "iq4_xs", "iq3_xxs", "iq3_s", "iq2",
      "iq1",   "ternary", "mxfp4",   "w4_32",    "w4z_32", "w8_32",  "w8z_32",  "w4_64", "w4z_64",
      "w8_64", "w8z_64",  "e4m3_32", "e4m3_128", "nf4",    "fp4",    "nvfp4"};
  return kNames[static_cast<int>(type)];
}

float FactorOf(const QuantGrid& grid, uint32_t d) {
  if (grid.f32_factors) return grid.unit * std::bit_cast<float>(d);
  if (!grid.power_of_two) return grid.unit * F16ToF32(static_cast<uint16_t>(d));
  constexpr uint32_t kLeast = 0x00400000;  // 2^-127, which is below the normal numbers
  return grid.unit * std::bit_cast<float>(std::max(d << 23U, kLeast));
}

float MinimumOf(const QuantGrid& grid, uint32_t dmin) {
  return grid.f32_factors ? std::bit_cast<float>(dmin) : F16ToF32(static_cast<uint16_t>(dmin));
}

namespace {

void FloatValues(const QuantGrid& grid, const QuantSpan& span, float* out) {
  const float d = FactorOf(grid, span.d);
  for (int64_t i = 0; i < grid.span; ++i) {
    const auto scale = static_cast<uint8_t>(span.scales[i / grid.group]);
    const float value = grid.floats[span.q[i]];
    out[i] = d * (grid.float_scales ? kE4m3Values[scale] * value : value);
  }
}

}  // namespace

void SpanValues(const QuantGrid& grid, const QuantSpan& span, float* out) {
  if (grid.has_floats()) return FloatValues(grid, span, out);
  const float d = FactorOf(grid, span.d);
  const float dmin = grid.has_minimum ? MinimumOf(grid, span.dmin) : 0.0F;
  const uint8_t* q = span.q;
  for (int64_t group = 0; group < grid.groups(); ++group) {
    const float scale = grid.grouped() ? d * static_cast<float>(span.scales[group]) : d;
    const float minimum =
        grid.grouped() && grid.has_minimum ? dmin * static_cast<float>(span.minima[group]) : dmin;
    for (int64_t i = 0; i < grid.group; ++i) {
      *out++ = scale * static_cast<float>(grid.ValueOf(*q++)) - minimum;
    }
  }
}

}  // namespace ng
