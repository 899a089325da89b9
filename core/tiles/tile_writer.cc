#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "ng/half.h"
#include "ng/tiles16.h"
#include "ng/vec16.h"

namespace ng {
namespace {

constexpr int kPanelDims = 64;  // dimensions converted at a time; a multiple of a word's elements
constexpr int64_t kScalesBytes = kTileTokens * 4;

void NarrowBf16(const float* in, int n, uint16_t* out) {
  for (int i = 0; i < n; ++i) out[i] = F32ToBf16(in[i]);
}

void NarrowF16(const float* in, int n, uint16_t* out) {
  for (int i = 0; i < n; ++i) out[i] = F32ToF16(in[i]);
}

NG_BEGIN_TARGET_AVX2
void NarrowBf16Avx2(const float* in, int n, uint16_t* out) {
  for (int i = 0; i < n; ++i) out[i] = F32ToBf16(in[i]);
}
void NarrowF16Avx2(const float* in, int n, uint16_t* out) {
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
  for (; i < n; ++i) out[i] = F32ToF16(in[i]);
}
NG_END_TARGET

int64_t PairedKeyIndex(int slot, int dim) {
  return (int64_t{dim / 2} * kTileTokens + slot) * 2 + dim % 2;
}

int64_t PairedValueIndex(int slot, int dim, int head_dim) {
  return (int64_t{slot / 2} * head_dim + dim) * 2 + slot % 2;
}

int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Writes the row's scale into the tile and returns it.
float WriteScale(Codec codec, const float* row, int head_dim, int slot, std::byte* tile) {
  const float scale = RowScale(codec, row, head_dim);
  std::memcpy(tile + slot * 4, &scale, 4);
  return scale;
}

float ReadScaled(Codec codec, const std::byte* tile, int slot, int64_t word, int element) {
  float scale;
  uint32_t bits;
  std::memcpy(&scale, tile + slot * 4, 4);
  std::memcpy(&bits, tile + kScalesBytes + word * 4, 4);
  return static_cast<float>(WordElement(codec, bits, element)) * scale;
}

// The nearest bf16 that is not above, or not below.
uint16_t Bf16Down(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits >> 16) + (x < 0.0F && (bits & 0xFFFFU) != 0 ? 1 : 0));
}
uint16_t Bf16Up(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits >> 16) + (x > 0.0F && (bits & 0xFFFFU) != 0 ? 1 : 0));
}

}  // namespace

TileWriter::TileWriter(Codec codec, int head_dim, IsaLevel isa)
    : codec_(codec), head_dim_(head_dim), narrow_(nullptr) {
  if (codec == Codec::kBf16) narrow_ = isa == IsaLevel::kScalar ? NarrowBf16 : NarrowBf16Avx2;
  if (codec == Codec::kF16) narrow_ = isa == IsaLevel::kScalar ? NarrowF16 : NarrowF16Avx2;
}

int64_t TileWriter::KeyTileBytes(Codec codec, int64_t head_dim) {
  const int64_t step = 32 / CodecBits(codec);
  return (HasScales(codec) ? kScalesBytes : 0) + RoundUp(head_dim, step) / step * kTileTokens * 4;
}

int64_t TileWriter::ValueTileBytes(Codec codec, int64_t head_dim) {
  return (HasScales(codec) ? kScalesBytes : 0) + head_dim * kTileTokens * CodecBits(codec) / 8;
}

void TileWriter::WriteKeys(const TileRows& source, std::byte* tile) const {
  if (HasScales(codec_)) return WriteQuantisedKeys(source, tile);
  if (narrow_ == nullptr) {  // [D][16]
    auto* out = reinterpret_cast<float*>(tile) + source.slot;
    for (int d = 0; d < head_dim_; ++d) {
      for (int r = 0; r < source.n_rows; ++r) {
        out[d * kTileTokens + r] = source.rows[r * source.row_stride + d];
      }
    }
    return;
  }
  uint16_t panel[kTileTokens][kPanelDims];  // [Dp/2][16][2], a panel of dimensions at a time
  for (int d0 = 0; d0 < head_dim_; d0 += kPanelDims) {
    const int n = std::min(kPanelDims, head_dim_ - d0);
    for (int r = 0; r < source.n_rows; ++r) {
      narrow_(source.rows + r * source.row_stride + d0, n, panel[r]);
      if (n % 2 != 0) panel[r][n] = 0;  // the pad dimension
    }
    for (int d = 0; d < n; d += 2) {
      std::byte* pairs = tile + PairedKeyIndex(source.slot, d0 + d) * 2;
      for (int r = 0; r < source.n_rows; ++r) std::memcpy(pairs + r * 4, &panel[r][d], 4);
    }
  }
}

