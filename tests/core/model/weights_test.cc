#include "core/model/weights/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "core/machine/executor.h"
#include "core/model/load/file_types.h"
#include "core/model/load/layer_loader.h"
#include "core/model/load/load_weights.h"
#include "core/model/load/read_sizes.h"
#include "core/model/weights/weight_sizes.h"
#include "ng/half.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

class WeightsTest : public ::testing::Test {
 protected:
  absl::StatusOr<ModelWeights> Load(WeightType type) { return Load(type, dir_.path()); }
  absl::StatusOr<ModelWeights> Load(WeightType type, const std::string& path) {
    NG_ASSIGN_OR_RETURN(const LoadWeightsOptions options, Open(type, path));
    return LoadWeights(file_, options);
  }
  absl::StatusOr<LoadWeightsOptions> Open(WeightType type, const std::string& path) {
    NG_ASSIGN_OR_RETURN(file_, OpenModel(path));
    LoadWeightsOptions options;
    options.types = UniformWeightTypes(file_.spec, type);
    options.executor = executor_.get();
    options.stop = &stop_;
    options.progress = [this](int64_t done, int64_t total) {
      progress_.push_back(done);
      EXPECT_LE(done, total);
    };
    return options;
  }

  static float& First(std::vector<NamedTensor>& tensors, const std::string& name) {
    return std::find_if(tensors.begin(), tensors.end(),
                        [&](const NamedTensor& tensor) { return tensor.name == name; })
        ->data[5];
  }

  test::TinyNiels model_;
  test::TempDir dir_;
  std::unique_ptr<Executor> executor_ = MakeExecutor(2);
  std::atomic<bool> stop_ = false;
  ModelFile file_;
  std::vector<int64_t> progress_;
};

TEST_F(WeightsTest, PacksEveryRowRoundedToTheTypeThatHoldsIt) {
  model_.WriteTo(dir_.path());
  const std::vector<NamedTensor> tensors = model_.Tensors();
  for (const WeightType type : {WeightType::kF32, WeightType::kBf16, WeightType::kF16}) {
    const auto weights = Load(type);
    ASSERT_TRUE(weights.ok()) << weights.status();
    for (const NamedTensor& tensor : tensors) {
      const bool up = tensor.name == "blocks.1.mlp.fc_a.weight";
      if (!up && tensor.name != "blocks.1.mlp.fc_g.weight") continue;
      std::vector<float> row(static_cast<size_t>(model_.width));
      for (int64_t r = 0; r < model_.ffn_width; ++r) {
        // 16 rows of gate and 16 of up in turn.
        weights->layers[1][1].in.CopyRow(r / 16 * 32 + r % 16 + (up ? 16 : 0), row.data());
        for (int64_t i = 0; i < model_.width; ++i) {
          float expected = tensor.data[static_cast<size_t>(r * model_.width + i)];
          if (type == WeightType::kBf16) expected = Bf16ToF32(F32ToBf16(expected));
          if (type == WeightType::kF16) expected = F16ToF32(F32ToF16(expected));
          ASSERT_EQ(row[static_cast<size_t>(i)], expected);
        }
      }
    }
  }
}

// Of two ranges it runs the second alone.
class SecondRange : public Executor {
 public:
  int threads() const override { return 2; }
  absl::Status Run(int64_t n_items, Task task, void* context) override {
    task(context, (n_items + 1) / 2, n_items, 1);
    return absl::OkStatus();
  }
};

// The rows whose values are there.
std::vector<bool> FilledRows(const PackedMatrix& matrix) {
  std::vector<bool> filled;
  std::vector<float> row(static_cast<size_t>(matrix.k()));
  for (int64_t r = 0; r < matrix.n(); ++r) {
    matrix.CopyRow(r, row.data());
    filled.push_back(std::ranges::any_of(row, [](float x) { return x != 0.0F; }));
  }
  return filled;
}

TEST_F(WeightsTest, ARangePacksWhatTheSameRangeOfAMatmulReads) {
  model_.vocab_size = 512;
  model_.width = 128;
  model_.n_heads = 4;
  model_.WriteTo(dir_.path());
  SecondRange second;
  for (const bool own_shares : {true, false}) {
    absl::StatusOr<ModelFile> file = OpenModel(dir_.path());
    ASSERT_TRUE(file.ok()) << file.status();
    LoadWeightsOptions options;
    options.types = UniformWeightTypes(file->spec, WeightType::kF32);
    options.executor = &second;
    options.own_shares = own_shares;
    const auto weights = LoadWeights(*file, options);
    ASSERT_TRUE(weights.ok()) << weights.status();
    for (const PackedMatrix* matrix :
         {&weights->embedding, &weights->layers[1][0].in, &weights->layers[1][0].out}) {
      std::vector<bool> expected(static_cast<size_t>(matrix->n()), true);
      if (own_shares) std::fill_n(expected.begin(), expected.size() / 2, false);
      EXPECT_EQ(FilledRows(*matrix), expected);
    }
  }
}

