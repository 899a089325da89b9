#include "core/formats/ggml_iq_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/formats/ggml_bits.h"
#include "core/formats/ggml_codebooks.h"

namespace ng {
namespace {

constexpr int kEights = 32;  // groups of eight values in a block

uint32_t Word32(const uint8_t* bytes) {
  return uint32_t{Word16(bytes)} | uint32_t{Word16(bytes + 2)} << 16U;
}

int Nibble(const uint8_t* bytes, int i) { return bytes[i / 2] >> (4 * (i % 2)) & 15; }

// The grids' scales are odd: 1, 3, 5...
int8_t OddScale(uint32_t stored) { return static_cast<int8_t>(2 * stored + 1); }

// Eight signs in 7 bits: the number of minus signs is even.
uint8_t EvenSigns(uint32_t seven) {
  return static_cast<uint8_t>(seven | static_cast<uint32_t>(__builtin_parity(seven)) << 7U);
}

// Values of two bits each, from one entry of a codebook, with a third bit from `signs`.
void PutEight(uint16_t entry, uint8_t signs, uint8_t* q) {
  uint64_t eight = (uint64_t{entry} | uint64_t{entry} << 24) & 0x000000FF000000FF;
  eight = (eight | eight << 12) & 0x000F000F000F000F;
  eight = (eight | eight << 6) & 0x0303030303030303;
  eight |= SpreadBits(signs) >> 5;
  std::memcpy(q, &eight, sizeof(eight));
}

// Values of three bits each, from two entries, with a fourth bit from `signs`.
void PutTwoFours(uint16_t first, uint16_t second, uint8_t signs, uint8_t* q) {
  uint64_t eight = uint64_t{first} | uint64_t{second} << 32;
  eight = (eight | eight << 10) & 0x003F003F003F003F;
  eight = (eight | eight << 5) & 0x0707070707070707;
  eight |= SpreadBits(signs) >> 4;
  std::memcpy(q, &eight, sizeof(eight));
}

// Two scales of 4 bits in each of 8 bytes.
void PutNibbleScales(const uint8_t* bytes, QuantSpan* span) {
  for (int group = 0; group < 16; ++group) {
    span->scales[group] = OddScale(static_cast<uint32_t>(Nibble(bytes, group)));
  }
}

// n bytes hold a digit to the base 3 of each of n values, then of the next n. A byte is their
// fraction of 256, rounded up, so the highest digit comes first.
uint8_t* PutDigits(const uint8_t* __restrict bytes, int n, int digits, uint8_t* __restrict q) {
  uint8_t power = 1;
  for (int digit = 0; digit < digits; ++digit, power = static_cast<uint8_t>(power * 3)) {
    for (int i = 0; i < n; ++i) {
      const auto left = static_cast<uint8_t>(bytes[i] * power);
      *q++ = static_cast<uint8_t>(left * 3 >> 8);
    }
  }
  return q;
}

}  // namespace

// f16 scale, 8 x (4 indices of 8 bits; 4 x 7 bits of signs and a 4-bit scale).
void ReadIq2Xxs(const uint8_t* block, QuantSpan* span) {
  span->d = Word16(block);
  for (int i = 0; i < kEights; ++i) {
    const uint8_t* const part = block + 2 + i / 4 * 8;
    const uint32_t more = Word32(part + 4);
    PutEight(kIq2XxsBook[part[i % 4]], EvenSigns(more >> (7 * (i % 4)) & 127U), span->q + 8 * i);
    span->scales[i / 2] = OddScale(more >> 28U);  // of the 32 values, for both of their groups
  }
}

// f16 scale, 32 x (9-bit index, 7 bits of signs), 16 4-bit scales.
void ReadIq2Xs(const uint8_t* block, QuantSpan* span) {
  span->d = Word16(block);
  for (int i = 0; i < kEights; ++i) {
    const uint32_t stored = Word16(block + 2 + 2 * i);
    PutEight(kIq2XsBook[stored & 511U], EvenSigns(stored >> 9U), span->q + 8 * i);
  }
  PutNibbleScales(block + 66, span);
}

// f16 scale, the lower 8 bits of 32 indices, 32 bytes of signs, the indices' upper 2 bits, 16 4-bit
// scales.
void ReadIq2S(const uint8_t* block, QuantSpan* span) {
  span->d = Word16(block);
  for (int i = 0; i < kEights; ++i) {
    const int upper = block[66 + i / 4] >> (2 * (i % 4)) & 3;
    PutEight(kIq2SBook[static_cast<size_t>(block[2 + i] | upper << 8)], block[34 + i],
             span->q + 8 * i);
  }
  PutNibbleScales(block + 74, span);
}

// f16 scale, 64 indices of 8 bits, 8 x (4 x 7 bits of signs and a 4-bit scale).
void ReadIq3Xxs(const uint8_t* block, QuantSpan* span) {
  span->d = Word16(block);
  for (int i = 0; i < kEights; ++i) {
    const uint32_t more = Word32(block + 66 + i / 4 * 4);
    const uint8_t* const index = block + 2 + 2 * i;
    PutTwoFours(kIq3XxsBook[index[0]], kIq3XxsBook[index[1]],
                EvenSigns(more >> (7 * (i % 4)) & 127U), span->q + 8 * i);
    span->scales[i / 4] = OddScale(more >> 28U);
  }
}

// f16 scale, the lower 8 bits of 64 indices, their ninth bits, 32 bytes of signs, 8 4-bit scales.
void ReadIq3S(const uint8_t* block, QuantSpan* span) {
  span->d = Word16(block);
  const auto entry = [&](int i) {
    const int ninth = block[66 + i / 8] >> (i % 8) & 1;
    return kIq3SBook[static_cast<size_t>(block[2 + i] | ninth << 8)];
  };
  for (int i = 0; i < kEights; ++i) {
    PutTwoFours(entry(2 * i), entry(2 * i + 1), block[74 + i], span->q + 8 * i);
  }
  for (int group = 0; group < 8; ++group) {
    span->scales[group] = OddScale(static_cast<uint32_t>(Nibble(block + 106, group)));
  }
}

// f16 scale, the lower 8 bits of 32 indices, 8 x (their upper 3 bits four times, a 3-bit scale, the
// sign of what is added to the values).
void ReadIq1S(const uint8_t* block, QuantSpan* span) {
  span->d = Word16(block);
  for (int i = 0; i < kEights; ++i) {
    const uint32_t more = Word16(block + 34 + i / 4 * 2);
    const uint32_t index = block[2 + i] | (more >> (3 * (i % 4)) & 7U) << 8U;
    PutEight(kIq1Book[index], more >> 15U != 0 ? 0xFF : 0, span->q + 8 * i);
    span->scales[i / 2] = OddScale(more >> 12U & 7U);
  }
}

// The lower 8 bits of 32 indices; 32 x (their upper 3 bits, the sign of what is added to the 8
// values); 4 x (4 3-bit scales, 4 bits of the f16 scale).
void ReadIq1M(const uint8_t* block, QuantSpan* span) {
  const uint8_t* const scales = block + 48;
  span->d = 0;
  for (int i = 0; i < 4; ++i) {
    span->d = static_cast<uint16_t>(span->d | Word16(scales + 2 * i) >> 12 << (4 * i));
  }
  for (int group = 0; group < 16; ++group) {
    const uint32_t four = Word16(scales + group / 4 * 2);
    span->scales[group] = OddScale(four >> (3 * (group % 4)) & 7U);
  }
  for (int i = 0; i < kEights; ++i) {
    const int more = Nibble(block + 32, i);
    PutEight(kIq1Book[static_cast<size_t>(block[i] | (more & 7) << 8)], more >= 8 ? 0xFF : 0,
             span->q + 8 * i);
  }
}

// 48 bytes of 5 values each in two parts, 4 bytes of 4 values, f16 scale.
void ReadTq1(const uint8_t* block, QuantSpan* span) {
  uint8_t* q = PutDigits(block, 32, 5, span->q);
  q = PutDigits(block + 32, 16, 5, q);
  PutDigits(block + 48, 4, 4, q);
  span->d = Word16(block + 52);
  std::ranges::fill(span->scales, int8_t{1});
}

// 64 bytes of 4 values each in two parts, f16 scale. They stand for -1, 0, 1 and, as in
// ggml, 2.
void ReadTq2(const uint8_t* block, QuantSpan* span) {
  TwoBits(block, span->q);
  span->d = Word16(block + 64);
  std::ranges::fill(span->scales, int8_t{1});
}

}  // namespace ng
