#include "core/model/files/random_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/model/files/model_file.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class RandomSourceTest : public ::testing::Test {
 protected:
  absl::StatusOr<ModelFile> Open(const nlohmann::json& edits) {
    nlohmann::json config =
        nlohmann::json::parse(test::Slurp(NG_TEST_DATA "/golden/llama/untied/config.json"));
    config.merge_patch(edits);
    return OpenRandomModel(dir_.Write("spec.json", config.dump()));
  }

  static std::vector<float> Values(const TensorSource& source, const TensorInfo& tensor) {
    std::vector<std::byte> raw(static_cast<size_t>(tensor.n_bytes));
    EXPECT_TRUE(source.Read(tensor, raw).ok());
    std::vector<float> values(static_cast<size_t>(tensor.n_elements));
    ConvertToF32(tensor.dtype, raw.data(), values);
    return values;
  }

  test::TempDir dir_;
};

TEST_F(RandomSourceTest, ListsWhatAFileOfTheModelHolds) {
  const auto random_weights = Open(nlohmann::json::object());
  ASSERT_TRUE(random_weights.ok()) << random_weights.status();
  const auto real = OpenModel(NG_TEST_DATA "/golden/llama/untied");
  ASSERT_TRUE(real.ok());
  ASSERT_EQ(random_weights->source->tensors().size(), real->source->tensors().size());
  for (size_t i = 0; i < real->source->tensors().size(); ++i) {
    EXPECT_EQ(random_weights->source->tensors()[i].name, real->source->tensors()[i].name);
    EXPECT_EQ(random_weights->source->tensors()[i].shape, real->source->tensors()[i].shape);
    EXPECT_EQ(random_weights->source->tensors()[i].n_bytes, real->source->tensors()[i].n_bytes);
  }
  EXPECT_TRUE(random_weights->unused.empty());
}

TEST_F(RandomSourceTest, MatricesHaveDeviation002AndNormsAreOne) {
  const auto file = Open({{"vocab_size", 4000}});
  ASSERT_TRUE(file.ok()) << file.status();
  const TensorInfo& embedding = *file->Find(TensorRole::kTokenEmbedding);
  const std::vector<float> values = Values(*file->source, embedding);
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    sum += value;
    squares += double{value} * value;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0.0, 0.02 * 4 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.02, 0.0002);
  EXPECT_NE(values, Values(*file->source, *file->Find(TensorRole::kHead)));
  EXPECT_THAT(Values(*file->source, *file->Find(TensorRole::kMlpNorm, 1)), Each(1.0F));
}

TEST_F(RandomSourceTest, NormsOfHeadsAreOneAndBiasesZero) {
  const auto qwen3 = Open({{"model_type", "qwen3"}, {"head_dim", 10}, {"attention_bias", true}});
  ASSERT_TRUE(qwen3.ok()) << qwen3.status();
  EXPECT_THAT(Values(*qwen3->source, *qwen3->Find(TensorRole::kKNorm, 0)), Each(1.0F));
  EXPECT_THAT(Values(*qwen3->source, *qwen3->Find(TensorRole::kVBias, 0)), Each(0.0F));
}

TEST_F(RandomSourceTest, APartHoldsTheValuesThatTheWholeHasThere) {
  const auto file = Open({{"torch_dtype", "bfloat16"}});
  ASSERT_TRUE(file.ok()) << file.status();
  const TensorInfo& head = *file->Find(TensorRole::kHead);
  const std::vector<float> whole = Values(*file->source, head);
  std::vector<std::byte> raw(2 * 50);
  ASSERT_TRUE(file->source->ReadAt(head, int64_t{2} * 30, raw).ok());
  std::vector<float> part(50);
  ConvertToF32(head.dtype, raw.data(), part);
  EXPECT_EQ(part, std::vector<float>(whole.begin() + 30, whole.begin() + 80));
}

TEST_F(RandomSourceTest, TypesRoundTheSameValues) {
  std::vector<float> f32;
  for (const char* dtype : {"float32", "bfloat16", "float16"}) {
    const auto file = Open({{"torch_dtype", dtype}});
    ASSERT_TRUE(file.ok()) << file.status();
    const std::vector<float> values = Values(*file->source, *file->Find(TensorRole::kHead));
    if (f32.empty()) f32 = values;
    for (size_t i = 0; i < f32.size(); ++i) ASSERT_NEAR(values[i], f32[i], 0.035 / 256);
  }
  EXPECT_EQ(Open({{"dtype", "bfloat16"}})->source->tensors()[0].dtype, DType::kBf16);
  EXPECT_EQ(Open({{"torch_dtype", nullptr}})->source->tensors()[0].dtype, DType::kF32);
  const auto refused = Open({{"torch_dtype", "int8"}});
  EXPECT_EQ(ExitCode(refused.status()), 3);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("\"torch_dtype\" = \"int8\""));
}

}  // namespace
}  // namespace ng
