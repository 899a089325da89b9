// Pairs of tensors as MXFP4.
#include "core/formats/mxfp4_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace ng {
namespace {

// Tensors in memory.
class MadeSource final : public TensorSource {
 public:
  void Add(TensorInfo info, std::vector<std::byte> bytes) {
    info.n_bytes = info.n_elements = static_cast<int64_t>(bytes.size());
    tensors_.push_back(std::move(info));
    bytes_.push_back(std::move(bytes));
  }
  const std::string& path() const override { return path_; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  absl::Status ReadAt(const TensorInfo& tensor, int64_t first,
                      std::span<std::byte> out) const override {
    const auto& bytes = bytes_[static_cast<size_t>(&tensor - tensors_.data())];
    std::copy_n(bytes.begin() + first, out.size(), out.begin());
    return absl::OkStatus();
  }

 private:
  std::string path_ = "made";
  std::vector<TensorInfo> tensors_;
  std::vector<std::vector<std::byte>> bytes_;
};

// Value 2i of a row is in the lower half of byte i, value 2i + 1 in the upper one.
TEST(MergeMxfp4, GivesTheValuesInOrderFromAnyByteOn) {
  constexpr float kMagnitudes[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  constexpr size_t kGroups = 2100;  // more than are read at a time
  std::mt19937 random(3);
  std::vector<std::byte> blocks(kGroups * 16);
  std::vector<std::byte> scales(kGroups);
  for (std::byte& byte : blocks) byte = static_cast<std::byte>(random());
  for (std::byte& scale : scales) scale = static_cast<std::byte>(random() % 253);
  std::vector<float> expected;
  for (size_t i = 0; i < blocks.size() * 2; ++i) {
    const auto code = std::to_integer<size_t>(blocks[i / 2] >> (4 * (i % 2)) & std::byte{15});
    const float magnitude =
        std::ldexp(kMagnitudes[code % 8], std::to_integer<int>(scales[i / 32]) - 127);
    expected.push_back(code < 8 ? magnitude : -magnitude);
  }
  auto made = std::make_unique<MadeSource>();
  made->Add({.name = "x_blocks", .dtype = DType::kU8, .shape = {3, 700, 16}}, blocks);
  made->Add({.name = "x_scales", .dtype = DType::kU8, .shape = {3, 700}}, scales);
  const auto merged = MergeMxfp4(std::move(made));
  ASSERT_TRUE(merged.ok()) << merged.status();
  ASSERT_EQ((*merged)->tensors().size(), 1U);
  const TensorInfo& x = (*merged)->tensors()[0];
  EXPECT_EQ(x.dtype, DType::kMxfp4);
  EXPECT_EQ(x.shape, (std::vector<int64_t>{3, 700 * 32}));
  std::vector<std::byte> bytes(static_cast<size_t>(x.n_bytes));
  ASSERT_TRUE((*merged)->Read(x, bytes).ok());
  std::vector<float> values(expected.size());
  ConvertToF32(x.dtype, bytes.data(), values);
  EXPECT_EQ(values, expected);
  for (const auto& [first, n] : {std::pair(5, 3), {16, 2}, {17 * 9 + 1, 17 * 1500 + 4}}) {
    std::vector<std::byte> part(static_cast<size_t>(n));
    ASSERT_TRUE((*merged)->ReadAt(x, first, part).ok());
    EXPECT_TRUE(std::ranges::equal(
        part, std::span(bytes).subspan(static_cast<size_t>(first), part.size())));
  }
}

}  // namespace
}  // namespace ng
