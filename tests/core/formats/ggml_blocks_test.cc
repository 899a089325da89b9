// Random blocks of every quantised type, against the values that the format's own Python package
// computes of them (tests/data/gguf/make_blocks.py).
#include "core/formats/ggml_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/formats/safetensors.h"

namespace ng {
namespace {

// Where the first factor of a block is.
size_t FactorAt(DType dtype) {
  switch (dtype) {
    case DType::kQ2K:
      return 80;
    case DType::kQ3K:
      return 108;
    case DType::kQ6K:
      return 208;
    case DType::kIq1M:
      return 48;
    case DType::kTq1:
      return 52;
    case DType::kTq2:
      return 64;
    default:
      return 0;
  }
}

class GgmlBlocks : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    auto source = OpenSafetensors(NG_TEST_DATA "/gguf/blocks.safetensors");
    ASSERT_TRUE(source.ok()) << source.status();
    source_ = *std::move(source);
  }
  std::vector<std::byte> Raw(const std::string& part) const {
    const TensorInfo* tensor = source_->Find(std::string(DTypeName(GetParam())) + part);
    EXPECT_NE(tensor, nullptr);
    std::vector<std::byte> raw(static_cast<size_t>(tensor->n_bytes));
    EXPECT_TRUE(source_->Read(*tensor, raw).ok());
    return raw;
  }

 private:
  std::unique_ptr<TensorSource> source_;
};

TEST_P(GgmlBlocks, AreTheValuesThatTheFormatsOwnReaderComputes) {
  const std::vector<std::byte> blocks = Raw(".blocks");
  const std::vector<std::byte> raw = Raw(".values");
  std::vector<float> expected(raw.size() / sizeof(float));
  std::memcpy(expected.data(), raw.data(), raw.size());
  ASSERT_EQ(blocks.size() / static_cast<size_t>(DTypeBytes(GetParam())),
            expected.size() / static_cast<size_t>(DTypeBlock(GetParam())));
  ASSERT_GT(expected.size(), 100U);
  std::vector<float> values(expected.size());
  ConvertToF32(GetParam(), blocks.data(), values);
  EXPECT_EQ(values, expected);
}

// Infinity and NaN as the first factor of one block among others.
TEST_P(GgmlBlocks, SayWhetherTheirFactorsAreFinite) {
  const auto bytes = static_cast<size_t>(DTypeBytes(GetParam()));
  const auto is_finite = [&](uint16_t factor) {
    std::vector<std::byte> blocks = Raw(".blocks");
    std::byte* const block = blocks.data() + bytes;
    const size_t at = FactorAt(GetParam());
    if (GetParam() == DType::kMxfp4) {
      block[at] = static_cast<std::byte>(factor >> 7);  // 255 is NaN
    } else if (GetParam() == DType::kIq1M) {
      for (size_t i = 0; i < 4; ++i) {
        std::byte& upper = block[at + 2 * i + 1];
        upper = (upper & std::byte{15}) | static_cast<std::byte>((factor >> (4 * i) & 15) << 4);
      }
    } else {
      std::memcpy(block + at, &factor, sizeof(factor));
    }
    std::vector<QuantSpan> spans(blocks.size() / bytes);
    return ReadBlocks(GetParam(), blocks.data(), spans);
  };
  EXPECT_TRUE(is_finite(0x3C00));
  EXPECT_FALSE(is_finite(0x7FFF));
  if (GetParam() != DType::kMxfp4) {
    EXPECT_FALSE(is_finite(0xFC00));
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgmlBlocks,
                         ::testing::Values(DType::kQ40, DType::kQ41, DType::kQ50, DType::kQ51,
                                           DType::kQ80, DType::kQ2K, DType::kQ3K, DType::kQ4K,
                                           DType::kQ5K, DType::kQ6K, DType::kIq4Nl, DType::kIq4Xs,
                                           DType::kIq3Xxs, DType::kIq3S, DType::kIq2Xxs,
                                           DType::kIq2Xs, DType::kIq2S, DType::kIq1S, DType::kIq1M,
                                           DType::kTq1, DType::kTq2, DType::kMxfp4),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

}  // namespace
}  // namespace ng
