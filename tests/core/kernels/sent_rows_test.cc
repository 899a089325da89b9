// A row that is rounded in parts, sent and put together is the row that a matmul reads.
#include "core/kernels/sent_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "ng/isa.h"
#include "tests/core/kernels/test_support.h"

namespace ng {
namespace {

std::vector<std::byte> BytesOf(InputType type, int64_t k) {
  return std::vector<std::byte>(static_cast<size_t>(InputRowBytes(type, k)));
}

TEST(SentRows, OfPartsHaveTheBitsOfTheRowOnEveryLevel) {
  constexpr int64_t kInputs = 32 * 7 + 24;  // the last group is not full
  constexpr int64_t kCut = 96;
  std::vector<float> x = RandomFloats(kInputs, 7);
  std::fill_n(x.begin(), 32, 0.0F);
  for (const IsaLevel from : SupportedIsaLevels()) {
    for (const IsaLevel to : SupportedIsaLevels()) {
      if (ArithmeticOf(from).ToString() != ArithmeticOf(to).ToString()) continue;
      for (int w = 0; w < kWeightTypes; ++w) {
        const KernelTable& sender = Kernels(from);
        const KernelTable& reader = Kernels(to);
        if (reader.prepare[w] == nullptr) continue;
        SCOPED_TRACE(std::string(IsaName(from)) + " to " + std::string(IsaName(to)) + ", " +
                     std::string(WeightTypeName(static_cast<WeightType>(w))));
        const InputType type = reader.input[w];
        ASSERT_EQ(SentAs(type), SentAs(sender.input[w]));
        ASSERT_EQ(kCut % GroupInputs(type), 0);
        std::vector<std::byte> expected = BytesOf(type, kInputs);
        reader.prepare[w](x.data(), kInputs, expected.data());
        std::vector<std::byte> row = BytesOf(type, kInputs);
        std::vector<std::byte> room = BytesOf(sender.input[w], kInputs);
        for (const auto& [begin, end] : {std::pair(int64_t{0}, kCut), std::pair(kCut, kInputs)}) {
          std::vector<float> sent(static_cast<size_t>(SentFloats(type, end - begin)));
          auto* const bytes = reinterpret_cast<std::byte*>(sent.data());
          RoundSent(sender, static_cast<WeightType>(w), x.data() + begin, end - begin, room.data(),
                    bytes);
          UnpackSent(type, bytes, end - begin, row.data() + InputRowBytes(type, begin));
        }
        EXPECT_EQ(row, expected);
      }
    }
  }
}

TEST(SentRows, TakeFewerBytesThanFloats) {
  EXPECT_EQ(SentFloats(InputType::kF32, 64), 64);
  EXPECT_EQ(SentFloats(InputType::kBf16, 64), 32);
  EXPECT_EQ(SentFloats(InputType::kInt8, 64), 20);
  EXPECT_EQ(SentFloats(InputType::kInt8Split, 64), 20);
}

}  // namespace
}  // namespace ng
