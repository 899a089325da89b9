// Models with a state in some layers, as GGUF files: they give the logits of the files they are
// made from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/files/model_file.h"
#include "ng/engine.h"
#include "tests/integration/engine/captured_run.h"
#include "tests/support/gguf_model.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using test::GgufBuilder;
using ::testing::HasSubstr;

struct Hybrid {
  const char* architecture;
  const char* model;  // a folder of the goldens, or what a config.json says
  void (*add_keys)(GgufBuilder& gguf);
};

void AddRopeDims(GgufBuilder& gguf, const std::string& architecture) {
  gguf.U32(architecture + ".rope.dimension_count", 4);
}
void AddExperts(GgufBuilder& gguf, const std::string& architecture, uint32_t shared_width) {
  gguf.U32(architecture + ".expert_count", 4).U32(architecture + ".expert_used_count", 2);
  if (shared_width == 0) return;
  gguf.U32(architecture + ".expert_shared_feed_forward_length", shared_width);
}
constexpr char kSizes[] = R"("vocab_size": 41, "hidden_size": 16, "num_attention_heads": 2,
  "num_key_value_heads": 1, "max_position_embeddings": 64, "num_hidden_layers": 3)";

const Hybrid kHybrids[] = {
    {"lfm2",
     R"("model_type": "lfm2", "intermediate_size": 24, "block_auto_adjust_ff_dim": false,
        "layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 3)",
     [](GgufBuilder&) {}},
    {"lfm2moe",
     R"("model_type": "lfm2_moe", "intermediate_size": 24, "moe_intermediate_size": 10,
        "layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 4,
        "num_dense_layers": 1, "num_experts": 4, "num_experts_per_tok": 2,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"})",
     [](GgufBuilder& gguf) {
       AddExperts(gguf, "lfm2moe", 0);
       gguf.U32("lfm2moe.expert_feed_forward_length", 10)
           .U32("lfm2moe.expert_gating_func", 2)
           .U32("lfm2moe.leading_dense_block_count", 1);
     }},
    {"qwen35", "qwen3_5/tiny",
     [](GgufBuilder& gguf) {
       AddRopeDims(gguf, "qwen35");
       gguf.U32("qwen35.full_attention_interval", 2);
     }},
    {"qwen35moe",
     R"("model_type": "qwen3_5_moe_text", "moe_intermediate_size": 10, "head_dim": 16,
        "layer_types": ["full_attention", "linear_attention", "linear_attention"],
        "num_experts": 4, "num_experts_per_tok": 2, "shared_expert_intermediate_size": 12,
        "linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 6,
        "linear_value_head_dim": 20)",
     [](GgufBuilder& gguf) {
       AddRopeDims(gguf, "qwen35moe");
       AddExperts(gguf, "qwen35moe", 12);
       gguf.Array("qwen35moe.attention.recurrent_layers", GgufType::kBool, 3,
                  std::string("\0\1\1", 3));
     }},
    {"qwen3next",
     R"("model_type": "qwen3_next", "moe_intermediate_size": 10, "head_dim": 16,
        "intermediate_size": 24, "full_attention_interval": 2, "num_experts": 4,
        "num_experts_per_tok": 2, "shared_expert_intermediate_size": 12, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 6, "linear_value_head_dim": 20)",
     [](GgufBuilder& gguf) {
       AddRopeDims(gguf, "qwen3next");
       AddExperts(gguf, "qwen3next", 12);
       gguf.U32("qwen3next.full_attention_interval", 2);
     }},
    {"granitehybrid",
     R"("model_type": "granitemoehybrid", "shared_intermediate_size": 24, "num_local_experts": 0,
        "layer_types": ["mamba", "attention", "mamba"], "mamba_n_heads": 4, "mamba_d_head": 8,
        "mamba_d_state": 6, "mamba_n_groups": 2, "mamba_d_conv": 3, "embedding_multiplier": 2.0,
        "attention_multiplier": 0.25, "logits_scaling": 4.0, "position_embedding_type": "rope")",
     [](GgufBuilder& gguf) {
       gguf.F32("granitehybrid.attention.scale", 0.25F)
           .F32("granitehybrid.embedding_scale", 2.0F)
           .F32("granitehybrid.logit_scale", 4.0F);
     }},
    {"nemotron_h_moe", "nemotron_h/tiny",
     [](GgufBuilder& gguf) {
       AddExperts(gguf, "nemotron_h_moe", 12);
       gguf.U32("nemotron_h_moe.expert_feed_forward_length", 10)
           .U32("nemotron_h_moe.expert_shared_count", 1)
           .F32("nemotron_h_moe.expert_weights_scale", 1.0F)
           .Value("nemotron_h_moe.expert_weights_norm", GgufType::kBool, test::Raw(true));
     }},
};

