// fp8 e4m3 (OCP "fn": no infinity, NaN is 0x7F), rounded to nearest even, saturating; and the
// layout that holds it.
#ifndef NG_TESTS_SDK_PARTS_CACHE_E4M3_H_
#define NG_TESTS_SDK_PARTS_CACHE_E4M3_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace parts {

// As tiles16 of f32, with a byte for each element.
inline constexpr std::string_view kLayoutE4m3 = "e4m3_tiles16";

struct E4m3 {
  using Element = uint8_t;

  static float Decode(uint8_t bits) {
    const int exponent = bits >> 3 & 15;
    const int mantissa = bits & 7;
    if ((bits & 0x7F) == 0x7F) return std::numeric_limits<float>::quiet_NaN();
    const float x = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                  : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    return (bits & 0x80) != 0 ? -x : x;
  }

  static uint8_t Encode(float x) {
    const int sign = std::signbit(x) ? 0x80 : 0;
    if (std::isnan(x)) return static_cast<uint8_t>(sign | 0x7F);
    x = std::min(std::fabs(x), 448.0F);
    int exponent = 0;
    std::frexp(x, &exponent);
    // A unit of the last place is 2^step; whole is 8 to 16, less for what is below 2^-6.
    const int step = x == 0 ? -9 : std::max(exponent - 4, -9);
    const int whole = static_cast<int>(std::nearbyint(std::ldexp(x, -step)));
    return static_cast<uint8_t>(sign | ((step + 9) * 8 + whole));
  }
};

}  // namespace parts

#endif  // NG_TESTS_SDK_PARTS_CACHE_E4M3_H_
