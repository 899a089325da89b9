#include "core/kernels/packed_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ng/half.h"
#include "tests/core/kernels/test_support.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

constexpr WeightType kFloatTypes[] = {WeightType::kF32, WeightType::kBf16, WeightType::kF16};
constexpr WeightType kTypes[] = {WeightType::kF32, WeightType::kBf16, WeightType::kF16,
                                 WeightType::kInt8, WeightType::kInt4};

// Element (row, k) of packed int8 or int4 by the documented shapes.
float QuantAt(const PackedMatrix& m, int64_t row, int64_t k) {
  const bool int8 = m.type() == WeightType::kInt8;
  const int64_t quant_bytes = int8 ? 512 : 256;
  const int64_t blocks = (m.k() + 31) / 32;
  const auto* block = reinterpret_cast<const uint8_t*>(m.data()) +
                      (row / 16 * blocks + k / 32) * (quant_bytes + 32);
  const int64_t column = row % 16;
  const int64_t i = k % 32;
  uint16_t scale = 0;
  std::memcpy(&scale, block + quant_bytes + 2 * column, sizeof(scale));
  if (int8) {
    const int shifted = block[i / 4 * 64 + column * 4 + i % 4];
    return F16ToF32(scale) * static_cast<float>(shifted - 128);
  }
  const uint8_t both = block[i / 8 * 64 + column * 4 + i % 4];
  return F16ToF32(scale) * static_cast<float>((i % 8 < 4 ? both & 15 : both >> 4) - 8);
}

// Element (row, k) of the packed bytes by the documented shapes.
float At(const PackedMatrix& m, int64_t row, int64_t k) {
  if (m.type() == WeightType::kInt8 || m.type() == WeightType::kInt4) return QuantAt(m, row, k);
  const int64_t block = row / 16;
  const int64_t column = row % 16;
  if (m.type() == WeightType::kBf16) {
    const int64_t pairs = (m.k() + 1) / 2;
    return Bf16ToF32(reinterpret_cast<const uint16_t*>(
        m.data())[((block * pairs + k / 2) * 16 + column) * 2 + k % 2]);
  }
  const int64_t at = (block * m.k() + k) * 16 + column;
  if (m.type() == WeightType::kF16) {
    return F16ToF32(reinterpret_cast<const uint16_t*>(m.data())[at]);
  }
  return reinterpret_cast<const float*>(m.data())[at];
}

float Rounded(WeightType type, float value) {
  if (type == WeightType::kBf16) return Bf16ToF32(F32ToBf16(value));
  if (type == WeightType::kF16) return F16ToF32(F32ToF16(value));
  return value;
}

PackedMatrix PackInPieces(WeightType type, int64_t n, int64_t k, int64_t piece,
                          const std::vector<float>& rows) {
  PackedMatrix m = *PackedMatrix::Allocate(type, n, k);
  for (int64_t row = 0; row < n; row += piece) {
    m.PackRows(row, std::min(piece, n - row), rows.data() + row * k);
  }
  return m;
}

TEST(PackedMatrix, HoldsEachValueRoundedOnceWhereTheLayoutSays) {
  for (const WeightType type : kFloatTypes) {
    for (const int64_t n : {1, 16, 17, 45}) {
      for (const int64_t k : {1, 2, 15, 33, 301}) {
        const std::vector<float> rows = RandomFloats(n * k, 7);
        const PackedMatrix m = PackInPieces(type, n, k, n, rows);
        std::vector<float> row(k);
        for (int64_t r = 0; r < n; ++r) {
          m.CopyRow(r, row.data());
          for (int64_t i = 0; i < k; ++i) {
            ASSERT_EQ(At(m, r, i), Rounded(type, rows[r * k + i]));
            ASSERT_EQ(row[i], At(m, r, i));
          }
        }
      }
    }
  }
}

TEST(PackedMatrix, HoldsBlocksOf32OnTheirGridWhereTheLayoutSays) {
  for (const int64_t n : {1, 16, 45}) {
    for (const int64_t k : {1, 31, 32, 33, 70}) {
      const std::vector<float> rows = RandomFloats(n * k, 9);
      for (const WeightType type : {WeightType::kInt8, WeightType::kInt4}) {
        const PackedMatrix m = PackInPieces(type, n, k, n, rows);
        // Values are below 1: half a step of 1 / 127, or a whole one of 1 / 8 where +1 is cut off.
        const float step = type == WeightType::kInt8 ? 0.51F / 127.0F : 1.01F / 8.0F;
        std::vector<float> row(k);
        for (int64_t r = 0; r < n; ++r) {
          m.CopyRow(r, row.data());
          for (int64_t i = 0; i < k; ++i) {
            ASSERT_EQ(row[i], At(m, r, i));
            ASSERT_NEAR(row[i], rows[r * k + i], step);
          }
        }
      }
    }
  }
}

