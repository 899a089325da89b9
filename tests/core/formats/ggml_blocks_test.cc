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
