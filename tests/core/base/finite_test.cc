#include "core/base/finite.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "ng/half.h"

namespace ng {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(AllFinite, FindsNanAndInfinityAnywhere) {
  for (const size_t n : {1, 3, 4, 17, 64, 101}) {
    std::vector<float> values(n, -std::numeric_limits<float>::max());
    EXPECT_TRUE(AllFinite(values));
    for (const float bad : {kNan, -kNan, kInf, -kInf}) {
      for (size_t place = 0; place < n; ++place) {
        values[place] = bad;
        EXPECT_FALSE(AllFinite(values)) << n << " " << place;
        values[place] = std::numeric_limits<float>::denorm_min();
      }
    }
  }
  EXPECT_TRUE(AllFinite({}));
}

// The same for numbers of 16 bits, at an odd address.
template <uint16_t kExponent>
void ExpectFound(uint16_t (*narrow)(float), float largest) {
  for (const size_t n : {1, 3, 8, 17, 101}) {
    std::vector<std::byte> memory(1 + n * sizeof(uint16_t));
    const std::span<std::byte> data = std::span(memory).subspan(1);
    const auto set = [&](size_t place, float value) {
      const uint16_t bits = narrow(value);
      std::memcpy(&data[place * sizeof(bits)], &bits, sizeof(bits));
    };
    for (size_t place = 0; place < n; ++place) set(place, -largest);
    EXPECT_TRUE((AllFinite<uint16_t, kExponent>(data)));
    for (const float bad : {kNan, -kNan, kInf, -kInf}) {
      for (size_t place = 0; place < n; ++place) {
        set(place, bad);
        EXPECT_FALSE((AllFinite<uint16_t, kExponent>(data))) << n << " " << place;
        set(place, largest);
      }
    }
  }
}

TEST(AllFinite, FindsNanAndInfinityOf16Bits) {
  ExpectFound<0x7C00>(F32ToF16, 65504.0F);
  ExpectFound<0x7F80>(F32ToBf16, Bf16ToF32(0x7F7F));
}

}  // namespace
}  // namespace ng