TEST(PackedMatrix, TakesStoredFloatsAsTheyAre) {
  for (const auto& [n, k] : {std::pair(45, 32), {45, 70}, {16, 6}, {3, 70}}) {
    const std::vector<float> rows = RandomFloats(int64_t{n} * k, 11);
    for (const WeightType type : kFloatTypes) {
      const PackedMatrix rounded = PackInPieces(type, n, k, n, rows);
      std::string stored;
      for (const float value : rows) {
        if (type == WeightType::kF32) stored.append(reinterpret_cast<const char*>(&value), 4);
        const uint16_t half = type == WeightType::kBf16 ? F32ToBf16(value) : F32ToF16(value);
        if (type != WeightType::kF32) stored.append(reinterpret_cast<const char*>(&half), 2);
      }
      const auto* bytes = reinterpret_cast<const std::byte*>(stored.data());
      const int64_t row_bytes = static_cast<int64_t>(stored.size()) / n;
      PackedMatrix as_stored = *PackedMatrix::Allocate(type, n, k);
      as_stored.PackStored(0, 2, bytes);
      as_stored.PackStored(2, n - 2, bytes + 2 * row_bytes);
      EXPECT_EQ(std::memcmp(as_stored.data(), rounded.data(), rounded.bytes()), 0);
    }
  }
}

// Value i of a span of one column, from packed bytes by the documented shapes.
float GridValueAt(const QuantGrid& grid, const std::byte* packed, int64_t column, int64_t i) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(packed);
  const auto field = [&](const uint8_t* line, int64_t bit, int bits) {
    const int64_t at = grid.by_pairs() ? column / 4 * 16 + i % 4 / 2 * 8 + column % 4 * 2 + i % 2
                                       : column * 4 + i % 4;
    return line[bit / 8 * 64 + at] >> (bit % 8) & ((1 << bits) - 1);
  };
  const uint8_t* chunk = bytes + i / 32 * grid.bits() * 64;
  const int64_t word = i % 32 / 4;
  int q = field(chunk, word * grid.low_bits, grid.low_bits);
  if (grid.high_bits > 0) {
    q |= field(chunk + grid.low_bits * 64, word * grid.high_bits, grid.high_bits) << grid.low_bits;
  }
  const uint8_t* small = bytes + grid.span * grid.bits() * 2;
  const int64_t group = i / grid.group * 16 + column;
  const auto integer = [&](int64_t part) {
    return !grid.grouped() ? 1
                           : static_cast<int8_t>(small[part * grid.span / grid.group * 16 + group]);
  };
  const uint8_t* factors =
      small + (!grid.grouped() ? 0 : grid.span / grid.group * 16 * (grid.has_minimum ? 2 : 1));
  const auto factor = [&](int64_t part) {
    if (grid.power_of_two) return grid.unit * std::ldexp(1.0F, factors[column] - 127);
    if (grid.f32_factors) {
      float whole = 0.0F;
      std::memcpy(&whole, factors + part * 64 + column * 4, sizeof(whole));
      return whole;
    }
    uint16_t half = 0;
    std::memcpy(&half, factors + part * 32 + column * 2, sizeof(half));
    return (part == 0 ? grid.unit : 1.0F) * F16ToF32(half);
  };
  if (grid.has_floats()) {
    const float number = grid.floats[static_cast<size_t>(q)];
    const auto code = static_cast<uint8_t>(integer(0));
    return grid.unit * factor(0) * (grid.float_scales ? kE4m3Values[code] * number : number);
  }
  const float scale = factor(0) * static_cast<float>(integer(0));
  const float value = scale * static_cast<float>(grid.ValueOf(static_cast<uint8_t>(q)));
  return grid.has_minimum ? value - factor(1) * static_cast<float>(integer(1)) : value;
}

std::vector<int64_t> Ascending(int64_t begin, int64_t end) {
  std::vector<int64_t> values(static_cast<size_t>(end - begin));
  std::iota(values.begin(), values.end(), begin);
  return values;
}

