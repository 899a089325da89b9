// What a GGUF file's keys and tensors become, and what its blocks are held as.
#include "tests/support/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/formats/derived_source.h"
#include "core/formats/safetensors.h"
#include "core/machine/executor.h"
#include "core/model/files/model_file.h"
#include "core/model/gguf/gguf_tensors.h"
#include "core/model/load/file_types.h"
#include "core/model/load/load_weights.h"
#include "core/model/load/read_sizes.h"
#include "core/model/spec/spec_text.h"
#include "core/model/weights/weight_sizes.h"
#include "core/model/weights/weights.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using test::GgufBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Shape = std::vector<int64_t>;

constexpr char kConfig[] = R"({"model_type": "llama", "vocab_size": 50, "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
  "hidden_act": "silu"})";

class GgufModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = OpenRandomModel(dir_.Write("config.json", kConfig));
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }

  absl::StatusOr<ModelFile> Open(const GgufBuilder& gguf) const {
    return OpenModel(dir_.Write("model.gguf", gguf.Bytes()));
  }
  GgufBuilder Llama() const { return test::GgufOf(model_, "llama", DType::kF32); }
  void ExpectError(const absl::Status& status, const std::string& part) const {
    EXPECT_EQ(ExitCode(status), 3);
    EXPECT_THAT(std::string(status.message()), HasSubstr("model.gguf: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }

  // The model with random blocks of the type that `type_of` names for each matrix; values_ is what
  // they stand for.
  GgufBuilder Quantised(const std::function<DType(const std::string& name)>& type_of) {
    GgufBuilder gguf = test::GgufKeys(model_.spec, "llama");
    std::mt19937 random(7);
    const auto add = [&](GgufBuilder& to, const std::string& name, const Shape& shape,
                         const std::vector<float>& values) {
      const DType dtype = type_of(name);
      if (DTypeBlock(dtype) == 1) return void(to.Tensor(name, shape, dtype, values));
      const uint32_t number = dtype == DType::kQ40     ? 2
                              : dtype == DType::kQ80   ? 8
                              : dtype == DType::kIq4Nl ? 20
                              : dtype == DType::kMxfp4 ? 39
                                                       : 6;
      std::string blocks;
      for (size_t i = 0; i < values.size(); i += 32) {
        if (dtype == DType::kMxfp4) {
          blocks.push_back(static_cast<char>(118 + random() % 4));
        } else {
          blocks.append(test::Raw(static_cast<uint16_t>(0x2000 + random() % 0x400)));  // about 0.01
        }
        while (std::ssize(blocks) % DTypeBytes(dtype) != 0) {
          blocks.push_back(static_cast<char>(random()));
        }
      }
      to.Tensor(name, shape, number, blocks);
      values_[name].resize(values.size());
      ConvertToF32(dtype, reinterpret_cast<const std::byte*>(blocks.data()), values_[name]);
    };
    test::AddTensors(model_, add, &gguf);
    return gguf;
  }

  absl::StatusOr<ModelWeights> Load(const ModelFile& file, std::string_view config_value) {
    LoadWeightsOptions options;
    NG_ASSIGN_OR_RETURN(options.types, WeightTypesFor(file, config_value));
    options.executor = executor_.get();
    return LoadWeights(file, options);
  }

  // Row `row` of the matrix must hold row `stored` of the tensor.
  void ExpectRow(const PackedMatrix& matrix, int64_t row, const std::string& name,
                 int64_t stored) const {
    std::vector<float> found(static_cast<size_t>(matrix.k()));
    matrix.CopyRow(row, found.data());
    const auto begin = values_.at(name).begin() + stored * matrix.k();
    EXPECT_EQ(found, std::vector<float>(begin, begin + matrix.k())) << name << " " << stored;
  }

  test::TempDir dir_;
  ModelFile model_;
  std::map<std::string, std::vector<float>> values_;
  std::unique_ptr<Executor> executor_ = MakeExecutor(2);
};

TEST_F(GgufModelTest, OpensALlamaWithItsTensorsBound) {
  const auto file = Open(Llama());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->spec.family, "llama");
  EXPECT_EQ(file->spec.shape.n_layers, 2);
  EXPECT_EQ(file->spec.shape.n_kv_heads, 2);
  EXPECT_EQ(file->spec.shape.max_positions, 32);
  EXPECT_EQ(file->spec.ropes[0].theta, 10000.0);
  EXPECT_FALSE(file->spec.head.tied);
  EXPECT_FALSE(file->spec.attentions[0].qkv_bias);
  EXPECT_EQ(file->bindings.size(), 3U + 2U * 9U);
  EXPECT_EQ(file->Find(TensorRole::kMlpGate, 1)->name, "blk.1.ffn_gate.weight");
}

TEST_F(GgufModelTest, TakesItsEndTokensFromTheVocabularysKeys) {
  EXPECT_TRUE(Open(Llama())->eos_ids.empty());
  const auto file =
      Open(Llama().U32("tokenizer.ggml.eos_token_id", 2).U32("tokenizer.ggml.eot_token_id", 40));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->eos_ids, ElementsAre(2, 40));
  EXPECT_THAT(file->eos_origin, HasSubstr("tokenizer.ggml.eot_token_id"));
}