bool IsFilled(const PackedMatrix& matrix) {
  return std::ranges::all_of(FilledRows(matrix), [](bool filled) { return filled; });
}

TEST_F(WeightsTest, ALayerLoaderReadsEachPartWhenItIsNeeded) {
  model_.WriteTo(dir_.path());
  const auto whole = Load(WeightType::kF32);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto options = Open(WeightType::kF32, dir_.path());
  ASSERT_TRUE(options.ok()) << options.status();
  LayerLoader loader(file_, *options);
  auto weights = loader.Begin();
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->final_norm.weight, whole->final_norm.weight);
  EXPECT_EQ(weights->layers[1][1].in_bias, whole->layers[1][1].in_bias);
  const std::array<const PackedMatrix*, 3> parts = {&weights->embedding, &weights->layers[0][1].out,
                                                    &weights->layers[1][1].out};
  const auto filled = [&] {
    std::vector<bool> is;
    for (const PackedMatrix* const part : parts) is.push_back(IsFilled(*part));
    return is;
  };
  EXPECT_EQ(filled(), (std::vector<bool>{false, false, false}));
  // A copy has the same memory, as the decoder's tied head.
  ModelWeights copy = *weights;
  ASSERT_TRUE(loader.NeedLayer(1, copy).ok());
  EXPECT_EQ(filled(), (std::vector<bool>{false, false, true}));
  ASSERT_TRUE(loader.NeedEmbedding(*weights).ok());
  EXPECT_EQ(filled(), (std::vector<bool>{true, false, true}));
  ASSERT_TRUE(loader.NeedLayer(0, *weights).ok());
  ASSERT_TRUE(loader.NeedHead(*weights).ok());
  EXPECT_GT(loader.seconds(), 0.0);
  EXPECT_EQ(progress_.size(), 2U * 22U);  // of both ways
  for (size_t layer = 0; layer < 2; ++layer) {
    for (size_t block = 0; block < 2; ++block) {
      const BlockWeights& found = weights->layers[layer][block];
      const BlockWeights& expected = whole->layers[layer][block];
      EXPECT_TRUE(
          std::equal(found.in.data(), found.in.data() + found.in.bytes(), expected.in.data()));
      EXPECT_TRUE(
          std::equal(found.out.data(), found.out.data() + found.out.bytes(), expected.out.data()));
    }
  }
}

TEST_F(WeightsTest, ALayerThatCannotBeReadIsAskedForAgain) {
  model_.WriteTo(dir_.path(), [&](std::vector<NamedTensor>& tensors) {
    First(tensors, "blocks.1.mlp.fc_out.weight") = NAN;
  });
  const auto options = Open(WeightType::kBf16, dir_.path());
  ASSERT_TRUE(options.ok()) << options.status();
  LayerLoader loader(file_, *options);
  auto weights = loader.Begin();
  ASSERT_TRUE(weights.ok()) << weights.status();
  stop_ = true;
  EXPECT_EQ(ExitCode(loader.NeedLayer(0, *weights)), 130);
  EXPECT_FALSE(IsFilled(weights->layers[0][1].out));
  stop_ = false;
  EXPECT_TRUE(loader.NeedLayer(0, *weights).ok());
  EXPECT_TRUE(IsFilled(weights->layers[0][1].out));
  for (int again = 0; again < 2; ++again) {
    const absl::Status damaged = loader.NeedLayer(1, *weights);
    EXPECT_EQ(ExitCode(damaged), 3);
    EXPECT_THAT(std::string(damaged.message()), HasSubstr("blocks.1.mlp.fc_out.weight"));
  }
}

TEST_F(WeightsTest, HoldsTheHeadAsInt8BesideInt4) {
  model_.WriteTo(dir_.path());
  const auto weights = Load(WeightType::kInt4);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->embedding.type(), WeightType::kInt8);
  EXPECT_EQ(weights->layers[1][0].in.type(), WeightType::kInt4);
  EXPECT_EQ(weights->layers[1][1].out.type(), WeightType::kInt4);
}

