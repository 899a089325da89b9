#include "plugins/cache/tiles/tile_writer.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "ng/half.h"
#include "ng/vec16.h"

namespace ng {
namespace {

constexpr int kPanelDims = 64;  // dimensions narrowed at a time; even

void NarrowBf16(const float* in, int n, uint16_t* out) {
  for (int i = 0; i < n; ++i) out[i] = F32ToBf16(in[i]);
}

void NarrowF16(const float* in, int n, uint16_t* out) {
  for (int i = 0; i < n; ++i) out[i] = F32ToF16(in[i]);
}

NG_BEGIN_TARGET_AVX2
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

}  // namespace

TileWriter::TileWriter(Codec codec, int head_dim, IsaLevel isa)
    : codec_(codec), head_dim_(head_dim), narrow_(nullptr) {
  if (codec == Codec::kBf16) narrow_ = NarrowBf16;
  if (codec == Codec::kF16) narrow_ = isa == IsaLevel::kScalar ? NarrowF16 : NarrowF16Avx2;
}

int64_t TileWriter::KeyTileBytes(Codec codec, int64_t head_dim) {
  if (codec == Codec::kF32) return head_dim * kTileTokens * 4;
  return (head_dim + head_dim % 2) * kTileTokens * 2;
}

int64_t TileWriter::ValueTileBytes(Codec codec, int64_t head_dim) {
  return head_dim * kTileTokens * CodecBytes(codec);
}

void TileWriter::WriteKeys(const TileRows& source, std::byte* tile) const {
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

float TileWriter::Widen(const std::byte* tile, int64_t index) const {
  if (codec_ == Codec::kF32) return reinterpret_cast<const float*>(tile)[index];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(tile)[index];
  return codec_ == Codec::kBf16 ? Bf16ToF32(bits) : F16ToF32(bits);
}

float TileWriter::ReadKey(const std::byte* tile, int slot, int dim) const {
  if (codec_ == Codec::kF32) return Widen(tile, dim * kTileTokens + slot);
  return Widen(tile, PairedKeyIndex(slot, dim));
}

float TileWriter::ReadValue(const std::byte* tile, int slot, int dim) const {
  if (codec_ == Codec::kF32) return Widen(tile, int64_t{slot} * head_dim_ + dim);
  return Widen(tile, PairedValueIndex(slot, dim, head_dim_));
}

}  // namespace ng