TEST_F(GgufModelTest, BiasesThatItLacksAreZero) {
  const std::vector<float> ones(64, 1.0F);
  const auto file = Open(Llama()
                             .Tensor("blk.1.attn_q.bias", Shape{64}, DType::kF32, ones)
                             .Tensor("blk.1.ffn_down.bias", Shape{64}, DType::kF32, ones));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto weights = Load(*file, "auto");
  ASSERT_TRUE(weights.ok()) << weights.status();
  const std::vector<BlockWeights>& w = weights->layers[1];
  EXPECT_EQ(w[0].in_bias.at(63), 1.0F);
  EXPECT_EQ(w[0].in_bias.at(64), 0.0F);
  EXPECT_EQ(w[0].in_bias.at(127), 0.0F);
  EXPECT_EQ(w[1].out_bias, ones);
  EXPECT_TRUE(w[1].in_bias.empty());
  EXPECT_TRUE(weights->layers[0][0].in_bias.empty());
}

// Only those that are added to something: a norm needs its own.
TEST_F(GgufModelTest, LacksNoBiasOfANorm) {
  const auto config = dir_.Write("config.json", R"({"model_type": "starcoder2", "vocab_size": 50,
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 32, "use_bias": true})");
  const auto model = OpenRandomModel(config);
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string whole = test::GgufOf(*model, "starcoder2", DType::kF32).Bytes();
  const auto open_without = [&](const std::string& name) {
    const std::string other = absl::StrReplaceAll(name, {{".bias", ".none"}});
    return OpenModel(dir_.Write("model.gguf", absl::StrReplaceAll(whole, {{name, other}})))
        .status();
  };
  // The other name is what is wrong then.
  for (const char* name : {"blk.1.attn_q.bias", "blk.0.attn_output.bias", "blk.1.ffn_up.bias"}) {
    ExpectError(open_without(name), "has no place in a starcoder2 model");
  }
  for (const char* name : {"blk.1.attn_norm.bias", "blk.0.ffn_norm.bias", "output_norm.bias"}) {
    ExpectError(open_without(name), absl::StrCat("missing 1 tensor: ", name));
  }
}

TEST_F(GgufModelTest, KeysThatNobodyReadAreInDoubt) {
  std::vector<std::string> lines;
  const KeyPolicy keys(false, {}, [&](std::string_view line) { lines.emplace_back(line); });
  const auto file = Open(
      Llama().U32("llama.frobnication", 3).Text("general.name", "x").Text("tokenizer.frob", "x"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(CheckGgufKeys(*file->metadata, "llama", {}, keys).ok());
  EXPECT_TRUE(CheckGgufKeys(*file->metadata, "llama", {"tokenizer."}, keys).ok());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], HasSubstr("nobody reads these keys: llama.frobnication, tokenizer.frob"));
  EXPECT_THAT(lines[1], HasSubstr("nobody reads this key: llama.frobnication"));
  EXPECT_EQ(ExitCode(CheckGgufKeys(*file->metadata, "llama", {}, KeyPolicy(true, {}, {}))), 3);
}

TEST_F(GgufModelTest, CountsTheTokensOfItsVocabulary) {
  const auto refused = Open(Llama().Array("tokenizer.ggml.tokens", GgufType::kText, 2,
                                          test::RawText("a") + test::RawText("b")));
  ExpectError(refused.status(), "tensor \"token_embd.weight\" has shape [50, 64], must be [2, 64]");
}

TEST_F(GgufModelTest, RefusesKeysThatItCannotHonour) {
  const auto error = [&](const GgufBuilder& gguf) { return Open(gguf).status(); };
  ExpectError(error(Llama().Text("llama.rope.scaling.type", "su")),
              "\"llama.rope.scaling.type\" = \"su\", must be one of: none, linear, yarn, longrope");
  ExpectError(error(Llama().U32("llama.expert_count", 8)),
              "\"llama.expert_used_count\" is missing, must be an integer in [1, 65536]");
  ExpectError(error(Llama().U32("llama.expert_used_count", 8)), "\"llama.expert_used_count\" = 8");
  ExpectError(error(Llama().U32("llama.rope.dimension_count", 8)),
              "\"llama.rope.dimension_count\" = 8, must be an integer in [16, 16]");
  ExpectError(error(Llama().U32("llama.attention.value_length", 8)), "value_length\" = 8");
  ExpectError(
      error(GgufBuilder().Text("general.architecture", "mamba")),
      "\"general.architecture\" = \"mamba\", must be one of: llama, qwen2, qwen2moe, qwen3, ");
}