class GgufHybrid : public ::testing::TestWithParam<Hybrid> {
 protected:
  void SetUp() override {
    const std::string model = GetParam().model;
    if (model.find('"') == std::string::npos) {
      path_ = absl::StrCat(NG_TEST_DATA, "/golden/", model);
    } else {
      config_ = dir_.Write("config.json", absl::StrCat("{", kSizes, ", ", model, "}"));
    }
    auto opened = config_.empty() ? OpenModel(path_) : OpenRandomModel(config_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    model_ = *std::move(opened);
  }
  std::string Write(const GgufBuilder& gguf) const {
    return dir_.Write("model.gguf", gguf.Bytes());
  }
  GgufBuilder Made() const {
    GgufBuilder gguf = test::GgufOf(model_, GetParam().architecture, DType::kF32);
    GetParam().add_keys(gguf);
    return gguf;
  }
  static absl::StatusOr<Completion> Run(const std::string& path, const std::string& config) {
    EngineOptions options;
    options.random_weights = config;
    options.overrides = {"model.weights=f32", "sampler.chain=greedy", "run.stop_ids="};
    if (config.empty()) options.overrides.push_back("model.path=" + path);
    if (path.ends_with(".gguf")) options.overrides.emplace_back("model.strict=true");
    return test::CapturedRun(options, {5, 1, 33, 7, 20, 2, 40}, 6);
  }

  test::TempDir dir_;
  std::string path_;
  std::string config_;  // of random weights; empty: path_ has others
  ModelFile model_;
};

TEST_P(GgufHybrid, GivesTheLogitsOfItsOriginal) {
  test::ExpectSameLogits(Run(Write(Made()), ""), Run(path_, config_));
}

TEST_P(GgufHybrid, NamesTheKeyThatItLacks) {
  const std::string architecture = GetParam().architecture;
  const bool short_conv = architecture.starts_with("lfm2");
  GgufBuilder gguf;
  gguf.Text("general.architecture", architecture)
      .U32(architecture + ".vocab_size", 41)
      .U32(architecture + ".block_count", 3)
      .U32(architecture + ".attention.head_count_kv", 1)
      .U32(architecture + ".feed_forward_length", 0);
  const auto refused = OpenModel(Write(gguf));
  EXPECT_EQ(ExitCode(refused.status()), 3);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr(absl::StrCat("model.gguf: key \"", architecture,
                                     short_conv ? ".shortconv.l_cache" : ".ssm.conv_kernel",
                                     "\" is missing")));
}

INSTANTIATE_TEST_SUITE_P(All, GgufHybrid, ::testing::ValuesIn(kHybrids), [](const auto& info) {
  return absl::StrCat(info.param.architecture, "_", info.index);
});

// What the file says of layers, sizes and values, and what no model can have.
TEST(GgufHybridErrors, NameWhatWasFound) {
  const test::TempDir dir;
  const auto model = OpenModel(NG_TEST_DATA "/golden/granite_hybrid/tiny");
  ASSERT_TRUE(model.ok()) << model.status();
  const auto error = [&](const std::function<void(GgufBuilder&)>& add) {
    GgufBuilder gguf;
    gguf.Text("general.architecture", "granitehybrid")
        .U32("granitehybrid.vocab_size", 41)
        .U32("granitehybrid.block_count", 3)
        .U32("granitehybrid.embedding_length", 16)
        .U32("granitehybrid.ssm.conv_kernel", 3)
        .U32("granitehybrid.ssm.group_count", 2)
        .U32("granitehybrid.ssm.time_step_rank", 4)
        .U32("granitehybrid.ssm.state_size", 6);
    add(gguf);
    return std::string(OpenModel(dir.Write("model.gguf", gguf.Bytes())).status().message());
  };
  const auto kv = [](GgufBuilder& gguf, const std::vector<uint32_t>& heads) -> GgufBuilder& {
    std::string bytes;
    for (const uint32_t n : heads) bytes += test::Raw(n);
    return gguf.Array("granitehybrid.attention.head_count_kv", GgufType::kU32, heads.size(), bytes);
  };
  EXPECT_THAT(error([&](GgufBuilder& gguf) {
                kv(gguf, {0, 2});
              }),
              HasSubstr("head_count_kv\" lists 2 layers, granitehybrid.block_count is 3"));
  EXPECT_THAT(error([&](GgufBuilder& gguf) {
                kv(gguf, {1, 2, 0});
              }),
              HasSubstr("lists 1 and 2, can run only with one value beside 0"));
  EXPECT_THAT(
      error([&](GgufBuilder& gguf) {
        kv(gguf, {0, 1, 0}).U32("granitehybrid.ssm.inner_size", 30);
      }),
      HasSubstr("inner_size\" = 30, must be a multiple of granitehybrid.ssm.time_step_rank = 4"));
  EXPECT_THAT(
      error([&](GgufBuilder& gguf) {
        kv(gguf, {0, 1, 0}).U32("granitehybrid.ssm.inner_size", 40);
      }),
      HasSubstr("inner_size\" = 40, must be a multiple of granitehybrid.embedding_length = 16"));
}

}  // namespace
}  // namespace ng