TEST_F(WeightsTest, RefusesMagnitudesThatTheTypeCannotHold) {
  struct Case {
    WeightType type;
    float fits;
    float too_large;
  };
  for (const Case& c :
       {Case{WeightType::kF16, 65504.0F, 65536.0F}, Case{WeightType::kInt8, 8e6F, 8.4e6F},
        Case{WeightType::kInt4, 5e5F, 5.3e5F}}) {
    for (const float sign : {1.0F, -1.0F}) {
      const auto load = [&](float value) {
        model_.WriteTo(dir_.path(), [&](std::vector<NamedTensor>& tensors) {
          First(tensors, "blocks.0.attn.qkv.weight") = sign * value;
        });
        return Load(c.type).status();
      };
      EXPECT_TRUE(load(c.fits).ok());
      const absl::Status refused = load(c.too_large);
      EXPECT_EQ(ExitCode(refused), 3);
      EXPECT_THAT(std::string(refused.message()), HasSubstr("blocks.0.attn.qkv.weight"));
    }
  }
}

// With one tensor for q, k and v or three, a head tied or not, biases or none, learned positions,
// norms of heads or of all of q, norms without weights or behind blocks, a bias of the head.
TEST_F(WeightsTest, SizesAreWhatIsHeld) {
  model_.WriteTo(dir_.path());
  for (const std::string& path : {dir_.path(),
                                  std::string(NG_TEST_DATA "/golden/llama/tied_gqa"),
                                  std::string(NG_TEST_DATA "/golden/llama/untied"),
                                  std::string(NG_TEST_DATA "/golden/nanogpt/bias"),
                                  std::string(NG_TEST_DATA "/golden/nanogpt/nobias"),
                                  std::string(NG_TEST_DATA "/golden/gpt2/tiny"),
                                  std::string(NG_TEST_DATA "/golden/llama/rope_linear"),
                                  std::string(NG_TEST_DATA "/golden/qwen2/tiny"),
                                  std::string(NG_TEST_DATA "/golden/qwen3/tiny"),
                                  std::string(NG_TEST_DATA "/golden/postln/basic"),
                                  std::string(NG_TEST_DATA "/golden/gemma2/tiny"),
                                  std::string(NG_TEST_DATA "/golden/olmo2/tiny"),
                                  std::string(NG_TEST_DATA "/golden/cohere/tiny"),
                                  std::string(NG_TEST_DATA "/golden/codegen/tiny"),
                                  std::string(NG_TEST_DATA "/golden/bloom/tiny"),
                                  std::string(NG_TEST_DATA "/golden/opt/tiny"),
                                  std::string(NG_TEST_DATA "/golden/xglm/tiny"),
                                  std::string(NG_TEST_DATA "/golden/apertus/tiny"),
                                  std::string(NG_TEST_DATA "/golden/bitnet/tiny"),
                                  std::string(NG_TEST_DATA "/golden/youtu/tiny"),
                                  std::string(NG_TEST_DATA "/golden/lfm2/tiny"),
                                  std::string(NG_TEST_DATA "/golden/qwen3_5/tiny"),
                                  std::string(NG_TEST_DATA "/golden/gemma4/inputs"),
                                  std::string(NG_TEST_DATA "/golden/gemma4/experts")}) {
    const auto weights = Load(WeightType::kBf16, path);
    ASSERT_TRUE(weights.ok()) << weights.status();
    int64_t layers = 0;
    int64_t vectors = 0;
    const auto add = [&](const std::vector<float>& v) {
      vectors += static_cast<int64_t>(v.size() * sizeof(float));
    };
    add(weights->positions);
    add(weights->final_norm.weight);
    add(weights->final_norm.bias);
    add(weights->embedding_norm.weight);
    add(weights->embedding_norm.bias);
    add(weights->head_bias);
    add(weights->layer_input_norm.weight);
    layers += weights->layer_projection.bytes();
    for (const std::vector<BlockWeights>& w : weights->layers) {
      for (const BlockWeights& block : w) {
        layers += block.in.bytes() + block.out.bytes() + block.q_up.bytes();
        for (const MatrixPair& head : block.heads) layers += head.in.bytes() + head.out.bytes();
        for (const MatrixPair& expert : block.experts) {
          layers += expert.in.bytes() + expert.out.bytes();
        }
        layers += block.router.bytes();
        for (const NormWeights* norm :
             {&block.before, &block.inner, &block.after, &block.stream_norm, &block.q_norm,
              &block.k_norm, &block.v_norm, &block.router_norm, &block.shared_norm,
              &block.shared_after, &block.experts_after}) {
          add(norm->weight);
          add(norm->bias);
        }
        const StateWeights& s = block.state;
        for (const auto* values :
             {&block.in_bias, &block.out_bias, &block.xielu, &s.conv, &s.conv_bias, &s.decay_log,
              &s.step_bias, &s.skip, &s.norm, &block.expert_scales, &block.stream_factor}) {
          add(*values);
        }
      }
    }
    const WeightSizes sizes =
        SizesOf(file_.spec, UniformWeightTypes(file_.spec, WeightType::kBf16));
    EXPECT_EQ(sizes.embedding_bytes, weights->embedding.bytes() + weights->layer_embedding.bytes())
        << path;
    EXPECT_EQ(sizes.head_bytes, weights->head.bytes()) << path;
    EXPECT_EQ(sizes.layer_bytes, layers) << path;
    EXPECT_EQ(sizes.vector_bytes, vectors) << path;
    EXPECT_EQ(sizes.bytes(), sizes.matrix_bytes() + vectors) << path;
  }
}