TEST_F(GgufModelTest, ReadsLinearRopeScaling) {
  const auto scaling = [&](const GgufBuilder& gguf) { return Open(gguf)->spec.ropes[0].scaling; };
  const RopeScaling half{.kind = RopeScalingKind::kLinear, .factor = 2.0};
  EXPECT_EQ(
      scaling(
          Llama().Text("llama.rope.scaling.type", "linear").F32("llama.rope.scaling.factor", 2.0F)),
      half);
  EXPECT_EQ(scaling(Llama().F32("llama.rope.scale_linear", 2.0F)), half);
  EXPECT_EQ(
      scaling(
          Llama().Text("llama.rope.scaling.type", "none").F32("llama.rope.scaling.factor", 2.0F)),
      RopeScaling());
}

TEST_F(GgufModelTest, TakesRopeFactorsAndBiasesFromTheirTensors) {
  const std::vector<float> factors = {1, 1, 1, 1, 2, 4, 8, 8};
  std::vector<float> bias(64);
  std::iota(bias.begin(), bias.end(), 0.0F);
  GgufBuilder gguf = Llama();
  gguf.Tensor("rope_freqs.weight", Shape{8}, DType::kF32, factors);
  for (int layer = 0; layer < 2; ++layer) {
    const auto add = [&](const char* name, int64_t n) {
      gguf.Tensor(absl::StrCat("blk.", layer, ".", name), Shape{n}, DType::kF32,
                  std::span(bias).first(static_cast<size_t>(n)));
    };
    add("attn_output.bias", 64);
    add("attn_q.bias", 64);
    add("attn_k.bias", 32);
    add("attn_v.bias", 32);
  }
  const auto file = Open(gguf);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->spec.attentions[0].out_bias);
  EXPECT_TRUE(file->spec.attentions[0].qkv_bias);
  EXPECT_FALSE(file->spec.feed_forwards[0].bias);
  const auto weights = Load(*file, "auto");
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->rope_factors, factors);
  EXPECT_EQ(weights->layers[1][0].out_bias, bias);
  const std::vector<float>& qkv = weights->layers[1][0].in_bias;
  for (const size_t i : {0U, 1U, 8U, 9U, 63U}) {
    const size_t paired = i / 16 * 16 + i % 8 * 2 + i % 16 / 8;
    EXPECT_EQ(qkv[i], bias[paired]);
    if (i >= 32) continue;
    EXPECT_EQ(qkv[64 + i], bias[paired]);
    EXPECT_EQ(qkv[96 + i], bias[i]);
  }

  const std::vector<float> zeros(8, 0.0F);
  const auto zero = Open(Llama().Tensor("rope_freqs.weight", Shape{8}, DType::kF32, zeros));
  ASSERT_TRUE(zero.ok()) << zero.status();
  ExpectError(Load(*zero, "auto").status(), "tensor \"rope_freqs.weight\" holds 0");
}

TEST_F(GgufModelTest, RefusesTensorsThatHaveNoPlace) {
  const std::vector<float> values(64, 1.0F);
  ExpectError(
      Open(Llama().Tensor("blk.0.attn_sub_norm.weight", Shape{64}, DType::kF32, values)).status(),
      "tensor \"blk.0.attn_sub_norm.weight\" has no place in a llama model");
}

TEST_F(GgufModelTest, HoldsBlocksOf32AsTheyAre) {
  for (const auto& [dtype, type] : {std::pair(DType::kQ80, WeightType::kInt8),
                                    {DType::kQ40, WeightType::kInt4},
                                    {DType::kIq4Nl, WeightType::kIq4Nl},
                                    {DType::kMxfp4, WeightType::kMxfp4}}) {
    const auto file = Open(Quantised([held = dtype](const std::string&) { return held; }));
    ASSERT_TRUE(file.ok()) << file.status();
    const auto weights = Load(*file, "auto");
    ASSERT_TRUE(weights.ok()) << weights.status();
    const std::vector<BlockWeights>& w = weights->layers[1];
    for (const PackedMatrix* matrix :
         {&weights->embedding, &weights->head, &w[0].in, &w[0].out, &w[1].in, &w[1].out}) {
      EXPECT_EQ(matrix->type(), type);
    }
    for (int64_t i = 0; i < 64; ++i) {
      // Of each head of 16, the file's rows 2j and 2j + 1 are rows j and j + 8.
      const int64_t paired = i / 16 * 16 + i % 8 * 2 + i % 16 / 8;
      ExpectRow(w[0].in, i, "blk.1.attn_q.weight", paired);
      if (i < 32) ExpectRow(w[0].in, 64 + i, "blk.1.attn_k.weight", paired);
      if (i < 32) ExpectRow(w[0].in, 96 + i, "blk.1.attn_v.weight", i);
      ExpectRow(w[0].out, i, "blk.1.attn_output.weight", i);
      ExpectRow(w[1].out, i, "blk.1.ffn_down.weight", i);
      if (i < 50) ExpectRow(weights->embedding, i, "token_embd.weight", i);
      if (i < 50) ExpectRow(weights->head, i, "output.weight", i);
    }
    for (int64_t i = 0; i < 96; ++i) {
      ExpectRow(w[1].in, i / 16 * 32 + i % 16, "blk.1.ffn_gate.weight", i);
      ExpectRow(w[1].in, i / 16 * 32 + i % 16 + 16, "blk.1.ffn_up.weight", i);
    }
  }
}

