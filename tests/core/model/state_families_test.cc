// Families in which some layers keep a state: which layers those are, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/core/model/family_testing.h"

namespace ng {
namespace {

using ::testing::ElementsAre;

// "SA": a state in layer 0, attention in layer 1; F and M: a feed-forward or a mixture alone.
std::string KindsOf(const ModelSpec& spec) {
  std::string kinds;
  for (const LayerSpec& blocks : spec.layers) {
    constexpr char kLetters[] = "AFMS";
    kinds += kLetters[static_cast<size_t>(blocks[0].operation)];
  }
  return kinds;
}

std::string Kinds(const std::string& type, const Json& edits) {
  const auto spec = Bare(type.c_str(), edits);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? KindsOf(*spec) : "";
}

void Refuses(const std::string& type, const Json& edits, const std::vector<std::string>& parts) {
  ExpectRefused(Edited({{"model_type", type}}, edits), parts);
}

TEST(Hybrids, HaveStatesInTheLayersThatTheirConfigSays) {
  const Json four = {{"num_hidden_layers", 4}};
  EXPECT_EQ(Kinds("lfm2", four), "AAAA");
  EXPECT_EQ(Kinds("lfm2", Edited(four, {{"full_attn_idxs", {1, 3}}})), "SASA");
  const Json types = {"conv", "conv", "full_attention", "conv"};
  EXPECT_EQ(Kinds("lfm2", Edited(four, {{"layer_types", types}})), "SSAS");
  EXPECT_EQ(Kinds("qwen3_5_text", four), "SSSA");
  EXPECT_EQ(Kinds("qwen3_next", Edited(four, {{"full_attention_interval", 2}})), "SASA");
  const Json mamba = {"mamba", "attention", "linear_attention", "full_attention"};
  EXPECT_EQ(Kinds("granitemoehybrid", Edited(four, {{"layer_types", mamba}})), "SASA");
  EXPECT_EQ(Kinds("nemotron_h", {{"hybrid_override_pattern", "M-*EM"}}), "SFAMS");
  EXPECT_EQ(Kinds("nemotron_h", {{"layers_block_type", {"mamba", "attention", "moe"}}}), "SAM");
  EXPECT_EQ(Kinds("nemotron_h", Json::object()), "SMAF");
}

TEST(Hybrids, HaveStatesOfTheSizesThatTheirConfigSays) {
  const StateSpec conv = Bare("lfm2", {{"full_attn_idxs", {0}}, {"conv_L_cache", 5}})->states[0];
  EXPECT_EQ(conv.taps, 5);
  EXPECT_EQ(conv.in_width(), 3 * 2560);
  EXPECT_EQ(conv.state_floats(), 4 * 2560);
  const StateSpec delta = Bare("qwen3_5_text")->states[0];
  EXPECT_EQ(delta.conv_width, 2 * 16 * 128 + 32 * 128);
  EXPECT_EQ(delta.in_width(), delta.conv_width + 32 * 128 + 2 * 32);
  EXPECT_EQ(delta.state_floats(), 3 * delta.conv_width + 32 * 128 * 128);
  const Json layers = {{"num_hidden_layers", 2}, {"layer_types", {"mamba", "attention"}}};
  const StateSpec mamba = Bare("granitemoehybrid", layers)->states[0];
  EXPECT_EQ(mamba.value_dim, 2 * 4096 / 128);
  EXPECT_EQ(mamba.conv_width, 2 * 4096 + 2 * 256);
  EXPECT_EQ(mamba.in_width(), mamba.conv_width + 2 * 4096 + 128);
  const StateSpec grouped = Bare("nemotron_h", {{"hybrid_override_pattern", "M*"}})->states[0];
  EXPECT_EQ(grouped.n_groups, 8);
  EXPECT_EQ(grouped.least_step, 0.001F);
}

TEST(Hybrids, RefuseWhatTheyCannotRun) {
  const Json two = {{"num_hidden_layers", 2}};
  Refuses("lfm2", Edited(two, {{"layer_types", {"conv", "mamba"}}}), {"layer_types[1]", "mamba"});
  Refuses("lfm2", Edited(two, {{"layer_types", {"conv"}}}), {"1 layers, num_hidden_layers is 2"});
  Refuses("lfm2", Edited(two, {{"layer_types", {"conv", "conv"}}}), {"no layer has attention"});
  Refuses("lfm2", {{"conv_L_cache", 17}}, {"conv_L_cache", "17"});
  Refuses("lfm2", {{"block_ffn_dim_multiplier", 1e6}}, {"block_ffn_dim_multiplier"});
  Refuses("qwen3_next", {{"full_attention_interval", 0}}, {"full_attention_interval", "0"});
  Refuses("qwen3_5_text", {{"linear_num_key_heads", 5}}, {"linear_num_value_heads\" = 32", "= 5"});
  Refuses("granitemoehybrid", two, {"no layer has attention"});
  const Json mamba = Edited(two, {{"layer_types", {"mamba", "attention"}}});
  Refuses("granitemoehybrid", Edited(mamba, {{"mamba_d_head", 65}}), {"mamba_n_heads", "65"});
  Refuses("granitemoehybrid", Edited(mamba, {{"time_step_limit", {3.0, 1.0}}}),
          {"time_step_limit"});
  Refuses("granitemoehybrid", Edited(mamba, {{"time_step_limit", {0.0, "NaN"}}}),
          {"time_step_limit"});
  Refuses("nemotron_h", {{"hybrid_override_pattern", "M*x"}}, {"letter 2 = \"x\"", "\"E\""});
  Refuses("nemotron_h", {{"hybrid_override_pattern", "M*"}, {"moe_latent_size", 8}},
          {"moe_latent_size"});
  Refuses("nemotron_h", {{"hybrid_override_pattern", "M*"}, {"n_groups", 3}}, {"= 3"});
}

TEST(Lfm2, ComputesTheWidthOfItsFeedForward) {
  const auto width = [](const Json& edits) { return Bare("lfm2", edits)->feed_forwards[0].width; };
  EXPECT_EQ(width(Json::object()), 8192);
  EXPECT_EQ(width({{"block_ff_dim", 6656}}), 4608);
  EXPECT_EQ(width({{"block_ff_dim", 6656}, {"block_auto_adjust_ff_dim", false}}), 6656);
  EXPECT_EQ(width({{"intermediate_size", 100}, {"block_multiple_of", 10}}), 70);
}

}  // namespace
}  // namespace ng
