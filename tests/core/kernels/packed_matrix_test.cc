#include "core/kernels/packed_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ng/half.h"
#include "tests/core/kernels/test_support.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

constexpr WeightType kTypes[] = {WeightType::kF32, WeightType::kBf16, WeightType::kF16};

// Element (row, k) of the packed bytes by the documented shapes.
float At(const PackedMatrix& m, int64_t row, int64_t k) {
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
  for (const WeightType type : kTypes) {
    for (const int64_t n : {1, 16, 17, 45}) {
      for (const int64_t k : {1, 2, 15, 33}) {
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
  EXPECT_EQ(PackedMatrix().bytes(), 0);
}

TEST(PackedMatrix, BytesBeyondInt64AreTheLargestInt64) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const WeightType type : kTypes) {
    EXPECT_EQ(PackedMatrix::PackedBytes(type, kMax, 1), kMax);
    EXPECT_EQ(PackedMatrix::PackedBytes(type, 1, kMax), kMax);
    EXPECT_EQ(PackedMatrix::PackedBytes(type, int64_t{1} << 31, int64_t{1} << 31), kMax);
  }
}

TEST(PackedMatrix, RefusesWhatTheSystemCannotGive) {
  for (const int64_t n : {int64_t{1} << 40, std::numeric_limits<int64_t>::max()}) {
    const absl::Status status =
        PackedMatrix::Allocate(WeightType::kBf16, n, int64_t{1} << 20).status();
    EXPECT_EQ(ExitCode(status), 5);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(n) + " x 1048576"));
  }
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