TEST(PackedMatrix, TakesSpansOfEveryGridAsTheyAreWhereTheLayoutSays) {
  constexpr int64_t kRows = 37;
  constexpr int64_t kSpans = 9;  // of a row: more than are read at a time
  // All rows of a block at once, and in parts.
  const std::vector<std::vector<int64_t>> calls = {Ascending(0, 16), Ascending(16, 18),
                                                   Ascending(18, 32), Ascending(32, 37)};
  std::mt19937 random(1);
  for (int type = static_cast<int>(WeightType::kInt8); type < kWeightTypes; ++type) {
    const QuantGrid grid = GridOf(static_cast<WeightType>(type));
    const int64_t k = kSpans * grid.span;
    std::vector<QuantSpan> spans;
    for (int64_t i = 0; i < kSpans * kRows; ++i) spans.push_back(RandomSpan(grid, random));
    auto matrix = PackedMatrix::Allocate(static_cast<WeightType>(type), kRows, k);
    ASSERT_TRUE(matrix.ok()) << matrix.status();
    for (const std::vector<int64_t>& rows : calls) {
      PackSpans(rows, std::span(spans).subspan(rows.front() * kSpans, rows.size() * kSpans),
                &*matrix);
    }
    std::vector<float> row(k);
    for (int64_t r = 0; r < kRows; ++r) {
      matrix->CopyRow(r, row.data());
      for (int64_t i = 0; i < k; ++i) {
        const QuantSpan& span = spans[r * kSpans + i / grid.span];
        float values[256];
        SpanValues(grid, span, values);
        ASSERT_EQ(row[i], values[i % grid.span]) << WeightTypeName(matrix->type());
        const std::byte* block = matrix->data() + r / 16 * PackedBlockBytes(matrix->type(), k) +
                                 i / grid.span * PackedBlockBytes(matrix->type(), grid.span);
        ASSERT_EQ(row[i], GridValueAt(grid, block, r % 16, i % grid.span));
      }
    }
  }
}

TEST(PackedMatrix, HoldsBandsOfSeveralTypes) {
  std::mt19937 random(1);
  const std::vector<WeightBand> bands = {
      {WeightType::kQ4K, 2}, {WeightType::kInt8, 1}, {WeightType::kQ6K, 2}};
  constexpr int64_t kRows = 73;  // 32, 16, 25
  constexpr int64_t kDepth = 512;
  WeightMemory memory = *WeightMemory::Reserve(PackedMatrix::PackedBytes(bands, kDepth));
  PackedMatrix matrix = *memory.Allocate(bands, kRows, kDepth);
  int64_t row = 0;
  for (const auto& [type, n] :
       {std::pair(WeightType::kQ4K, 32), {WeightType::kInt8, 16}, {WeightType::kQ6K, 25}}) {
    for (int64_t i = 0; i < n; ++i, ++row) {
      const QuantGrid grid = GridOf(type);
      EXPECT_EQ(matrix.type(row), type);
      std::vector<QuantSpan> spans;
      std::vector<float> expected(kDepth);
      for (int64_t k = 0; k < kDepth; k += grid.span) {
        spans.push_back(RandomSpan(grid, random));
        SpanValues(grid, spans.back(), expected.data() + k);
      }
      PackSpans({&row, 1}, spans, &matrix);
      std::vector<float> values(kDepth);
      matrix.CopyRow(row, values.data());
      ASSERT_EQ(values, expected) << "row " << row;
    }
  }
  EXPECT_EQ(matrix.bytes(), 2 * 2 * 2368 + 16 * (512 + 32) + 2 * 2 * 3360);
}

TEST(PackedMatrix, HoldsTheLargestMagnitudeOfItsTypeFinite) {
  for (const WeightType type : kTypes) {
    const float largest = PackedMatrix::MaxMagnitude(type);
    std::vector<float> rows(32, 1.0F);
    rows[3] = -largest;
    const PackedMatrix m = PackInPieces(type, 1, 32, 1, rows);
    EXPECT_NEAR(At(m, 0, 3), -largest, largest * 1e-2F);
    EXPECT_TRUE(std::isfinite(At(m, 0, 0)));
  }
}

TEST(PackedMatrix, PadsColumnsAndTheOddDepthWithZeros) {
  for (const WeightType type : kTypes) {
    const PackedMatrix m = PackInPieces(type, 21, 5, 21, std::vector<float>(21 * 5, 1.0F));
    for (int64_t row = 21; row < 32; ++row) {
      for (int64_t k = 0; k < 5; ++k) ASSERT_EQ(At(m, row, k), 0.0F);
    }
  }
  const PackedMatrix m = PackInPieces(WeightType::kBf16, 32, 5, 32, std::vector<float>(160, 1.0F));
  for (int64_t row = 0; row < 32; ++row) ASSERT_EQ(At(m, row, 5), 0.0F);
}