TEST_F(GgufModelTest, HoldsEachTensorAsItIsAlsoInASharedMatrix) {
  const auto file = Open(Quantised([](const std::string& name) {
    if (name == "output.weight") return DType::kQ80;
    if (name == "blk.0.attn_v.weight") return DType::kQ80;
    if (name == "blk.0.ffn_up.weight") return DType::kQ50;
    if (name == "blk.1.attn_v.weight") return DType::kBf16;
    if (name == "blk.1.attn_output.weight") return DType::kF16;
    return DType::kQ40;
  }));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto weights = Load(*file, "auto");
  ASSERT_TRUE(weights.ok()) << weights.status();
  const std::vector<BlockWeights>& first = weights->layers[0];
  const std::vector<BlockWeights>& second = weights->layers[1];
  EXPECT_EQ(weights->embedding.type(), WeightType::kInt4);
  EXPECT_EQ(weights->head.type(), WeightType::kInt8);
  EXPECT_EQ(first[0].in.bands().size(), 3U);
  EXPECT_EQ(first[0].in.type(), WeightType::kInt4);
  EXPECT_EQ(first[0].in.type(96), WeightType::kInt8);
  EXPECT_EQ(first[1].in.type(0), WeightType::kInt4);
  EXPECT_EQ(first[1].in.type(16), WeightType::kQ50);
  EXPECT_EQ(first[1].in.type(32), WeightType::kInt4);
  EXPECT_EQ(second[0].in.type(), WeightType::kF32);  // a grid and floats share what holds both
  EXPECT_EQ(second[0].in.bands().size(), 1U);
  EXPECT_EQ(second[0].out.type(), WeightType::kF16);
  EXPECT_EQ(second[1].in.type(), WeightType::kInt4);
  ExpectRow(first[0].in, 0, "blk.0.attn_q.weight", 0);
  ExpectRow(first[0].in, 100, "blk.0.attn_v.weight", 4);
  ExpectRow(second[0].in, 0, "blk.1.attn_q.weight", 0);
  for (int64_t i = 0; i < 96; ++i) {
    ExpectRow(first[1].in, i / 16 * 32 + i % 16, "blk.0.ffn_gate.weight", i);
    ExpectRow(first[1].in, i / 16 * 32 + i % 16 + 16, "blk.0.ffn_up.weight", i);
  }

  const WeightTypes types = *WeightTypesFor(*file, "auto");
  int64_t bytes = 0;
  for (const std::vector<BlockWeights>& w : weights->layers) {
    for (const PackedMatrix* matrix : {&w[0].in, &w[0].out, &w[1].in, &w[1].out}) {
      bytes += matrix->bytes();
    }
  }
  bytes += weights->embedding.bytes() + weights->head.bytes();
  bytes += (1 + 2 * 2) * 64 * int64_t{sizeof(float)};  // the norms
  EXPECT_EQ(SizesOf(file->spec, types).bytes(), bytes);
  EXPECT_EQ(CostOf(file->spec, types).weights, "int4");
}

TEST_F(GgufModelTest, GridsThatMeetWithinABlockOfColumnsAreHeldAsF32) {
  std::string config = kConfig;
  config.replace(config.find("\"num_attention_heads\": 4"), 24, "\"num_attention_heads\": 8");
  config.replace(config.find("\"num_key_value_heads\": 2"), 24, "\"num_key_value_heads\": 1");
  auto model = OpenRandomModel(dir_.Write("narrow.json", config));
  ASSERT_TRUE(model.ok()) << model.status();
  model_ = *std::move(model);
  const auto file = Open(Quantised([](const std::string& name) {
    return name == "blk.0.attn_v.weight" ? DType::kQ80 : DType::kQ40;
  }));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto weights = Load(*file, "auto");
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->layers[0][0].in.type(), WeightType::kF32);
  EXPECT_EQ(weights->layers[1][0].in.type(), WeightType::kInt4);
  ExpectRow(weights->layers[0][0].in, 72, "blk.0.attn_v.weight", 0);
}

