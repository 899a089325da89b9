// The floats that arithmetic is tried on last.
#ifndef NG_TESTS_SUPPORT_FLOATS_H_
#define NG_TESTS_SUPPORT_FLOATS_H_

#include <limits>

namespace ng {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace ng

#endif  // NG_TESTS_SUPPORT_FLOATS_H_
