#include "core/formats/ggml_blocks.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "core/base/finite.h"
#include "core/formats/ggml_bits.h"
#include "core/formats/ggml_iq_blocks.h"

namespace ng {
namespace {

// f16 scale, 16 bytes. IQ4_NL has the same block.
void Q40(const uint8_t* block, QuantSpan* span) {
  span->d = Word16(block);
  Nibbles(block + 2, span->q);
}

// f16 scale, f16 minimum, 16 bytes. The block adds its minimum; a grid subtracts it.
void Q41(const uint8_t* block, QuantSpan* span) {
  span->d = Word16(block);
  span->dmin = Word16(block + 2) ^ 0x8000;
  Nibbles(block + 4, span->q);
}

// f16 scale, 32 fifth bits, 16 bytes.
void Q50(const uint8_t* block, QuantSpan* span) {
  span->d = Word16(block);
  Nibbles(block + 6, span->q);
  AddFifthBits(block + 2, span->q);
}

// f16 scale, f16 minimum, 32 fifth bits, 16 bytes. The minimum is added, as in Q4_1.
void Q51(const uint8_t* block, QuantSpan* span) {
  span->d = Word16(block);
  span->dmin = Word16(block + 2) ^ 0x8000;
  Nibbles(block + 8, span->q);
  AddFifthBits(block + 4, span->q);
}

// f16 scale, 32 signed bytes; the zero of the grid's bytes is 128.
void Q80(const uint8_t* __restrict block, QuantSpan* __restrict span) {
  span->d = Word16(block);
  for (int i = 0; i < 32; ++i) span->q[i] = block[2 + i] ^ 0x80;
}

// 16 x (4-bit scale, 4-bit minimum), 64 bytes, f16 factors of scales and of minima.
void Q2K(const uint8_t* block, QuantSpan* span) {
  span->d = Word16(block + 80);
  span->dmin = Word16(block + 82);
  for (int group = 0; group < 16; ++group) {
    span->scales[group] = static_cast<int8_t>(block[group] & 15);
    span->minima[group] = static_cast<int8_t>(block[group] >> 4);
  }
  TwoBits(block + 16, span->q);
}

// 32 bytes of third bits, 64 bytes, 12 bytes with 16 6-bit scales (each 32 too large), their f16
// factor.
void Q3K(const uint8_t* block, QuantSpan* span) {
  const uint8_t* const scales = block + 96;
  span->d = Word16(block + 108);
  for (int group = 0; group < 16; ++group) {
    const int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
    const int high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
    span->scales[group] = static_cast<int8_t>((low | high << 4) - 32);
  }
  TwoBits(block + 32, span->q);
  AddBits(block, 2, span->q);
}

// Two f16 factors, then 12 bytes with 8 6-bit scales and 8 6-bit minima. The upper two bits of
// groups 4 to 7 are stored in the bytes of groups 0 to 3, above their six bits.
void ScalesAndMinima(const uint8_t* block, QuantSpan* span) {
  span->d = Word16(block);
  span->dmin = Word16(block + 2);
  uint32_t stored[3];  // four groups each
  std::memcpy(stored, block + 4, sizeof(stored));
  const auto low = [](uint32_t bytes) { return bytes & 0x0F0F0F0FU; };
  const auto six = [](uint32_t bytes) { return bytes & 0x3F3F3F3FU; };
  const auto upper = [](uint32_t bytes) { return bytes >> 2U & 0x30303030U; };
  const uint32_t scales[2] = {six(stored[0]), low(stored[2]) | upper(stored[0])};
  const uint32_t minima[2] = {six(stored[1]), low(stored[2] >> 4U) | upper(stored[1])};
  std::memcpy(span->scales, scales, sizeof(scales));
  std::memcpy(span->minima, minima, sizeof(minima));
}

// Scales and minima in 16 bytes, 128 bytes.
void Q4K(const uint8_t* block, QuantSpan* span) {
  ScalesAndMinima(block, span);
  FourBits(block + 16, span->q);
}

// Scales and minima in 16 bytes, 32 bytes of fifth bits, 128 bytes.
void Q5K(const uint8_t* block, QuantSpan* span) {
  ScalesAndMinima(block, span);
  FourBits(block + 48, span->q);
  AddBits(block + 16, 4, span->q);
}

// 128 bytes of lower 4 bits, 64 bytes of upper 2 bits, 16 8-bit scales, their f16 factor. 64 bytes
// hold the lower bits of 128 values: their lower halves those of the first 64 values, their upper
// halves those of the others.
void Q6K(const uint8_t* __restrict block, QuantSpan* __restrict span) {
  span->d = Word16(block + 208);
  std::memcpy(span->scales, block + 192, sizeof(span->scales));
  TwoBits(block + 128, span->q);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* const low = block + half * 64;
    uint8_t* const q = span->q + half * 128;
    for (int i = 0; i < 64; ++i) {
      q[i] = static_cast<uint8_t>(q[i] << 4 | (low[i] & 15));
      q[64 + i] = static_cast<uint8_t>(q[64 + i] << 4 | low[i] >> 4);
    }
  }
}

// f16 scale, 2 bytes with the upper two bits of 8 6-bit scales (each 32 too large), 4 bytes with
// their lower four, 128 bytes.
void Iq4Xs(const uint8_t* block, QuantSpan* span) {
  span->d = Word16(block);
  const uint16_t upper = Word16(block + 2);
  for (int group = 0; group < 8; ++group) {
    const int low = block[4 + group / 2] >> (4 * (group % 2)) & 15;
    span->scales[group] = static_cast<int8_t>((low | (upper >> (2 * group) & 3) << 4) - 32);
    Nibbles(block + 8 + group * 16, span->q + group * 32);
  }
}

// A power of two, 16 bytes.
void Mxfp4(const uint8_t* block, QuantSpan* span) {
  span->d = block[0];
  Nibbles(block + 1, span->q);
}

// Of other checkpoints (quantised/block_writer.h): f32 factor, f32 minimum where there are minima,
// scales where there are any, the integers or codes of 4 or 8 bits in order.
template <WeightType kGrid>
void Integers(const uint8_t* block, QuantSpan* span) {
  constexpr QuantGrid kOf = GridOf(kGrid);
  std::memcpy(&span->d, block, sizeof(span->d));
  block += sizeof(span->d);
  if constexpr (kOf.has_minimum) {
    std::memcpy(&span->dmin, block, sizeof(span->dmin));
    block += sizeof(span->dmin);
  }
  if constexpr (kOf.grouped()) {
    std::memcpy(span->scales, block, static_cast<size_t>(kOf.groups()));
    block += kOf.groups();
  }
  for (int64_t i = 0; i < kOf.span; ++i) {
    span->q[i] = kOf.bits() == 8 ? block[i] : block[i / 2] >> (4 * (i % 2)) & 15;
  }
}

struct BlockType {
  WeightType grid;
  bool (*read)(const uint8_t* blocks, std::span<QuantSpan> spans);
};

bool IsFinite(uint16_t f16) { return (f16 & 0x7C00) != 0x7C00; }

// Near the largest power of two the values decide; 255 stands for NaN.
bool PowersAreFinite(const QuantGrid& grid, const QuantSpan& span) {
  constexpr uint16_t kAlwaysFinite = 252;
  if (span.d <= kAlwaysFinite) return true;
  if (span.d == 255) return false;
  std::array<float, kQuantBlock> values;
  assert(grid.span == std::ssize(values));
  SpanValues(grid, span, values.data());
  return AllFinite(values);
}

// Also the largest value that there can be.
bool FloatsAreFinite(const QuantGrid& grid, const QuantSpan& span) {
  const float most = 256.0F * FactorOf(grid, span.d);
  const float less = grid.has_minimum ? MinimumOf(grid, span.dmin) : 0.0F;
  return std::isfinite(most) && std::isfinite(less) &&
         std::isfinite(std::abs(most) + std::abs(less));
}

// Codes of E4M3 that stand for no number.
bool IsNoNumber(uint8_t code) { return (code & 0x7FU) == 0x7FU; }

bool CodesAreFinite(const QuantGrid& grid, const QuantSpan& span) {
  bool finite = true;
  for (int64_t i = 0; grid.low_bits == 8 && i < grid.span; ++i) finite &= !IsNoNumber(span.q[i]);
  for (int64_t i = 0; grid.float_scales && i < grid.groups(); ++i) {
    finite &= !IsNoNumber(static_cast<uint8_t>(span.scales[i]));
  }
  return finite;
}

template <DType kDType, WeightType kGrid, void (*kRead)(const uint8_t* block, QuantSpan* span)>
bool ReadAll(const uint8_t* blocks, std::span<QuantSpan> spans) {
  const int64_t bytes = DTypeBytes(kDType);
  bool finite = true;
  for (QuantSpan& span : spans) {
    kRead(blocks, &span);
    if constexpr (GridOf(kGrid).f32_factors) {
      finite = finite && FloatsAreFinite(GridOf(kGrid), span);
      if constexpr (GridOf(kGrid).has_floats()) finite &= CodesAreFinite(GridOf(kGrid), span);
    } else if constexpr (GridOf(kGrid).power_of_two) {
      finite = finite && PowersAreFinite(GridOf(kGrid), span);
    } else {
      finite = finite && IsFinite(span.d) && (!GridOf(kGrid).has_minimum || IsFinite(span.dmin));
    }
    blocks += bytes;
  }
  return finite;
}

template <DType kDType, WeightType kGrid>
constexpr BlockType ReadsIntegers() {
  return {kGrid, ReadAll<kDType, kGrid, Integers<kGrid>>};
}

template <DType kDType, WeightType kGrid, void (*kRead)(const uint8_t* block, QuantSpan* span)>
constexpr BlockType Reads() {
  return {kGrid, ReadAll<kDType, kGrid, kRead>};
}

// In the order of the enum, from kQ40 on.
constexpr std::array kBlockTypes = {Reads<DType::kQ40, WeightType::kInt4, Q40>(),
                                    Reads<DType::kQ41, WeightType::kQ41, Q41>(),
                                    Reads<DType::kQ50, WeightType::kQ50, Q50>(),
                                    Reads<DType::kQ51, WeightType::kQ51, Q51>(),
                                    Reads<DType::kQ80, WeightType::kInt8, Q80>(),
                                    Reads<DType::kQ2K, WeightType::kQ2K, Q2K>(),
                                    Reads<DType::kQ3K, WeightType::kQ3K, Q3K>(),
                                    Reads<DType::kQ4K, WeightType::kQ4K, Q4K>(),
                                    Reads<DType::kQ5K, WeightType::kQ5K, Q5K>(),
                                    Reads<DType::kQ6K, WeightType::kQ6K, Q6K>(),
                                    Reads<DType::kIq4Nl, WeightType::kIq4Nl, Q40>(),
                                    Reads<DType::kIq4Xs, WeightType::kIq4Xs, Iq4Xs>(),
                                    Reads<DType::kIq3Xxs, WeightType::kIq3Xxs, ReadIq3Xxs>(),
                                    Reads<DType::kIq3S, WeightType::kIq3S, ReadIq3S>(),
                                    Reads<DType::kIq2Xxs, WeightType::kIq2, ReadIq2Xxs>(),
                                    Reads<DType::kIq2Xs, WeightType::kIq2, ReadIq2Xs>(),
                                    Reads<DType::kIq2S, WeightType::kIq2, ReadIq2S>(),
                                    Reads<DType::kIq1S, WeightType::kIq1, ReadIq1S>(),
                                    Reads<DType::kIq1M, WeightType::kIq1, ReadIq1M>(),
                                    Reads<DType::kTq1, WeightType::kTernary, ReadTq1>(),
                                    Reads<DType::kTq2, WeightType::kTernary, ReadTq2>(),
                                    Reads<DType::kMxfp4, WeightType::kMxfp4, Mxfp4>(),
                                    ReadsIntegers<DType::kW4, WeightType::kW4>(),
                                    ReadsIntegers<DType::kW4Minima, WeightType::kW4Minima>(),
                                    ReadsIntegers<DType::kW8, WeightType::kW8>(),
                                    ReadsIntegers<DType::kW8Minima, WeightType::kW8Minima>(),
                                    ReadsIntegers<DType::kW4Span64, WeightType::kW4Span64>(),
                                    ReadsIntegers<DType::kW4Minima64, WeightType::kW4Minima64>(),
                                    ReadsIntegers<DType::kW8Span64, WeightType::kW8Span64>(),
                                    ReadsIntegers<DType::kW8Minima64, WeightType::kW8Minima64>(),
                                    ReadsIntegers<DType::kE4m3, WeightType::kE4m3>(),
                                    ReadsIntegers<DType::kE4m3Span128, WeightType::kE4m3Span128>(),
                                    ReadsIntegers<DType::kNf4, WeightType::kNf4>(),
                                    ReadsIntegers<DType::kFp4, WeightType::kFp4>(),
                                    ReadsIntegers<DType::kNvfp4, WeightType::kNvfp4>()};
static_assert(kBlockTypes.size() ==
              static_cast<size_t>(DType::kNvfp4) - static_cast<size_t>(DType::kQ40) + 1);

const BlockType& TypeOf(DType dtype) {
  assert(IsBlockType(dtype));
  return kBlockTypes[static_cast<size_t>(dtype) - static_cast<size_t>(DType::kQ40)];
}

}  // namespace

bool IsBlockType(DType dtype) { return dtype >= DType::kQ40 && dtype <= DType::kNvfp4; }

WeightType BlockGrid(DType dtype) { return TypeOf(dtype).grid; }

bool ReadBlocks(DType dtype, const std::byte* blocks, std::span<QuantSpan> spans) {
  return TypeOf(dtype).read(reinterpret_cast<const uint8_t*>(blocks), spans);
}

void DequantizeBlocks(DType dtype, const std::byte* data, std::span<float> out) {
  const QuantGrid& grid = GridOf(BlockGrid(dtype));
  assert(static_cast<int64_t>(out.size()) % grid.span == 0);
  QuantSpan span;
  for (float* to = out.data(); to < out.data() + out.size(); to += grid.span) {
    ReadBlocks(dtype, data, std::span(&span, 1));
    SpanValues(grid, span, to);
    data += DTypeBytes(dtype);
  }
}

}  // namespace ng