void TileWriter::WriteValues(const TileRows& source, std::byte* tile) const {
  if (HasScales(codec_)) return WriteQuantisedValues(source, tile);
  for (int r = 0; r < source.n_rows; ++r) {
    const float* row = source.rows + r * source.row_stride;
    const int slot = source.slot + r;
    if (narrow_ == nullptr) {  // [16][D]
      std::memcpy(tile + int64_t{slot} * head_dim_ * 4, row, static_cast<size_t>(head_dim_) * 4);
      continue;
    }
    uint16_t panel[kPanelDims];  // [8][D][2]
    for (int d0 = 0; d0 < head_dim_; d0 += kPanelDims) {
      const int n = std::min(kPanelDims, head_dim_ - d0);
      narrow_(row + d0, n, panel);
      auto* out = reinterpret_cast<uint16_t*>(tile) + PairedValueIndex(slot, d0, head_dim_);
      for (int d = 0; d < n; ++d) out[d * 2] = panel[d];
    }
  }
}

// [16] scales, [D rounded up to words][16]
void TileWriter::WriteQuantisedKeys(const TileRows& source, std::byte* tile) const {
  const int n_word = WordElements(codec_);
  const uint32_t mask = WordMask(codec_);
  int shifts[kMostWordElements];
  for (int e = 0; e < n_word; ++e) shifts[e] = WordShift(codec_, e);
  for (int r = 0; r < source.n_rows; ++r) {
    const float* row = source.rows + r * source.row_stride;
    const int slot = source.slot + r;
    const float scale = WriteScale(codec_, row, head_dim_, slot, tile);
    int8_t panel[kPanelDims] = {};
    for (int d0 = 0; d0 < head_dim_; d0 += kPanelDims) {
      const int n = std::min(kPanelDims, head_dim_ - d0);
      QuantiseRow(codec_, scale, row + d0, n, panel);
      std::fill(panel + n, panel + RoundUp(n, n_word), int8_t{0});  // pad dimensions
      for (int d = 0; d < n; d += n_word) {
        uint32_t word = 0;
        for (int e = 0; e < n_word; ++e) {
          word |= (static_cast<uint32_t>(panel[d + e]) & mask) << shifts[e];
        }
        const int64_t at = int64_t{(d0 + d) / n_word} * kTileTokens + slot;
        std::memcpy(tile + kScalesBytes + at * 4, &word, 4);
      }
    }
  }
}

// [16] scales, [16 tokens by words][D]
void TileWriter::WriteQuantisedValues(const TileRows& source, std::byte* tile) const {
  const int n_word = WordElements(codec_);
  const uint32_t mask = WordMask(codec_);
  for (int r = 0; r < source.n_rows; ++r) {
    const float* row = source.rows + r * source.row_stride;
    const int slot = source.slot + r;
    const int shift = WordShift(codec_, slot % n_word);
    const float scale = WriteScale(codec_, row, head_dim_, slot, tile);
    auto* words = reinterpret_cast<uint32_t*>(tile + kScalesBytes) + slot / n_word * head_dim_;
    int8_t panel[kPanelDims];
    for (int d0 = 0; d0 < head_dim_; d0 += kPanelDims) {
      const int n = std::min(kPanelDims, head_dim_ - d0);
      QuantiseRow(codec_, scale, row + d0, n, panel);
      for (int d = 0; d < n; ++d) {
        const uint32_t element = (static_cast<uint32_t>(panel[d]) & mask) << shift;
        words[d0 + d] = (words[d0 + d] & ~(mask << shift)) | element;
      }
    }
  }
}

float TileWriter::Widen(const std::byte* tile, int64_t index) const {
  if (codec_ == Codec::kF32) return reinterpret_cast<const float*>(tile)[index];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(tile)[index];
  return codec_ == Codec::kBf16 ? Bf16ToF32(bits) : F16ToF32(bits);
}

float TileWriter::ReadKey(const std::byte* tile, int slot, int dim) const {
  if (HasScales(codec_)) {
    const int n_word = WordElements(codec_);
    return ReadScaled(codec_, tile, slot, dim / n_word * kTileTokens + slot, dim % n_word);
  }
  if (codec_ == Codec::kF32) return Widen(tile, dim * kTileTokens + slot);
  return Widen(tile, PairedKeyIndex(slot, dim));
}

float TileWriter::ReadValue(const std::byte* tile, int slot, int dim) const {
  if (HasScales(codec_)) {
    const int n_word = WordElements(codec_);
    const int64_t word = int64_t{slot / n_word} * head_dim_ + dim;
    return ReadScaled(codec_, tile, slot, word, slot % n_word);
  }
  if (codec_ == Codec::kF32) return Widen(tile, int64_t{slot} * head_dim_ + dim);
  return Widen(tile, PairedValueIndex(slot, dim, head_dim_));
}