TEST_F(GgufModelTest, RoundsBlocksToTheTypeThatTheConfigNames) {
  const auto file = Open(Quantised([](const std::string& name) {
    return name == "blk.1.ffn_down.weight" ? DType::kQ50 : DType::kQ80;
  }));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto weights = Load(*file, "f32");
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->layers[1][1].out.type(), WeightType::kF32);
  ExpectRow(weights->layers[1][1].out, 3, "blk.1.ffn_down.weight", 3);
  ExpectRow(weights->layers[1][0].out, 3, "blk.1.attn_output.weight", 3);
  EXPECT_EQ(Load(*file, "int8")->layers[1][1].out.type(), WeightType::kInt8);
  EXPECT_EQ(Load(*file, "int4")->layers[1][1].out.type(), WeightType::kInt4);
}

TEST_F(GgufModelTest, RefusesScalesThatAreNotFinite) {
  GgufBuilder gguf = test::GgufKeys(model_.spec, "llama");
  test::AddTensors(
      model_,
      [](GgufBuilder& to, const std::string& name, const Shape& shape,
         const std::vector<float>& values) {
        std::string blocks(values.size() / 32 * 34, '\0');
        if (name == "blk.0.ffn_up.weight") blocks.replace(34 * 5, 2, test::Raw(uint16_t{0x7C00}));
        to.Tensor(name, shape, 8, blocks);
      },
      &gguf);
  const auto file = Open(gguf);
  ASSERT_TRUE(file.ok()) << file.status();
  for (const char* weights : {"auto", "f32"}) {
    ExpectError(Load(*file, weights).status(),
                "tensor \"blk.0.ffn_up.weight\" holds NaN or infinity");
  }
}

TEST_F(GgufModelTest, ReadsQAndKAndVFromOneTensor) {
  GgufBuilder fused = test::GgufKeys(model_.spec, "llama");
  std::vector<float> rows;
  const auto add = [&](GgufBuilder& to, const std::string& name, const Shape& shape,
                       const std::vector<float>& values) {
    const bool is_v = name.ends_with("attn_v.weight");
    if (!is_v && !name.ends_with("attn_q.weight") && !name.ends_with("attn_k.weight")) {
      return void(to.Tensor(name, shape, DType::kF32, values));
    }
    rows.insert(rows.end(), values.begin(), values.end());
    if (!is_v) return;
    const Shape all = {std::ssize(rows) / shape[1], shape[1]};
    to.Tensor(absl::StrReplaceAll(name, {{"attn_v", "attn_qkv"}}), all, DType::kF32,
              std::exchange(rows, {}));
  };
  test::AddTensors(model_, add, &fused);
  const auto file = Open(fused);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto found = Load(*file, "f32");
  ASSERT_TRUE(found.ok()) << found.status();
  const auto expected = Load(*Open(Llama()), "f32");
  const PackedMatrix& in = expected->layers[1][0].in;
  std::vector<float> row(static_cast<size_t>(in.k()));
  std::vector<float> same(row.size());
  for (int64_t i = 0; i < in.n(); ++i) {
    found->layers[1][0].in.CopyRow(i, row.data());
    in.CopyRow(i, same.data());
    EXPECT_EQ(row, same) << i;
  }
}

