// Bits of ggml's blocks, one value a byte. __restrict promises that nothing overlaps: without it,
// checking for that takes as long as a block itself.
#ifndef NG_CORE_FORMATS_GGML_BITS_H_
#define NG_CORE_FORMATS_GGML_BITS_H_

#include <cstdint>
#include <cstring>

namespace ng {

inline uint16_t Word16(const uint8_t* bytes) {
  return static_cast<uint16_t>(bytes[0] | bytes[1] << 8);
}

// The highest bit of byte i is bit i of `bits`, all others are 0.
inline uint64_t SpreadBits(uint8_t bits) {
  const uint64_t each = (bits * uint64_t{0x0101010101010101}) & 0x8040201008040201;
  return (each + 0x7F7F7F7F7F7F7F7F) & 0x8080808080808080;
}

// Values of 32 in 4 bits each: the lower halves of 16 bytes, then the upper ones.
inline void Nibbles(const uint8_t* __restrict bytes, uint8_t* __restrict q) {
  for (int i = 0; i < 16; ++i) {
    q[i] = bytes[i] & 15;
    q[16 + i] = bytes[i] >> 4;
  }
}

// 2 bits of 256 values: each 32 bytes hold 4 x 32 of them.
inline void TwoBits(const uint8_t* __restrict bytes, uint8_t* __restrict q) {
  for (int i = 0; i < 256; i += 128, bytes += 32) {
    for (int part = 0; part < 4; ++part) {
      for (int j = 0; j < 32; ++j) q[i + part * 32 + j] = bytes[j] >> (2 * part) & 3;
    }
  }
}

// 4 bits of 256 values: each 32 bytes hold 2 x 32 of them.
inline void FourBits(const uint8_t* __restrict bytes, uint8_t* __restrict q) {
  for (int i = 0; i < 256; i += 64, bytes += 32) {
    for (int j = 0; j < 32; ++j) {
      q[i + j] = bytes[j] & 15;
      q[i + 32 + j] = bytes[j] >> 4;
    }
  }
}

// The fifth bits of 32 values, in 4 bytes.
inline void AddFifthBits(const uint8_t* bits, uint8_t* q) {
  for (int i = 0; i < 4; ++i, q += 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, q, sizeof(eight));
    eight |= SpreadBits(bits[i]) >> 3;
    std::memcpy(q, &eight, sizeof(eight));
  }
}

// Adds one more bit to 256 values. Byte l of the 32 bytes has the bits of the values i with i % 32
// = l; its bit b belongs to the value in the b-th group of 32.
inline void AddBits(const uint8_t* __restrict bytes, int shift, uint8_t* __restrict q) {
  for (int part = 0; part < 8; ++part) {
    for (int j = 0; j < 32; ++j) q[part * 32 + j] |= (bytes[j] >> part & 1) << shift;
  }
}

}  // namespace ng

#endif  // NG_CORE_FORMATS_GGML_BITS_H_
