// A row of K or V as integers times a scale: codecs int8 and int4 of ng/kv_view.h, and how their
// words hold the integers.
#ifndef NG_PLUGINS_CACHE_TILES_QUANTISED_ROW_H_
#define NG_PLUGINS_CACHE_TILES_QUANTISED_ROW_H_

#include <cstdint>

#include "ng/kv_view.h"

namespace ng {

// What an integer of 1 stands for in the row. row: [n]. REQUIRES: HasScales(codec), here and below.
float RowScale(Codec codec, const float* row, int n);

// The row as integers, for the scale that RowScale gave. row, out: [n]
void QuantiseRow(Codec codec, float scale, const float* row, int n, int8_t* out);

// Elements in a word: 4 or 8.
inline constexpr int kMostWordElements = 8;
inline int WordElements(Codec codec) { return 32 / CodecBits(codec); }

// Where an element's lowest bit lies in its word.
inline int WordShift(Codec codec, int element) {
  return element % 2 * 16 + element / 2 * CodecBits(codec);
}

inline uint32_t WordMask(Codec codec) { return (1U << CodecBits(codec)) - 1U; }

// The element of a word, sign and all.
inline int WordElement(Codec codec, uint32_t word, int element) {
  const int bits = CodecBits(codec);
  return static_cast<int32_t>(word << (32 - bits - WordShift(codec, element))) >> (32 - bits);
}

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_TILES_QUANTISED_ROW_H_