// A file from before k's matrix of each head was stored as it is used: its blocks lie the other way
// round, so f32 holds their values; those of v stay blocks.
TEST_F(GgufModelTest, TurnsTheMatricesOfKThatCameWithThoseOfV) {
  constexpr int64_t kHeads = 4;
  constexpr int64_t kRank = 64;
  constexpr int64_t kStill = 32;
  constexpr int64_t kValues = 24;
  auto model = OpenRandomModel(dir_.Write("latents.json", R"({"model_type": "youtu",
      "vocab_size": 50, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
      "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": null,
      "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 4, "v_head_dim": 24,
      "max_position_embeddings": 32})"));
  ASSERT_TRUE(model.ok()) << model.status();
  model_ = *std::move(model);
  const std::string name = "blk.0.attn_kv_b.weight";
  std::string blocks;
  std::mt19937 random(5);
  for (int64_t i = 0; i < kHeads * (kStill + kValues) * kRank / 32; ++i) {
    blocks.append(test::Raw(static_cast<uint16_t>(0x2000 + random() % 0x400)));
    for (int n = 0; n < 32; ++n) blocks.push_back(static_cast<char>(random()));
  }
  const Shape shape = {kHeads * (kStill + kValues), kRank};
  std::vector<float>& values = values_[name];
  values.resize(static_cast<size_t>(shape[0] * kRank));
  ConvertToF32(DType::kQ80, reinterpret_cast<const std::byte*>(blocks.data()), values);

  GgufBuilder gguf = test::GgufKeys(model_.spec, "deepseek2");
  gguf.U32("deepseek2.attention.kv_lora_rank", kRank)
      .U32("deepseek2.attention.value_length", kValues)
      .U32("deepseek2.rope.dimension_count", 4);
  const auto add = [&](GgufBuilder& to, const std::string& added, const Shape& added_shape,
                       const std::vector<float>& added_values) {
    if (added == "blk.0.attn_k_b.weight") return void(to.Tensor(name, shape, 8, blocks));
    if (added == "blk.0.attn_v_b.weight") return;
    to.Tensor(added, added_shape, DType::kF32, added_values);
  };
  test::AddTensors(model_, add, &gguf);
  const auto file = Open(gguf);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto weights = Load(*file, "auto");
  ASSERT_TRUE(weights.ok()) << weights.status();
  const std::vector<MatrixPair>& heads = weights->layers[0][0].heads;
  ASSERT_EQ(std::ssize(heads), kHeads);
  for (int64_t h = 0; h < kHeads; ++h) {
    const auto& [in, in_bias, out, out_bias, xielu] = heads[static_cast<size_t>(h)];
    EXPECT_EQ(in.type(), WeightType::kF32);
    EXPECT_EQ(out.type(), WeightType::kInt8);
    const int64_t first = h * (kStill + kValues);
    std::vector<float> row(kStill);
    for (int64_t i = 0; i < kRank; ++i) {
      in.CopyRow(i, row.data());
      for (int64_t d = 0; d < kStill; ++d) {
        EXPECT_EQ(row[static_cast<size_t>(d)],
                  values[static_cast<size_t>((first + d) * kRank + i)]);
      }
    }
    for (int64_t i = 0; i < kValues; ++i) ExpectRow(out, i, name, first + kStill + i);
  }
  int64_t bytes = 0;
  for (const std::vector<BlockWeights>& w : weights->layers) {
    for (const PackedMatrix* matrix : {&w[0].in, &w[0].out, &w[1].in, &w[1].out}) {
      bytes += matrix->bytes();
    }
    for (const MatrixPair& head : w[0].heads) bytes += head.in.bytes() + head.out.bytes();
  }
  EXPECT_EQ(SizesOf(file->spec, weights->types).layer_bytes, bytes);
}

TEST_F(GgufModelTest, HoldsMxfp4AsBf16WithAllItsValuesWhereAsked) {
  const auto file = Open(Quantised([](const std::string&) { return DType::kMxfp4; }));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto weights = Load(*file, "bf16");
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->layers[1][1].out.type(), WeightType::kBf16);
  for (int64_t i = 0; i < 64; ++i) {
    ExpectRow(weights->layers[1][1].out, i, "blk.1.ffn_down.weight", i);
  }
}

// 255 is NaN; near it the values decide.
TEST_F(GgufModelTest, RefusesMxfp4ThatIsNotFinite) {
  for (const auto& [power, code, finite] : {std::tuple(252, 7, true),
                                            {253, 5, true},
                                            {253, 6, false},
                                            {254, 3, true},
                                            {254, 12, false},
                                            {255, 0, false}}) {
    std::string blocks;
    for (int64_t i = 0; i < 2 * 64 * 96 / 2 / 32; ++i) {
      blocks += std::string(1, '\x78') + std::string(16, '\x10');
    }
    blocks[17 * 7] = static_cast<char>(power);
    blocks[17 * 7 + 5] = static_cast<char>(code << 4);
    GgufBuilder gguf = test::GgufKeys(model_.spec, "llama");
    const auto add = [&](GgufBuilder& to, const std::string& name, const Shape& shape,
                         const std::vector<float>& values) {
      if (name != "blk.1.ffn_down.weight") return void(to.Tensor(name, shape, DType::kF32, values));
      to.Tensor(name, shape, 39, blocks);
    };
    test::AddTensors(model_, add, &gguf);
    const auto file = Open(gguf);
    ASSERT_TRUE(file.ok()) << file.status();
    for (const char* held : {"auto", "f32"}) {
      const absl::Status status = Load(*file, held).status();
      if (finite) {
        EXPECT_TRUE(status.ok()) << status << " " << power << " " << code;
      } else {
        ExpectError(status, "tensor \"blk.1.ffn_down.weight\" holds NaN or infinity");
      }
    }
  }
}

// A family's config.json, and the keys beside the sizes that a GGUF file of the same model has.
struct SameModel {
  const char* architecture;
  const char* config;
  void (*add_keys)(GgufBuilder& gguf);
};

constexpr char kSizes[] = R"("vocab_size": 50, "hidden_size": 32, "intermediate_size": 48,
  "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 64)";