TEST(PackedMatrix, TheSplitIntoCallsDoesNotShow) {
  const std::vector<float> rows = RandomFloats(45 * 19, 3);
  for (const WeightType type : kTypes) {
    const PackedMatrix whole = PackInPieces(type, 45, 19, 45, rows);
    for (const int64_t piece : {1, 3, 16, 17, 20}) {
      const PackedMatrix pieces = PackInPieces(type, 45, 19, piece, rows);
      ASSERT_EQ(std::memcmp(whole.data(), pieces.data(), whole.bytes()), 0) << piece;
    }
  }
}

TEST(PackedMatrix, ThreadsMayPackNeighbouringRows) {
  const std::vector<float> rows = RandomFloats(40 * 19, 3);
  const PackedMatrix whole = PackInPieces(WeightType::kBf16, 40, 19, 40, rows);
  PackedMatrix shared = *PackedMatrix::Allocate(WeightType::kBf16, 40, 19);
  std::thread first([&] { shared.PackRows(0, 21, rows.data()); });
  std::thread second([&] { shared.PackRows(21, 19, rows.data() + 21 * 19); });
  first.join();
  second.join();
  EXPECT_EQ(std::memcmp(whole.data(), shared.data(), whole.bytes()), 0);
}

TEST(PackedMatrix, CountsItsBytesWithPadding) {
  EXPECT_EQ(PackedMatrix::PackedBytes(WeightType::kF32, 17, 3), 32 * 3 * 4);
  EXPECT_EQ(PackedMatrix::PackedBytes(WeightType::kF16, 17, 3), 32 * 3 * 2);
  EXPECT_EQ(PackedMatrix::PackedBytes(WeightType::kBf16, 17, 3), 32 * 4 * 2);
  EXPECT_EQ(PackedMatrix::PackedBytes(WeightType::kInt8, 17, 33), 2 * 2 * (16 * 32 + 16 * 2));
  EXPECT_EQ(PackedMatrix::PackedBytes(WeightType::kInt4, 17, 33), 2 * 2 * (16 * 16 + 16 * 2));
  EXPECT_EQ(PackedMatrix::PackedBytes(WeightType::kInt8, 1, 1), 576);  // rounded up to 64
  EXPECT_EQ(PackedMatrix().bytes(), 0);
}

TEST(PackedMatrix, BytesBeyondInt64AreTheLargestInt64) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const WeightType type : kTypes) {
    EXPECT_EQ(PackedMatrix::PackedBytes(type, kMax, 1), kMax);
    EXPECT_EQ(PackedMatrix::PackedBytes(type, 1, kMax), kMax);
    EXPECT_EQ(PackedMatrix::PackedBytes(type, int64_t{1} << 32, int64_t{1} << 32), kMax);
  }
}

TEST(PackedMatrix, RefusesWhatTheSystemCannotGive) {
  for (const int64_t n : {int64_t{1} << 40, std::numeric_limits<int64_t>::max()}) {
    const absl::Status status =
        PackedMatrix::Allocate(WeightType::kBf16, n, int64_t{1} << 20).status();
    EXPECT_EQ(ExitCode(status), 5);
    EXPECT_THAT(std::string(status.message()), HasSubstr("bytes, more than can be had"));
  }
}

TEST(WeightMemory, HoldsMatricesOneAfterTheOtherAndNoMoreThanReserved) {
  const int64_t bytes = PackedMatrix::PackedBytes(WeightType::kInt8, 20, 40);
  WeightMemory memory = *WeightMemory::Reserve(2 * bytes);
  PackedMatrix first = *memory.Allocate(WeightType::kInt8, 20, 40);
  const PackedMatrix second = *memory.Allocate(WeightType::kInt8, 20, 40);
  EXPECT_EQ(second.data(), first.data() + bytes);
  const absl::Status status = memory.Allocate(WeightType::kInt8, 1, 1).status();
  EXPECT_EQ(ExitCode(status), 5);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1 x 1 needs 576 bytes, 0 are left"));
}

TEST(WeightMemory, LivesAsLongAsItsLastMatrix) {
  const std::vector<float> rows = RandomFloats(700 * 900, 5);
  PackedMatrix m;
  {
    WeightMemory memory = *WeightMemory::Reserve(8 << 20);
    m = *memory.Allocate(WeightType::kF32, 700, 900);
  }
  m.PackRows(0, 700, rows.data());
  EXPECT_EQ(At(m, 699, 899), rows.back());
}

TEST(PackedMatrix, IsAlignedAndKeepsItsMemoryWhenMoved) {
  const std::vector<float> rows = RandomFloats(700 * 900, 5);  // large enough for huge pages
  PackedMatrix m = PackInPieces(WeightType::kF32, 700, 900, 700, rows);
  const std::byte* data = m.data();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0U);
  const PackedMatrix moved = std::move(m);
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(At(moved, 699, 899), rows.back());
}

}  // namespace
}  // namespace ng
