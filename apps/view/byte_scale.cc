#include "apps/view/byte_scale.h"

#include <algorithm>
#include <cmath>

namespace ng::view {
namespace {

// Between two neighbours, in the logarithm.
const double kStep = -std::log(kLeastProbability) / (kByteSteps - 1);

}  // namespace

uint8_t ToByte(float p) {
  if (p <= 0.0F) return 0;
  static const auto kPerStep = static_cast<float>(1.0 / kStep);
  static const auto kOffset = static_cast<float>(1.0 - std::log(kLeastProbability) / kStep);
  const float byte = std::floor(std::log(p) * kPerStep + kOffset + 0.5F);
  return static_cast<uint8_t>(std::clamp(byte, 0.0F, static_cast<float>(kByteSteps)));
}

double FromByte(uint8_t byte) {
  return byte == 0 ? 0.0 : kLeastProbability * std::exp((byte - 1) * kStep);
}

double ByteError() {
  constexpr double kOfFloats = 1e-4;  // where two bytes are equally near, to which one is left open
  return std::expm1(kStep / 2) + kOfFloats;
}

}  // namespace ng::view