const SameModel kSameModels[] = {
    {"gemma2",
     R"("model_type": "gemma2", "num_key_value_heads": 2, "head_dim": 12, "sliding_window": 6,
        "query_pre_attn_scalar": 12, "attn_logit_softcapping": 4.0, "final_logit_softcapping": 8.0)",
     [](GgufBuilder& gguf) {
       gguf.F32("gemma2.attn_logit_softcapping", 4.0F)
           .F32("gemma2.final_logit_softcapping", 8.0F)
           .U32("gemma2.attention.sliding_window", 6);
     }},
    {"cohere2",
     R"("model_type": "cohere2", "num_key_value_heads": 2, "sliding_window": 6, "logit_scale": 0.5,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"])",
     [](GgufBuilder& gguf) {
       gguf.F32("cohere2.logit_scale", 0.5F)
           .U32("cohere2.attention.sliding_window", 6)
           .Array("cohere2.attention.sliding_window_pattern", GgufType::kBool, 3,
                  std::string("\0\1\0", 3));
     }},
    {"phi3", R"("model_type": "phi3", "num_key_value_heads": 2, "partial_rotary_factor": 0.5)",
     [](GgufBuilder& gguf) { gguf.U32("phi3.rope.dimension_count", 4); }},
    {"granite",
     R"("model_type": "granite", "num_key_value_heads": 2, "embedding_multiplier": 4.0,
        "residual_multiplier": 0.5, "attention_multiplier": 0.25, "logits_scaling": 2.0)",
     [](GgufBuilder& gguf) {
       gguf.F32("granite.embedding_scale", 4.0F)
           .F32("granite.residual_scale", 0.5F)
           .F32("granite.attention.scale", 0.25F)
           .F32("granite.logit_scale", 2.0F);
     }},
    {"gptneox", R"("model_type": "gpt_neox", "rotary_pct": 0.5, "use_parallel_residual": true)",
     [](GgufBuilder& gguf) {
       gguf.U32("gptneox.rope.dimension_count", 4)
           .Value("gptneox.use_parallel_residual", GgufType::kBool, test::Raw(true));
     }},
    {"qwen2moe",
     R"("model_type": "qwen2_moe", "num_key_value_heads": 2, "num_experts": 5, "mlp_only_layers": [1],
        "num_experts_per_tok": 2, "moe_intermediate_size": 20,
        "shared_expert_intermediate_size": 12)",
     [](GgufBuilder& gguf) {
       gguf.U32("qwen2moe.expert_count", 5)
           .U32("qwen2moe.expert_used_count", 2)
           .U32("qwen2moe.expert_feed_forward_length", 20)
           .U32("qwen2moe.expert_shared_feed_forward_length", 12);
     }},
    {"llama4",
     R"("model_type": "llama4_text", "num_key_value_heads": 2, "head_dim": 8,
        "intermediate_size_mlp": 20, "num_local_experts": 5, "num_experts_per_tok": 2,
        "interleave_moe_layer_step": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0})",
     [](GgufBuilder& gguf) {
       gguf.U32("llama4.expert_count", 5)
           .U32("llama4.expert_used_count", 2)
           .U32("llama4.expert_feed_forward_length", 48)
           .U32("llama4.interleave_moe_layer_step", 2);
     }},
    {"bitnet",
     R"("model_type": "bitnet", "num_key_value_heads": 2, "hidden_act": "silu",
        "tie_word_embeddings": true)",
     [](GgufBuilder&) {}},
    {"deepseek2",
     R"("model_type": "deepseek_v3", "num_key_value_heads": 4, "q_lora_rank": 10, "kv_lora_rank": 12,
        "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6, "n_routed_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 10, "n_shared_experts": 2, "n_group": 2,
        "topk_group": 1, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
        "first_k_dense_replace": 1, "rope_scaling": {"type": "yarn", "factor": 4.0, "mscale": 1.0,
        "mscale_all_dim": 1.0, "original_max_position_embeddings": 16})",
     [](GgufBuilder& gguf) {
       gguf.U32("deepseek2.attention.q_lora_rank", 10)
           .U32("deepseek2.attention.kv_lora_rank", 12)
           .U32("deepseek2.attention.value_length", 6)
           .U32("deepseek2.rope.dimension_count", 4)
           .U32("deepseek2.expert_count", 4)
           .U32("deepseek2.expert_used_count", 2)
           .U32("deepseek2.expert_feed_forward_length", 10)
           .U32("deepseek2.expert_shared_count", 2)
           .U32("deepseek2.expert_group_count", 2)
           .U32("deepseek2.expert_group_used_count", 1)
           .U32("deepseek2.expert_gating_func", 2)
           .U32("deepseek2.leading_dense_block_count", 1)
           .Value("deepseek2.expert_weights_norm", GgufType::kBool, test::Raw(true))
           .F32("deepseek2.expert_weights_scale", 2.5F)
           .Text("deepseek2.rope.scaling.type", "yarn")
           .F32("deepseek2.rope.scaling.factor", 4.0F)
           .U32("deepseek2.rope.scaling.original_context_length", 16)
           .Value("deepseek2.rope.scaling.yarn_log_multiplier", GgufType::kF64, test::Raw(0.1));
     }},
};

