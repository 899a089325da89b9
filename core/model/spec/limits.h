// Limits of what a model's description may say: no real model comes near them, and their products
// fit an int64.
#ifndef NG_CORE_MODEL_SPEC_LIMITS_H_
#define NG_CORE_MODEL_SPEC_LIMITS_H_

#include <cstdint>
#include <limits>

#include "core/formats/json.h"

namespace ng {

inline constexpr Range<int64_t> kCount = {1, 1 << 16};
inline constexpr Range<int64_t> kSize = {1, 1 << 24};
inline constexpr Range<int64_t> kPositions = {1, std::numeric_limits<int32_t>::max()};
// Of a convolution over tokens.
inline constexpr int64_t kMaxTaps = 16;
inline constexpr Range<double> kTheta = {1.0, 1e12};
inline constexpr Range<double> kEps = {0.0, 1.0};

}  // namespace ng

#endif  // NG_CORE_MODEL_SPEC_LIMITS_H_
