#include "core/formats/ggml_blocks.h"

#include <array>
#include <cassert>
#include <cstdint>

#include "ng/half.h"

namespace ng {
namespace {

constexpr int kSmall = 32;  // values of a block of the older types; the K types have 256

float Half(const uint8_t* bytes) {
  return F16ToF32(static_cast<uint16_t>(bytes[0] | bytes[1] << 8));
}

// Value i of 32 in 4 bits each: the lower halves of 16 bytes, then the upper ones.
int Nibble(const uint8_t* q, int i) { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }

// Bit i of 32.
int Bit(const uint8_t* bits, int i) { return bits[i / 8] >> (i % 8) & 1; }

// f16 scale, 16 bytes.
void Q40(const uint8_t* block, float* out) {
  const float d = Half(block);
  for (int i = 0; i < kSmall; ++i) out[i] = d * static_cast<float>(Nibble(block + 2, i) - 8);
}

// f16 scale, f16 minimum, 16 bytes.
void Q41(const uint8_t* block, float* out) {
  const float d = Half(block);
  const float m = Half(block + 2);
  for (int i = 0; i < kSmall; ++i) out[i] = d * static_cast<float>(Nibble(block + 4, i)) + m;
}

// f16 scale, 32 fifth bits, 16 bytes.
void Q50(const uint8_t* block, float* out) {
  const float d = Half(block);
  for (int i = 0; i < kSmall; ++i) {
    out[i] = d * static_cast<float>((Nibble(block + 6, i) | Bit(block + 2, i) << 4) - 16);
  }
}

// f16 scale, f16 minimum, 32 fifth bits, 16 bytes.
void Q51(const uint8_t* block, float* out) {
  const float d = Half(block);
  const float m = Half(block + 2);
  for (int i = 0; i < kSmall; ++i) {
    out[i] = d * static_cast<float>(Nibble(block + 8, i) | Bit(block + 4, i) << 4) + m;
  }
}

// f16 scale, 32 bytes.
void Q80(const uint8_t* block, float* out) {
  const float d = Half(block);
  for (int i = 0; i < kSmall; ++i) {
    out[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
  }
}

// The 2 bits of value i of 256: each 32 bytes hold 4 x 32 values.
int TwoBits(const uint8_t* q, int i) { return q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3; }

// 16 x (4-bit scale, 4-bit minimum), 64 bytes, f16 factors of scales and of minima.
void Q2K(const uint8_t* block, float* out) {
  const float d = Half(block + 80);
  const float dmin = Half(block + 82);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(block[group] & 15);
    const float minimum = dmin * static_cast<float>(block[group] >> 4);
    for (int i = group * 16; i < group * 16 + 16; ++i) {
      out[i] = scale * static_cast<float>(TwoBits(block + 16, i)) - minimum;
    }
  }
}

// 32 bytes of third bits, 64 bytes, 16 6-bit scales in 12 bytes, an f16 factor of the scales.
// Byte l of the third bits belongs to the values i % 32 = l, its bit b to the b-th 32; unset it
// means minus 4.
void Q3K(const uint8_t* block, float* out) {
  const uint8_t* const scales = block + 96;
  const float d = Half(block + 108);
  for (int group = 0; group < 16; ++group) {
    const int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
    const int high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
    const float scale = d * static_cast<float>((low | high << 4) - 32);
    for (int i = group * 16; i < group * 16 + 16; ++i) {
      const int third = block[i % 32] >> (i / 32) & 1;
      out[i] = scale * static_cast<float>(TwoBits(block + 32, i) - (third != 0 ? 0 : 4));
    }
  }
}

struct ScaleAndMinimum {
  float scale;
  float minimum;
};

// Of group 0 to 7 of a Q4_K or Q5_K block: two f16 factors, then 8 6-bit scales and 8 6-bit minima
// in 12 bytes. Those of the groups from 4 on have their upper bits above the others' six.
ScaleAndMinimum GroupOf(const uint8_t* block, int group) {
  const uint8_t* const s = block + 4;
  const int scale = group < 4 ? s[group] & 63 : (s[group + 4] & 15) | s[group - 4] >> 6 << 4;
  const int minimum = group < 4 ? s[group + 4] & 63 : s[group + 4] >> 4 | s[group] >> 6 << 4;
  return {Half(block) * static_cast<float>(scale), Half(block + 2) * static_cast<float>(minimum)};
}

// The 4 bits of value i of 256: each 32 bytes hold 2 x 32 values.
int FourBits(const uint8_t* q, int i) { return q[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15; }

// The groups' scales and minima in 16 bytes, 128 bytes.
void Q4K(const uint8_t* block, float* out) {
  for (int group = 0; group < 8; ++group) {
    const auto [scale, minimum] = GroupOf(block, group);
    for (int i = group * 32; i < group * 32 + 32; ++i) {
      out[i] = scale * static_cast<float>(FourBits(block + 16, i)) - minimum;
    }
  }
}

// The groups' scales and minima in 16 bytes, 32 bytes of fifth bits (as Q3_K's third), 128 bytes.
void Q5K(const uint8_t* block, float* out) {
  for (int group = 0; group < 8; ++group) {
    const auto [scale, minimum] = GroupOf(block, group);
    for (int i = group * 32; i < group * 32 + 32; ++i) {
      const int fifth = block[16 + i % 32] >> group & 1;
      out[i] = scale * static_cast<float>(FourBits(block + 48, i) | fifth << 4) - minimum;
    }
  }
}

// 128 bytes of lower 4 bits, 64 bytes of upper 2 bits, 16 8-bit scales, an f16 factor of them.
// Of each 128 values the lower bits lie in 64 bytes: first 64 values, then 64 values.
void Q6K(const uint8_t* block, float* out) {
  const float d = Half(block + 208);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(static_cast<int8_t>(block[192 + group]));
    for (int i = group * 16; i < group * 16 + 16; ++i) {
      const int low = block[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4) & 15;
      const int high = TwoBits(block + 128, i);
      out[i] = scale * static_cast<float>((low | high << 4) - 32);
    }
  }
}

using Dequantize = void (*)(const uint8_t* block, float* out);

// In the order of the enum, from kQ40 on.
constexpr std::array<Dequantize, 10> kDequantize = {Q40, Q41, Q50, Q51, Q80,
                                                    Q2K, Q3K, Q4K, Q5K, Q6K};
static_assert(kDequantize.size() ==
              static_cast<size_t>(DType::kQ6K) - static_cast<size_t>(DType::kQ40) + 1);

}  // namespace

void DequantizeBlocks(DType dtype, const std::byte* data, std::span<float> out) {
  assert(dtype >= DType::kQ40 && dtype <= DType::kQ6K);
  const Dequantize dequantize =
      kDequantize[static_cast<size_t>(dtype) - static_cast<size_t>(DType::kQ40)];
  const auto* block = reinterpret_cast<const uint8_t*>(data);
  const auto n = static_cast<size_t>(DTypeBlock(dtype));
  assert(out.size() % n == 0);
  for (size_t i = 0; i < out.size(); i += n, block += DTypeBytes(dtype)) {
    dequantize(block, out.data() + i);
  }
}

}  // namespace ng