class GgufArchitecture : public ::testing::TestWithParam<SameModel> {
 protected:
  // A model whose norms and biases differ from each other.
  absl::StatusOr<ModelFile> Model(const std::string& config) const {
    NG_ASSIGN_OR_RETURN(ModelFile model, OpenRandomModel(dir_.Write("config.json", config)));
    std::vector<DerivedTensor> vectors;
    for (const TensorInfo& tensor : model.source->tensors()) {
      if (tensor.shape.size() != 1) continue;
      const auto fill = [tensor](const TensorSource&, int64_t, int64_t, std::byte* out) {
        std::vector<float> values(static_cast<size_t>(tensor.n_elements));
        std::iota(values.begin(), values.end(), static_cast<float>(tensor.name.size() % 7));
        for (float& value : values) value = 0.5F + value / 64.0F;
        std::memcpy(out, values.data(), values.size() * sizeof(float));
        return absl::OkStatus();
      };
      vectors.push_back({tensor, tensor.n_bytes, fill, {tensor.name}});
    }
    model.source = std::make_unique<DerivedSource>(std::move(model.source), std::move(vectors));
    return model;
  }
  absl::StatusOr<ModelWeights> Load(const ModelFile& file) {
    LoadWeightsOptions options;
    NG_ASSIGN_OR_RETURN(options.types, WeightTypesFor(file, "f32"));
    options.executor = executor_.get();
    return LoadWeights(file, options);
  }
  // The file has added to its norms' weights what the decoder adds to the config's.
  static ModelSpec WithoutOffsets(ModelSpec spec) {
    spec.head.norm.offset = 0.0F;
    for (LayerSpec& blocks : spec.layers) {
      for (BlockSpec& block : blocks) block.before.offset = block.after.offset = 0.0F;
    }
    return spec;
  }
  static std::vector<float> RowsOf(const PackedMatrix& matrix) {
    std::vector<float> all;
    std::vector<float> row(static_cast<size_t>(matrix.k()));
    for (int64_t i = 0; i < matrix.n(); ++i) {
      matrix.CopyRow(i, row.data());
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }
  static void ExpectSame(const MatrixPair& w, const MatrixPair& same) {
    EXPECT_EQ(RowsOf(w.in), RowsOf(same.in));
    EXPECT_EQ(w.in_bias, same.in_bias);
    EXPECT_EQ(RowsOf(w.out), RowsOf(same.out));
    EXPECT_EQ(w.out_bias, same.out_bias);
  }

  test::TempDir dir_;
  std::unique_ptr<Executor> executor_ = MakeExecutor(2);
};

TEST_P(GgufArchitecture, IsTheModelOfTheConfig) {
  const auto& [architecture, config, add_keys] = GetParam();
  auto expected = Model(absl::StrCat("{", kSizes, ", ", config, "}"));
  ASSERT_TRUE(expected.ok()) << expected.status();
  GgufBuilder gguf = test::GgufOf(*expected, architecture, DType::kF32);
  add_keys(gguf);
  KeyPolicy strict(true, {}, {});
  const auto found = OpenModel(dir_.Write("model.gguf", gguf.Bytes()), strict);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(CheckGgufKeys(*found->metadata, architecture, {}, strict).ok());
  EXPECT_EQ(SpecLines(found->spec), SpecLines(WithoutOffsets(expected->spec)));
  const auto weights = Load(*found);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto wanted = Load(*expected);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  for (size_t layer = 0; layer < wanted->layers.size(); ++layer) {
    for (size_t b = 0; b < wanted->layers[layer].size(); ++b) {
      SCOPED_TRACE(absl::StrCat("layer ", layer, ", block ", b));
      const BlockWeights& w = weights->layers[layer][b];
      const BlockWeights& same = wanted->layers[layer][b];
      ExpectSame(w, same);
      EXPECT_EQ(RowsOf(w.q_up), RowsOf(same.q_up));
      ASSERT_EQ(w.heads.size(), same.heads.size());
      for (size_t h = 0; h < same.heads.size(); ++h) ExpectSame(w.heads[h], same.heads[h]);
      EXPECT_EQ(w.before.weight, same.before.weight);
      EXPECT_EQ(w.after.weight, same.after.weight);
      EXPECT_EQ(w.q_norm.weight, same.q_norm.weight);
      EXPECT_EQ(w.selection_bias, same.selection_bias);
      for (size_t e = 0; e < same.experts.size(); ++e) {
        ExpectSame(w.experts[e], same.experts[e]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufArchitecture, ::testing::ValuesIn(kSameModels),
                         [](const auto& info) { return std::string(info.param.architecture); });

}  // namespace
}  // namespace ng
