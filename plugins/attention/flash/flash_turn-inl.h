// Values that a cache holds as the first dimensions of their keys (feature "v_in_k"), laid out as
// the flash kernel multiplies values. Included between a level's target macros. No include guard.
//
// A tile of keys has words of 32 bits: of one dimension, of two, of four or of eight, for 16 tokens
// side by side. Turned round, the words of a token are its row; two rows make the pairs of values
// that a step has. What no key of the split needs stays as it is.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ng/tiles16.h"
#include "plugins/attention/flash/flash_kernel.h"
#include "plugins/attention/flash/flash_scratch.h"

namespace ng {

// in: [n][16]; out: [16][stride], of each row n are written.
struct PlainWordTurn {
  static NG_INLINE void Words(const std::byte* in, int n, int64_t stride, uint32_t* out) {
    for (int i = 0; i < n; ++i) {
      uint32_t words[kTileTokens];
      std::memcpy(words, in + i * int64_t{sizeof(words)}, sizeof(words));
      for (int64_t token = 0; token < kTileTokens; ++token) out[token * stride + i] = words[token];
    }
  }
};

template <class Level>
struct FlashTurn {
  using Tiles = typename FlashBlock<Level>::Tiles;
  using KeyRange = typename FlashBlock<Level>::KeyRange;

  // The tiles of a split's values, `width` of them, in the lanes L. memory:
  // [WorkerScratch::TurnedFloats(width)]
  template <class L>
  static Tiles Turn(const Tiles& keys, Codec codec, int width, KeyRange range, float* memory) {
    constexpr int64_t kScales = L::kScaled ? kTileTokens : 0;
    constexpr int64_t kSteps = kTileTokens / L::kStep;
    const int word_elements = 32 / CodecBits(codec);
    const int n_words = (width + word_elements - 1) / word_elements;
    const int64_t step_words = L::kScaled ? RoundUp16(width) : width;
    auto* to = reinterpret_cast<uint32_t*>(memory);
    const Rows rows = {to + WorkerScratch::UnpackedFloats(width), RoundUp16(n_words)};
    Tiles turned;
    turned.tile_bytes = (kScales + kSteps * step_words) * int64_t{sizeof(uint32_t)};
    for (int t = 0; t < FlashBlock<Level>::kSplitTiles; ++t) {
      turned.at[t] = reinterpret_cast<std::byte*>(to);
      if (t * kTileTokens >= range.end || (t + 1) * kTileTokens <= range.begin) continue;
      const std::byte* const from = keys.at[t] + kScales * int64_t{sizeof(float)};
      std::memcpy(to, keys.at[t], kScales * sizeof(float));
      to += kScales;
      if constexpr (L::kStep == 1) {
        Level::Turn::Words(from, n_words, step_words, to);
      } else {
        Level::Turn::Words(from, n_words, rows.stride, rows.words);
        for (int64_t step = 0; step < kSteps; ++step) {
          uint32_t* const pairs = to + step * step_words;
          if constexpr (!L::kScaled) {
            PairHalves(rows.From(2 * step), width, pairs);
          } else if (codec == Codec::kInt8) {
            PairIntegers<Codec::kInt8>(rows.From(2 * step), n_words, pairs);
          } else {
            PairIntegers<Codec::kInt4>(rows.From(2 * step), n_words, pairs);
          }
        }
      }
      to += kSteps * step_words;
    }
    return turned;
  }

 private:
  // A tile's tokens, one row of words each.
  struct Rows {
    uint32_t* words;  // [16][stride]
    int64_t stride;
    Rows From(int64_t row) const { return {words + row * stride, stride}; }
  };

  // Pairs of the first two rows' 16-bit elements. out: [width]
  static void PairHalves(const Rows& rows, int width, uint32_t* out) {
    const uint32_t* const a = rows.words;
    const uint32_t* const b = rows.words + rows.stride;
    for (int i = 0; i < width / 2; ++i) {
      out[2 * i] = (a[i] & 0xFFFFU) | b[i] << 16;
      out[2 * i + 1] = a[i] >> 16 | (b[i] & 0xFFFF0000U);
    }
    if (width % 2 != 0) out[width - 1] = (a[width / 2] & 0xFFFFU) | b[width / 2] << 16;
  }

  // The same of integers, widened to 16 bits. out: [n_words * elements], zeros up to whole vectors
  template <Codec kCodec>
  static void PairIntegers(const Rows& rows, int n_words, uint32_t* out) {
    constexpr int kElements = WordElements(kCodec);
    const uint32_t* const a = rows.words;
    const uint32_t* const b = rows.words + rows.stride;
    for (int i = 0; i < n_words; ++i) {
      for (int e = 0; e < kElements; ++e) {
        const auto first = static_cast<uint32_t>(WordElement(kCodec, a[i], e));
        const auto second = static_cast<uint32_t>(WordElement(kCodec, b[i], e));
        out[i * kElements + e] = (first & 0xFFFFU) | second << 16;
      }
    }
    for (int d = n_words * kElements; d % 16 != 0; ++d) out[d] = 0;
  }
};

}  // namespace ng
