// Moves words from rows, as files hold them, to blocks of 16 columns, as kernels read them.
#ifndef NG_CORE_KERNELS_WORDS_H_
#define NG_CORE_KERNELS_WORDS_H_

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/kernels/weight_type.h"
#include "ng/vec16.h"

namespace ng {

// One word of each of four columns.
using FourWords = uint32_t __attribute__((vector_size(16)));

// Word i of each of four rows, for i = 0 to 3. The rows are in memory, at any addresses.
NG_INLINE std::array<FourWords, 4> Transposed(const std::array<const void*, 4>& rows) {
  std::array<FourWords, 4> r;
  for (size_t i = 0; i < 4; ++i) std::memcpy(&r[i], rows[i], sizeof(r[i]));
  const FourWords a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
  const FourWords b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
  const FourWords c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
  const FourWords d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  return {__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
          __builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7)};
}

// Writes without going through the caches. So data that is not read again soon pushes nothing out
// of them, and no line is fetched only to be overwritten. Other threads see the data after a fence.
// Both addresses are 16-byte aligned.
inline void StreamOut(std::span<const std::byte> bytes, std::byte* to) {
#pragma GCC unroll 8
  for (size_t i = 0; i < bytes.size(); i += sizeof(__m128i)) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(bytes.data() + i)));
  }
}

// Copies 16 rows of words, whole squares of 16 x 16. Returns how many words of each row that is.
inline int64_t CopySquares(const std::byte* rows, int64_t row_bytes, std::byte* block) {
  constexpr int64_t kSquareBytes = kBlockColumns * kBlockColumns * 4;
  alignas(64) std::array<std::byte, kSquareBytes> square;  // [words, columns]
  const int64_t row_words = row_bytes / 4;
  const int64_t n_words = row_words - row_words % kBlockColumns;
  for (int64_t begin = 0; begin < n_words; begin += kBlockColumns) {
    for (int64_t r = 0; r < kBlockColumns; r += 4) {
      for (int64_t word = 0; word < kBlockColumns; word += 4) {
        const std::byte* const from = rows + r * row_bytes + (begin + word) * 4;
        const std::array<FourWords, 4> four =
            Transposed({from, from + row_bytes, from + 2 * row_bytes, from + 3 * row_bytes});
        for (int64_t i = 0; i < 4; ++i) {
          std::memcpy(&square[((word + i) * kBlockColumns + r) * 4], &four[i], sizeof(FourWords));
        }
      }
    }
    StreamOut(square, block + begin * kBlockColumns * 4);
  }
  _mm_sfence();
  return n_words;
}

// Copies rows that are already of the matrix's type. A pair of bf16 is together in both places, so
// it is copied as one word.
template <typename Word>
void CopyBlock(const std::byte* rows, int64_t column, int64_t n_rows, int64_t row_bytes,
               std::byte* block) {
  const int64_t n_words = row_bytes / int64_t{sizeof(Word)};
  int64_t begin = 0;
  if (sizeof(Word) == 4 && n_rows == kBlockColumns) begin = CopySquares(rows, row_bytes, block);
  for (; begin < n_words; begin += kBlockColumns) {
    const int64_t end = std::min(n_words, begin + kBlockColumns);
    for (int64_t r = 0; r < n_rows; ++r) {
      const std::byte* from = rows + r * row_bytes;
      std::byte* to = block + (column + r) * int64_t{sizeof(Word)};
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(to + i * kBlockColumns * int64_t{sizeof(Word)},
                    from + i * int64_t{sizeof(Word)}, sizeof(Word));
      }
    }
  }
}

}  // namespace ng

#endif  // NG_CORE_KERNELS_WORDS_H_