void TileWriter::ReadKeys(const std::byte* tile, int n_rows, float* out) const {
  if (codec_ == Codec::kF32) {
    const auto* in = reinterpret_cast<const float*>(tile);
    for (int d = 0; d < head_dim_; ++d) {
      for (int r = 0; r < n_rows; ++r) out[r * head_dim_ + d] = in[d * kTileTokens + r];
    }
  } else if (codec_ == Codec::kBf16) {
    for (int d = 0; d < head_dim_; ++d) {
      const auto* in = reinterpret_cast<const uint16_t*>(tile) + PairedKeyIndex(0, d);
      for (int r = 0; r < n_rows; ++r) out[r * head_dim_ + d] = Bf16ToF32(in[r * 2]);
    }
  } else {
    for (int r = 0; r < n_rows; ++r) {
      for (int d = 0; d < head_dim_; ++d) out[r * head_dim_ + d] = ReadKey(tile, r, d);
    }
  }
}

void TileWriter::ReadValues(const std::byte* tile, int n_rows, float* out) const {
  if (codec_ == Codec::kF32) {
    std::memcpy(out, tile, static_cast<size_t>(n_rows) * static_cast<size_t>(head_dim_) * 4);
    return;
  }
  for (int r = 0; r < n_rows; ++r, out += head_dim_) {
    if (codec_ == Codec::kBf16) {
      const auto* in = reinterpret_cast<const uint16_t*>(tile) + PairedValueIndex(r, 0, head_dim_);
      for (int d = 0; d < head_dim_; ++d) out[d] = Bf16ToF32(in[d * 2]);
    } else {
      for (int d = 0; d < head_dim_; ++d) out[d] = ReadValue(tile, r, d);
    }
  }
}

void TileWriter::WriteBounds(const std::byte* tile, std::byte* bounds) const {
  constexpr uint16_t kNaN = 0x7FC0;
  auto* out = reinterpret_cast<uint16_t*>(bounds);  // [D rounded up to 16][2]
  std::memset(bounds, 0, static_cast<size_t>(BoundsBytes(head_dim_)));
  for (int d = 0; d < head_dim_; ++d) {
    float keys[kTileTokens];
    if (codec_ == Codec::kF32) {
      std::memcpy(keys, tile + d * int64_t{sizeof(keys)}, sizeof(keys));
    } else if (codec_ == Codec::kBf16) {
      const auto* in = reinterpret_cast<const uint16_t*>(tile) + PairedKeyIndex(0, d);
      for (int slot = 0; slot < kTileTokens; ++slot) keys[slot] = Bf16ToF32(in[slot * 2]);
    } else {
      for (int slot = 0; slot < kTileTokens; ++slot) keys[slot] = ReadKey(tile, slot, d);
    }
    float least = keys[0];
    float most = keys[0];
    bool numbers = true;
    for (const float key : keys) {
      least = key < least ? key : least;
      most = key > most ? key : most;
      numbers = numbers && key == key;
    }
    out[2 * d] = numbers ? Bf16Down(least) : kNaN;
    out[2 * d + 1] = numbers ? Bf16Up(most) : kNaN;
  }
}

// In every codec a K tile is rows of 16 words, a word for each slot; scales are such a row.
void TileWriter::CopyKeyRow(const std::byte* from, int from_slot, std::byte* to,
                            int to_slot) const {
  const int64_t n_words = KeyTileBytes(codec_, head_dim_) / (kTileTokens * 4);
  for (int64_t i = 0; i < n_words; ++i) {
    std::memcpy(to + (i * kTileTokens + to_slot) * 4, from + (i * kTileTokens + from_slot) * 4, 4);
  }
}

void TileWriter::CopyValueRow(const std::byte* from, int from_slot, std::byte* to,
                              int to_slot) const {
  if (codec_ == Codec::kF32) {
    const int64_t row_bytes = int64_t{head_dim_} * 4;
    std::memcpy(to + to_slot * row_bytes, from + from_slot * row_bytes,
                static_cast<size_t>(row_bytes));
    return;
  }
  if (!HasScales(codec_)) {
    const auto* in =
        reinterpret_cast<const uint16_t*>(from) + PairedValueIndex(from_slot, 0, head_dim_);
    auto* out = reinterpret_cast<uint16_t*>(to) + PairedValueIndex(to_slot, 0, head_dim_);
    for (int d = 0; d < head_dim_; ++d) out[d * 2] = in[d * 2];
    return;
  }
  std::memcpy(to + to_slot * 4, from + from_slot * 4, 4);
  const int n_word = WordElements(codec_);
  const uint32_t mask = WordMask(codec_);
  const int from_shift = WordShift(codec_, from_slot % n_word);
  const int to_shift = WordShift(codec_, to_slot % n_word);
  const auto* in =
      reinterpret_cast<const uint32_t*>(from + kScalesBytes) + from_slot / n_word * head_dim_;
  auto* out = reinterpret_cast<uint32_t*>(to + kScalesBytes) + to_slot / n_word * head_dim_;
  for (int d = 0; d < head_dim_; ++d) {
    const uint32_t element = in[d] >> from_shift & mask;
    out[d] = (out[d] & ~(mask << to_shift)) | element << to_shift;
  }
}

}  // namespace ng
