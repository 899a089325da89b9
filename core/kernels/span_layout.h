// Where the parts of a span of a value grid are in a packed matrix (packed_matrix.h), for whoever
// packs or reads single columns. The kernels know it too.
#ifndef NG_CORE_KERNELS_SPAN_LAYOUT_H_
#define NG_CORE_KERNELS_SPAN_LAYOUT_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/kernels/weight_type.h"
#include "core/kernels/words.h"
#include "ng/vec16.h"

namespace ng {

// The mask of the bits that a plane of b bits keeps of each byte of a word.
constexpr uint32_t WordMask(int bits) { return ((1U << bits) - 1) * 0x01010101U; }

// One span for each column of a Word.
template <typename Word>
using SpansOf = std::array<const QuantSpan*, sizeof(Word) / sizeof(uint32_t)>;

// The inputs [chunk, chunk + 32) of each span, as words.
template <typename Word>
NG_INLINE std::array<Word, kQuantBlock / 4> WordsOf(const SpansOf<Word>& spans, int64_t chunk) {
  std::array<Word, kQuantBlock / 4> words;
  if constexpr (sizeof(Word) == sizeof(uint32_t)) {
    std::memcpy(words.data(), spans[0]->q + chunk, sizeof(words));
  } else {
    for (size_t half = 0; half < words.size(); half += 4) {
      const int64_t at = chunk + static_cast<int64_t>(half) * 4;
      std::ranges::copy(
          Transposed({spans[0]->q + at, spans[1]->q + at, spans[2]->q + at, spans[3]->q + at}),
          words.begin() + half);
    }
  }
  return words;
}

// Writes a span of one column to its place, or reads it back. Both use the same places.
template <WeightType kType>
struct SpanLayout {
  static constexpr QuantGrid kGrid = GridOf(kType);
  static constexpr int64_t kWords = kQuantBlock / 4;
  static constexpr int kUpper = kGrid.low_bits;  // the line where upper bits begin
  // Where the integers and factors of all columns begin.
  static constexpr int64_t kScales = kGrid.PlaneBytes();
  static constexpr int64_t kMinima = kScales + kGrid.ScaleBytes();
  static constexpr int64_t kD = kMinima + (kGrid.has_minimum ? kGrid.ScaleBytes() : 0);
  static constexpr int64_t kDBytes = kGrid.FactorBytes() / kBlockColumns;
  static constexpr int64_t kDmin = kD + kBlockColumns * kDBytes;

  // Makes the lines of 32 inputs from their words, 4 bytes each, for one column or for four.
  template <typename Word>
  static std::array<Word, kGrid.bits()> Lines(const std::array<Word, kWords>& words) {
    std::array<Word, kGrid.bits()> lines = {};
    for (int word = 0; word < kWords; ++word) {
      const Word q = words[word];
      lines[word * kGrid.low_bits / 8] |= (q & WordMask(kGrid.low_bits))
                                          << (word * kGrid.low_bits % 8);
      if constexpr (kGrid.high_bits > 0) {
        lines[kUpper + word * kGrid.high_bits / 8] |=
            (q >> kGrid.low_bits & WordMask(kGrid.high_bits)) << (word * kGrid.high_bits % 8);
      }
    }
    return lines;
  }

  // Where a word of a column is in its line; by pairs, its first half, with the other one behind
  // the halves of three more columns.
  static constexpr int64_t PlaceOf(int64_t column) {
    return kGrid.by_pairs() ? column / 4 * 16 + column % 4 * 2 : column * 4;
  }
  static constexpr int64_t kHalf = 8;

  static void PutLine(uint32_t line, std::byte* to) {
    std::memcpy(to, &line, kGrid.by_pairs() ? 2 : 4);
    if constexpr (kGrid.by_pairs()) {
      line >>= 16U;
      std::memcpy(to + kHalf, &line, 2);
    }
  }
  static void PutLine(FourWords line, std::byte* to) {
    if constexpr (kGrid.by_pairs()) {
      using Halves = uint16_t __attribute__((vector_size(16)));
      const auto halves = reinterpret_cast<Halves>(line);
      line = reinterpret_cast<FourWords>(
          __builtin_shufflevector(halves, halves, 0, 2, 4, 6, 1, 3, 5, 7));
    }
    std::memcpy(to, &line, sizeof(line));
  }
  static uint32_t GetLine(const std::byte* from) {
    uint32_t line = 0;
    std::memcpy(&line, from, kGrid.by_pairs() ? 2 : 4);
    if constexpr (kGrid.by_pairs()) {
      uint32_t half = 0;
      std::memcpy(&half, from + kHalf, 2);
      line |= half << 16U;
    }
    return line;
  }

  // Writes the columns [column, column + lanes of Word), each from a span of its own.
  template <typename Word>
  static void Put(const SpansOf<Word>& spans, int64_t column, std::byte* to) {
    std::byte* planes = to + PlaceOf(column);
    for (int64_t chunk = 0; chunk < kGrid.span; chunk += kQuantBlock) {
      for (const Word& line : Lines(WordsOf<Word>(spans, chunk))) {
        PutLine(line, planes);
        planes += 64;
      }
    }
    for (const QuantSpan* span : spans) PutScales(*span, column++, to);
  }

  static void PutScales(const QuantSpan& span, int64_t column, std::byte* to) {
    for (int64_t group = 0; kGrid.grouped() && group < kGrid.groups(); ++group) {
      std::memcpy(to + kScales + group * kBlockColumns + column, span.scales + group, 1);
      if (kGrid.has_minimum) {
        std::memcpy(to + kMinima + group * kBlockColumns + column, span.minima + group, 1);
      }
    }
    std::memcpy(to + kD + column * kDBytes, &span.d, kDBytes);
    if (kGrid.has_minimum) std::memcpy(to + kDmin + column * kDBytes, &span.dmin, kDBytes);
  }

  static QuantSpan Get(const std::byte* from, int64_t column) {
    QuantSpan span;
    span.d = span.dmin = 0;
    const std::byte* planes = from + PlaceOf(column);
    for (int64_t chunk = 0; chunk < kGrid.span; chunk += kQuantBlock) {
      std::array<uint32_t, kGrid.bits()> lines;
      for (uint32_t& line : lines) {
        line = GetLine(planes);
        planes += 64;
      }
      for (int word = 0; word < kWords; ++word) {
        uint32_t q = lines[word * kGrid.low_bits / 8] >> (word * kGrid.low_bits % 8) &
                     WordMask(kGrid.low_bits);
        if constexpr (kGrid.high_bits > 0) {
          q |= (lines[kUpper + word * kGrid.high_bits / 8] >> (word * kGrid.high_bits % 8) &
                WordMask(kGrid.high_bits))
               << kGrid.low_bits;
        }
        std::memcpy(span.q + chunk + word * 4, &q, sizeof(q));
      }
    }
    for (int64_t group = 0; kGrid.grouped() && group < kGrid.groups(); ++group) {
      std::memcpy(span.scales + group, from + kScales + group * kBlockColumns + column, 1);
      if (kGrid.has_minimum) {
        std::memcpy(span.minima + group, from + kMinima + group * kBlockColumns + column, 1);
      }
    }
    std::memcpy(&span.d, from + kD + column * kDBytes, kDBytes);
    if (kGrid.has_minimum) std::memcpy(&span.dmin, from + kDmin + column * kDBytes, kDBytes);
    return span;
  }
};

}  // namespace ng

#endif  // NG_CORE_KERNELS_SPAN_LAYOUT_H_
