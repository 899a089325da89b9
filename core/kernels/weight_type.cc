#include "core/kernels/weight_type.h"

#include <algorithm>
#include <bit>

#include "ng/half.h"

namespace ng {

std::string_view WeightTypeName(WeightType type) {
  constexpr std::string_view kNames[kWeightTypes] = {
      "f32",    "bf16",    "f16",   "int8", "int4", "q4_1",    "q5_0",
      "q5_1",   "q2_k",    "q3_k",  "q4_k", "q5_k", "q6_k",    "iq4_nl",
      "iq4_xs", "iq3_xxs", "iq3_s", "iq2",  "iq1",  "ternary", "mxfp4"};
  return kNames[static_cast<int>(type)];
}

float FactorOf(const QuantGrid& grid, uint16_t d) {
  if (!grid.power_of_two) return grid.unit * F16ToF32(d);
  constexpr uint32_t kLeast = 0x00400000;  // 2^-127, which is below the normal numbers
  return grid.unit * std::bit_cast<float>(std::max(uint32_t{d} << 23U, kLeast));
}

void SpanValues(const QuantGrid& grid, const QuantSpan& span, float* out) {
  const float d = FactorOf(grid, span.d);
  const float dmin = grid.has_minimum ? F16ToF32(span.dmin) : 0.0F;
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