TEST_F(WeightsTest, ReportsProgressUpToTheEnd) {
  model_.WriteTo(dir_.path());
  ASSERT_TRUE(Load(WeightType::kF32).ok());
  EXPECT_TRUE(std::is_sorted(progress_.begin(), progress_.end()));
  EXPECT_EQ(progress_.size(), 22U);
}

TEST_F(WeightsTest, RefusesNanAndInfinityAndNamesTheTensor) {
  for (const char* name :
       {"tok_emb.weight", "ln_f.weight", "blocks.0.attn.qkv.weight", "blocks.1.mlp.fc_out.bias"}) {
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      model_.WriteTo(dir_.path(),
                     [&](std::vector<NamedTensor>& tensors) { First(tensors, name) = bad; });
      const auto weights = Load(WeightType::kF32);
      EXPECT_EQ(ExitCode(weights.status()), 3);
      EXPECT_THAT(std::string(weights.status().message()), HasSubstr(name));
    }
  }
}

TEST_F(WeightsTest, AHeadCopyMustBeTheEmbedding) {
  const auto copy_head = [](std::vector<NamedTensor>& tensors) {
    NamedTensor copy = tensors[0];
    copy.name = "lm_head.weight";
    tensors.push_back(std::move(copy));
  };
  model_.WriteTo(dir_.path(), copy_head);
  EXPECT_TRUE(Load(WeightType::kF32).ok());
  EXPECT_TRUE(file_.head_copy);
  model_.WriteTo(dir_.path(), [&](std::vector<NamedTensor>& tensors) {
    copy_head(tensors);
    First(tensors, "lm_head.weight") += 1.0F;
  });
  const auto weights = Load(WeightType::kF32);
  EXPECT_EQ(ExitCode(weights.status()), 3);
  EXPECT_THAT(std::string(weights.status().message()), HasSubstr("lm_head.weight"));
}

TEST_F(WeightsTest, AFileThatShrinksAfterItWasOpenedIsAnError) {
  model_.WriteTo(dir_.path());
  auto file = OpenModel(dir_.path());
  ASSERT_TRUE(file.ok());
  std::filesystem::resize_file(dir_.File("model.safetensors"), 4000);
  LoadWeightsOptions options;
  options.types = UniformWeightTypes(file->spec, WeightType::kF32);
  options.executor = executor_.get();
  const auto weights = LoadWeights(*file, options);
  EXPECT_EQ(ExitCode(weights.status()), 3);
  EXPECT_THAT(std::string(weights.status().message()), HasSubstr("model.safetensors"));
}

TEST_F(WeightsTest, StopsBetweenTensorsWhenAskedTo) {
  model_.WriteTo(dir_.path());
  stop_ = true;
  EXPECT_EQ(ExitCode(Load(WeightType::kF32).status()), 130);
}

TEST_F(WeightsTest, AutoIsTheFilesOwnTypeAndOthersAreRefusedWithWhatCanRun) {
  model_.WriteTo(dir_.path());
  const auto file = OpenModel(dir_.path());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(WeightTypesFor(*file, "auto")->layers[1][1].in[0], WeightType::kF32);
  EXPECT_EQ(WeightTypesFor(*file, "bf16")->layers[1][1].in[0], WeightType::kBf16);
  const auto refused = WeightTypesFor(*file, "int3");
  EXPECT_EQ(ExitCode(refused.status()), 4);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("auto, f32, bf16, f16, int8, int4, mxfp4"));
}

}  // namespace
}  // namespace ng
