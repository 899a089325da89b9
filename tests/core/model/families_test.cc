// How a config.json becomes a ModelSpec, and which values are refused by which words.
#include "core/model/families/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/model/files/model_file.h"
#include "core/model/ops/layer_attention.h"
#include "core/model/spec/spec_text.h"
#include "tests/core/model/family_testing.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Json kLlama = Json::parse(R"({
  "model_type": "llama", "vocab_size": 97, "hidden_size": 32, "intermediate_size": 56,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu",
  "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 500000.0})");

TEST(Llama, IsReadFromItsConfig) {
  const auto spec = ReadSpec(kLlama);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->shape.n_layers, 2);
  EXPECT_EQ(spec->shape.n_heads, 4);
  EXPECT_EQ(spec->shape.n_kv_heads, 2);
  EXPECT_EQ(spec->shape.head_dim, 8);
  EXPECT_EQ(spec->shape.vocab_size, 97);
  EXPECT_EQ(spec->shape.max_positions, 64);
  EXPECT_EQ(spec->width, 32);
  EXPECT_EQ(spec->feed_forwards[0].width, 56);
  EXPECT_EQ(spec->head.norm.eps, 1e-5F);
  EXPECT_EQ(spec->ropes[0].pairing, RopePairing::kHalfSplit);
  EXPECT_FALSE(spec->head.tied);
  EXPECT_THAT(RoleShape(TensorRole::kK, *spec, 0), ElementsAre(16, 32));
  EXPECT_THAT(RoleShape(TensorRole::kMlpGateBias, *spec, 0), ElementsAre());
}

TEST(Llama, HeadsDefaultToEqualSharesAndMustDivide) {
  const auto equal = ReadSpec(Edited(kLlama, {{"num_key_value_heads", nullptr}}));
  EXPECT_EQ(equal->shape.n_kv_heads, 4);
  const auto wide = ReadSpec(Edited(kLlama, {{"head_dim", 10}}));
  EXPECT_EQ(wide->shape.head_dim, 10);
  EXPECT_THAT(RoleShape(TensorRole::kAttnOut, *wide, 0), ElementsAre(32, 40));
  ExpectRefused(Edited(kLlama, {{"num_attention_heads", 7}}), {"hidden_size = 32", "7"});
  ExpectRefused(Edited(kLlama, {{"num_key_value_heads", 3}}), {"num_key_value_heads = 3"});
  ExpectRefused(Edited(kLlama, {{"num_attention_heads", 0}}), {"\"num_attention_heads\" = 0"});
  ExpectRefused(Edited(kLlama, {{"head_dim", 7}}), {"head_dim = 7", "even"});
}

TEST(Llama, RefusesWhatItCannotRun) {
  ExpectRefused(Edited(kLlama, {{"hidden_act", "quick_swoosh"}}), {"hidden_act", "quick_swoosh"});
  ExpectRefused(Edited(kLlama, {{"attention_bias", 1}}), {"\"attention_bias\" = 1"});
  ExpectRefused(Edited(kLlama, {{"hidden_size", "sixteen"}}), {"hidden_size", "sixteen"});
  ExpectRefused(Edited(kLlama, {{"num_hidden_layers", -1}}), {"\"num_hidden_layers\" = -1"});
  ExpectRefused(WithNull(kLlama, "num_hidden_layers"), {"num_hidden_layers"});
  ExpectRefused(
      Edited(kLlama, {{"model_type", "frobnicator"}}),
      {"model_type", "frobnicator",
       "niels-gpt, llama, mistral, ministral, qwen2, qwen3, seed_oss, internlm3, helium, "
       "ernie4_5, cwm, olmo, starcoder2, arcee, hunyuan_v1_dense, smollm3, granite, ",
       "gpt_neox, gpt_bigcode, bloom, codegen, gptj, opt, biogpt, gpt_neo, xglm, mpt, falcon, ",
       "nanochat, apertus, bitnet, ministral3, youtu, deepseek_v3, deepseek_v2, ",
       "lfm2, lfm2_moe, qwen3_5_text, qwen3_5_moe_text, qwen3_next, granitemoehybrid, nemotron_h, ",
       "openai-gpt, nanogpt, gpt2, postln"});
}

TEST(Llama, HasTheBiasesThatItsConfigSays) {
  const auto none = ReadSpec(kLlama);
  for (const TensorRole role : {TensorRole::kQBias, TensorRole::kAttnOutBias,
                                TensorRole::kMlpGateBias, TensorRole::kQNorm}) {
    EXPECT_THAT(RoleShape(role, *none, 0), ElementsAre());
  }
  const auto attention = ReadSpec(Edited(kLlama, {{"attention_bias", true}}));
  EXPECT_THAT(RoleShape(TensorRole::kQBias, *attention, 0), ElementsAre(32));
  EXPECT_THAT(RoleShape(TensorRole::kVBias, *attention, 0), ElementsAre(16));
  EXPECT_THAT(RoleShape(TensorRole::kAttnOutBias, *attention, 0), ElementsAre(32));
  EXPECT_THAT(RoleShape(TensorRole::kMlpUpBias, *attention, 0), ElementsAre());
  const auto mlp = ReadSpec(Edited(kLlama, {{"mlp_bias", true}}));
  EXPECT_THAT(RoleShape(TensorRole::kMlpGateBias, *mlp, 0), ElementsAre(56));
  EXPECT_THAT(RoleShape(TensorRole::kQBias, *mlp, 0), ElementsAre());
}

TEST(Llama, RefusesWhatAnyClassMayBeToldAndTheDecoderCannotDo) {
  ExpectRefused(Edited(kLlama, {{"quantization_config", {{"quant_method", "bitnet"}}}}),
                {"\"quantization_config\" = {\"quant_method\":\"bitnet\"}, can run only without"});
  ExpectRefused(Edited(kLlama, {{"per_layer_config", {{"0", {{"hidden_act", "relu"}}}}}}),
                {"\"per_layer_config\" = "});
  ExpectRefused(WithNull(kLlama, "is_causal"), {"\"is_causal\" = null, can run only with true"});
  for (const Json& value : {Json(false), Json(0)}) {
    ExpectRefused(Edited(kLlama, {{"is_causal", value}}),
                  {"\"is_causal\" = " + value.dump() + ", can run only with true"});
  }
  EXPECT_TRUE(ReadSpec(Edited(kLlama, {{"is_causal", true}})).ok());
  EXPECT_TRUE(ReadSpec(WithNull(kLlama, "quantization_config")).ok());
}

TEST(Llama, SwishIsSilu) { EXPECT_TRUE(ReadSpec(Edited(kLlama, {{"hidden_act", "swish"}})).ok()); }

TEST(Gpt2, TakesTheNamesOfOtherClassesForItsSizes) {
  const Json config = {{"model_type", "gpt2"}, {"n_head", 12}, {"num_attention_heads", 6}};
  const auto spec = ReadSpec(config);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->shape.n_heads, 6);
  EXPECT_EQ(spec->shape.max_positions, 1024);
  EXPECT_EQ(ReadSpec(Edited(config, {{"activation_function", "gelu_python"}}))
                ->feed_forwards[0]
                .activation,
            Activation::kGeluErf);
}

TEST(Llama, AcceptsUnknownKeysOfEveryType) {
  EXPECT_TRUE(
      ReadSpec(Edited(kLlama, {{"a", {1, 2}}, {"b", {{"c", 1}}}, {"d", true}, {"e", 1.5}})).ok());
}

TEST(Mistral, IsALlamaWithAWindow) {
  const Json mistral = Edited(kLlama, {{"model_type", "mistral"}});
  const auto spec = ReadSpec(mistral);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->window(), 4096);  // as its class has it
  EXPECT_EQ(ReadSpec(WithNull(mistral, "sliding_window"))->window(), 0);
  EXPECT_EQ(spec->ropes[0].pairing, RopePairing::kHalfSplit);
  EXPECT_EQ(ReadSpec(Edited(mistral, {{"sliding_window", 16}}))->window(), 16);
  EXPECT_EQ(ReadSpec(Edited(kLlama, {{"sliding_window", 16}}))->window(), 0);
  ExpectRefused(Edited(mistral, {{"sliding_window", 0}}), {"\"sliding_window\" = 0"});
}

TEST(Qwen2, IsALlamaWithBiasesOfQKAndV) {
  const auto spec = ReadSpec(Edited(kLlama, {{"model_type", "qwen2"}}));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(RoleShape(TensorRole::kKBias, *spec, 0), ElementsAre(16));
  EXPECT_THAT(RoleShape(TensorRole::kAttnOutBias, *spec, 0), ElementsAre());
}

TEST(Qwen2, HasAWindowWhereALayerUsesOne) {
  const Json config = Edited(kLlama, {{"model_type", "qwen2"},
                                      {"sliding_window", 16},
                                      {"use_sliding_window", true},
                                      {"max_window_layers", 1}});
  EXPECT_EQ(ReadSpec(config)->window(), 16);
  EXPECT_EQ(WindowOf(*ReadSpec(config), 0), 0);
  EXPECT_EQ(WindowOf(*ReadSpec(config), 1), 16);
  EXPECT_EQ(WindowOf(*ReadSpec(Edited(config, {{"max_window_layers", 0}})), 0), 16);
  EXPECT_EQ(ReadSpec(Edited(config, {{"max_window_layers", 2}}))->window(), 0);
  EXPECT_EQ(ReadSpec(Edited(config, {{"use_sliding_window", false}}))->window(), 0);
  EXPECT_EQ(ReadSpec(WithNull(config, "sliding_window"))->window(), 0);
}

TEST(Qwen2, RefusesLayersThatAttendOtherwise) {
  const Json config = Edited(kLlama, {{"model_type", "qwen2"}});
  const auto of = [&](const Json& types) { return Edited(config, {{"layer_types", types}}); };
  const Json full = {"full_attention", "full_attention"};
  const Json sliding = {"full_attention", "sliding_attention"};
  EXPECT_TRUE(ReadSpec(of(full)).ok());
  ExpectRefused(of(sliding), {"\"layer_types[1]\" = \"sliding_attention\"", "full_attention"});
  ExpectRefused(of({"linear_attention", "full_attention"}),
                {"\"layer_types[0]\" = \"linear_attention\""});
  ExpectRefused(of({"full_attention"}), {"lists 1 layers, num_hidden_layers is 2"});
  ExpectRefused(of({"full_attention", 1}), {"\"layer_types[1]\" = 1"});
  ExpectRefused(of("full_attention"), {"\"layer_types\" = \"full_attention\""});
  // Where the layers are listed, max_window_layers says nothing.
  const Json window = {
      {"use_sliding_window", true}, {"max_window_layers", 2}, {"sliding_window", 16}};
  EXPECT_EQ(ReadSpec(Edited(of(sliding), window))->window(), 16);
  EXPECT_EQ(WindowOf(*ReadSpec(Edited(of(sliding), window)), 0), 0);
  EXPECT_EQ(WindowOf(*ReadSpec(Edited(of(sliding), window)), 1), 16);
  EXPECT_EQ(ReadSpec(Edited(of(full), window))->window(), 0);
}

TEST(Qwen3, IsALlamaWithHeadNormsAndAHeadDimOfItsOwn) {
  const Json qwen3 = Edited(kLlama, {{"model_type", "qwen3"}, {"head_dim", 10}});
  const auto spec = ReadSpec(qwen3);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(RoleShape(TensorRole::kQNorm, *spec, 0), ElementsAre(10));
  EXPECT_THAT(RoleShape(TensorRole::kKNorm, *spec, 0), ElementsAre(10));
  EXPECT_THAT(RoleShape(TensorRole::kQ, *spec, 0), ElementsAre(40, 32));
  EXPECT_THAT(RoleShape(TensorRole::kQBias, *spec, 0), ElementsAre());
  EXPECT_EQ(ReadSpec(Edited(qwen3, {{"head_dim", nullptr}}))->shape.head_dim, 128);
  ExpectRefused(WithNull(qwen3, "head_dim"), {"\"head_dim\" is missing"});
}

TEST(PostLn, HasNormsWithoutWeightsAndOneTensorForAllLayers) {
  const auto file = OpenModel(NG_TEST_DATA "/golden/postln/basic");
  ASSERT_TRUE(file.ok()) << file.status();
  const ModelSpec& spec = file->spec;
  EXPECT_TRUE(spec.layers[0][0].stream_norm.is_there());
  EXPECT_FALSE(spec.layers[0][0].before.is_there());
  EXPECT_THAT(RoleShape(TensorRole::kAttnNorm, spec, 0), ElementsAre());
  EXPECT_THAT(RoleShape(TensorRole::kFinalNorm, spec, 0), ElementsAre());
  const Json config = {{"model_type", "postln"}, {"num_heads", 4}, {"eps", 1e-5}};
  const JsonFields fields = *JsonFields::Of(config, "config.json");
  const Family& family = **FindFamily(fields, "config.json");
  int n_slots = 0;
  const auto visit = [&](const RoleName& entry, const TensorSite& at, const std::string& name) {
    if (at.layer < 0) return;
    EXPECT_EQ(name, "blocks_weights");
    EXPECT_THAT(StoredShape(entry, spec, at.layer), ElementsAre(2, 6, 24, 24));
    ++n_slots;
  };
  ForEachTensor(family, spec, family.experts, visit);
  EXPECT_EQ(n_slots, 2 * 6);
  ExpectRefused(Edited(config, {{"num_heads", 0}}), {"\"num_heads\" = 0"});
  ExpectRefused(Edited(config, {{"eps", nullptr}}), {"\"eps\" is missing"});
}

const Json kNanoGpt = Json::parse(R"({
  "model_type": "nanogpt", "block_size": 40, "vocab_size": 83, "n_layer": 2, "n_head": 4,
  "n_embd": 32, "bias": true, "dropout": 0.0})");

TEST(NanoGpt, IsReadFromItsConfig) {
  const auto spec = ReadSpec(kNanoGpt);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->head.norm.kind, NormKind::kLayerNorm);
  EXPECT_TRUE(spec->embedding.positions);
  EXPECT_EQ(spec->feed_forwards[0].activation, Activation::kGeluErf);
  EXPECT_TRUE(spec->head.tied);
  EXPECT_EQ(spec->shape.max_positions, 40);
  EXPECT_EQ(spec->shape.n_kv_heads, 4);
  EXPECT_EQ(spec->feed_forwards[0].width, 128);
  EXPECT_THAT(RoleShape(TensorRole::kPositions, *spec, 0), ElementsAre(40, 32));
  EXPECT_THAT(RoleShape(TensorRole::kQkvBias, *spec, 0), ElementsAre(96));
  EXPECT_THAT(RoleShape(TensorRole::kMlpGate, *spec, 0), ElementsAre());
}

TEST(NanoGpt, WithoutBiasAsksForNone) {
  const auto spec = ReadSpec(Edited(kNanoGpt, {{"bias", false}}));
  ASSERT_TRUE(spec.ok()) << spec.status();
  for (const TensorRole role :
       {TensorRole::kQkvBias, TensorRole::kAttnOutBias, TensorRole::kAttnNormBias,
        TensorRole::kMlpNormBias, TensorRole::kFinalNormBias, TensorRole::kMlpUpBias,
        TensorRole::kMlpDownBias}) {
    EXPECT_THAT(RoleShape(role, *spec, 0), ElementsAre());
  }
}

TEST(NanoGpt, RefusesValuesThatCannotBe) {
  ExpectRefused(Edited(kNanoGpt, {{"bias", nullptr}}), {"\"bias\""});
  ExpectRefused(Edited(kNanoGpt, {{"n_head", 5}}), {"n_embd = 32", "n_head = 5"});
  ExpectRefused(Edited(kNanoGpt, {{"block_size", 0}}), {"\"block_size\" = 0"});
}

const Json kGpt2 = Json::parse(R"({
  "model_type": "gpt2", "n_positions": 48, "vocab_size": 89, "n_layer": 2, "n_head": 4,
  "n_embd": 32, "n_inner": null, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5})");

TEST(Gpt2, IsReadFromItsConfig) {
  const auto spec = ReadSpec(kGpt2);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->feed_forwards[0].activation, Activation::kGeluTanh);
  EXPECT_EQ(spec->feed_forwards[0].width, 128);
  EXPECT_TRUE(spec->head.tied);
  EXPECT_TRUE(spec->head.norm.bias && spec->attentions[0].qkv_bias);
  EXPECT_TRUE(spec->attentions[0].out_bias && spec->feed_forwards[0].bias);
  const auto other = ReadSpec(Edited(
      kGpt2, {{"n_inner", 50}, {"activation_function", "gelu"}, {"tie_word_embeddings", false}}));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->feed_forwards[0].width, 50);
  EXPECT_EQ(other->feed_forwards[0].activation, Activation::kGeluErf);
  EXPECT_FALSE(other->head.tied);
}

TEST(LlamaRows, HaveTheValuesOfTheirClassesInTransformers) {
  const ModelSpec seed_oss = *Bare("seed_oss");
  EXPECT_EQ(seed_oss.shape.n_layers, 64);
  EXPECT_EQ(seed_oss.shape.n_heads, 80);
  EXPECT_EQ(seed_oss.shape.n_kv_heads, 8);
  EXPECT_EQ(seed_oss.attentions[0].q_width(), 80 * 128);
  EXPECT_TRUE(seed_oss.attentions[0].qkv_bias);
  EXPECT_FALSE(seed_oss.attentions[0].out_bias);

  const ModelSpec helium = *Bare("helium");
  EXPECT_EQ(helium.ropes[0].pairing, RopePairing::kInterleaved);
  EXPECT_EQ(helium.ropes[0].theta, 100000.0);
  EXPECT_EQ(helium.head.norm.eps, 1e-8F);

  const ModelSpec ernie = *Bare("ernie4_5");
  EXPECT_EQ(ernie.ropes[0].pairing, RopePairing::kInterleaved);
  EXPECT_EQ(ernie.ropes[0].theta, 500000.0);
  EXPECT_TRUE(ernie.head.tied);
  EXPECT_EQ(Bare("ernie4_5", {{"head_dim", nullptr}})->shape.head_dim, 128);  // absent
  EXPECT_EQ(ReadSpec(WithNull({{"model_type", "ernie4_5"}}, "head_dim"))->shape.head_dim, 64);

  const ModelSpec olmo = *Bare("olmo");
  EXPECT_EQ(olmo.head.norm.kind, NormKind::kLayerNorm);
  EXPECT_FALSE(olmo.head.norm.weight);
  EXPECT_EQ(olmo.head.norm.eps, 1e-5F);

  const ModelSpec starcoder2 = *Bare("starcoder2");
  EXPECT_EQ(starcoder2.feed_forwards[0].activation, Activation::kGeluTanh);
  EXPECT_TRUE(starcoder2.head.norm.bias && starcoder2.attentions[0].qkv_bias &&
              starcoder2.feed_forwards[0].bias);
  EXPECT_EQ(starcoder2.window(), 0);
  EXPECT_EQ(Bare("starcoder2", {{"sliding_window", 9}})->window(), 9);
}

TEST(LlamaRows, ReadTheirOwnNamesOfBiases) {
  EXPECT_TRUE(Bare("seed_oss", {{"attention_out_bias", true}})->attentions[0].out_bias);
  EXPECT_TRUE(Bare("internlm3", {{"qkv_bias", true}, {"bias", true}})->attentions[0].out_bias);
  EXPECT_TRUE(Bare("ernie4_5", {{"use_bias", true}})->feed_forwards[0].bias);
  const ModelSpec helium = *Bare("helium", {{"attention_bias", true}});
  EXPECT_TRUE(helium.attentions[0].qkv_bias);
  EXPECT_FALSE(helium.attentions[0].out_bias);
}

TEST(LlamaRows, SeeAWindowInTheLayersThatTheConfigLists) {
  const Json rope = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  const ModelSpec cwm = *Bare("cwm", {{"rope_parameters", rope}, {"num_hidden_layers", 6}});
  EXPECT_EQ(cwm.window(), 8192);
  EXPECT_EQ(WindowOf(cwm, 4), 0);
  EXPECT_EQ(WindowOf(cwm, 5), 8192);
  const ModelSpec ministral = *Bare(
      "ministral", {{"num_hidden_layers", 2}, {"layer_types", {"sliding_attention", "attention"}}});
  EXPECT_EQ(WindowOf(ministral, 0), 4096);
  EXPECT_EQ(WindowOf(ministral, 1), 0);
  EXPECT_EQ(ministral.window(), 4096);
  EXPECT_EQ(ReadSpec(WithNull({{"model_type", "ministral"}}, "sliding_window"))->window(), 0);
}

TEST(LlamaRows, RefuseWhatTheyCannotRun) {
  ExpectRefused({{"model_type", "cwm"}}, {"\"rope_parameters\" is missing"});
  ExpectRefused({{"model_type", "olmo"}, {"clip_qkv", "much"}}, {"\"clip_qkv\" = \"much\""});
  ExpectRefused({{"model_type", "internlm3"}, {"qkv_bias", true}}, {"\"mlp_bias\" differ"});
  ExpectRefused({{"model_type", "starcoder2"}, {"hidden_act", "relu"}}, {"relu", "gelu"});
  ExpectRefused(WithNull({{"model_type", "ministral"},
                          {"num_hidden_layers", 1},
                          {"layer_types", {"sliding_attention"}}},
                         "sliding_window"),
                {"\"layer_types[0]\"", "sliding_window is not set"});
}

TEST(LlamaRows, PutTheirNormsWhereTheFamilyHasThem) {
  const auto norms = [](const ModelSpec& spec) {
    const BlockSpec& block = spec.layers[0][1];
    return std::vector<bool>{block.before.is_there(), block.after.is_there(),
                             block.stream_norm.is_there(),
                             block.input == BlockInput::kOfBlockBefore};
  };
  EXPECT_THAT(norms(*Bare("granite")), ElementsAre(true, false, false, false));
  EXPECT_THAT(norms(*Bare("olmo2")), ElementsAre(false, true, false, false));
  EXPECT_THAT(norms(*Bare("gemma2")), ElementsAre(true, true, false, false));
  EXPECT_THAT(norms(*Bare("cohere")), ElementsAre(true, false, false, true));
  EXPECT_THAT(norms(*Bare("openai-gpt")), ElementsAre(false, false, true, false));
  EXPECT_THAT(norms(*Bare("gpt_neox", {{"use_parallel_residual", false}})),
              ElementsAre(true, false, false, false));
  EXPECT_THAT(norms(*Bare("hyperclovax", {{"use_post_norm", false}})),
              ElementsAre(true, false, false, false));
}

TEST(LlamaRows, ReadTheirFactors) {
  const ModelSpec granite = *Bare("granite", {{"embedding_multiplier", 3.0},
                                              {"residual_multiplier", 0.5},
                                              {"attention_multiplier", 0.25},
                                              {"logits_scaling", 4.0}});
  EXPECT_EQ(granite.embedding.scale, 3.0F);
  EXPECT_EQ(granite.layers[0][0].scale, 0.5F);
  EXPECT_EQ(granite.attentions[0].scale, 0.25);
  EXPECT_EQ(granite.head.scale, 0.25F);
  const ModelSpec gemma2 = *Bare("gemma2");
  EXPECT_EQ(gemma2.embedding.scale, 48.0F);
  EXPECT_EQ(gemma2.attentions[0].soft_cap, 50.0);
  EXPECT_EQ(gemma2.attentions[0].scale, 1.0 / 16.0);
  EXPECT_EQ(gemma2.head.soft_cap, 30.0F);
  EXPECT_EQ(
      ReadSpec(WithNull({{"model_type", "gemma2"}}, "final_logit_softcapping"))->head.soft_cap,
      0.0F);
  EXPECT_EQ(Bare("cohere")->head.scale, 0.0625F);
  EXPECT_EQ(Bare("olmo", {{"clip_qkv", 8.0}})->attentions[0].clip, 8.0);
  ExpectRefused({{"model_type", "granite"}, {"logits_scaling", 0.0}}, {"\"logits_scaling\" = 0"});
}

TEST(LlamaRows, RotateThePartsAndTheLayersThatTheFamilyRotates) {
  const auto rope = [](const ModelSpec& spec, size_t layer) {
    return spec.AttentionOf(spec.layers[layer][0]).rope;
  };
  EXPECT_EQ(Bare("glm")->ropes[0].n_dims, 64);
  EXPECT_EQ(Bare("stablelm", {{"partial_rotary_factor", 0.5}})->ropes[0].n_dims, 40);
  EXPECT_EQ(Bare("gpt_neox", {{"rotary_pct", 1.0}, {"rotary_emb_base", 500}})->ropes[0].theta, 500);
  EXPECT_EQ(Bare("gptj", {{"rotary_dim", 32}})->ropes[0].n_dims, 32);
  ExpectRefused({{"model_type", "gptj"}, {"rotary_dim", 33}}, {"\"rotary_dim\" = 33", "even"});
  ExpectRefused({{"model_type", "phi"}, {"partial_rotary_factor", 0.01}}, {"0 of 64 dimensions"});
  ExpectRefused({{"model_type", "gpt_neox"}, {"head_dim", 3}}, {"\"head_dim\" = 3"});
  const ModelSpec smollm3 = *Bare("smollm3");
  EXPECT_EQ(rope(smollm3, 2), 0);
  EXPECT_EQ(rope(smollm3, 3), -1);
  ExpectRefused({{"model_type", "smollm3"}, {"no_rope_layers", {1, 0}}}, {"lists 2 layers"});
  const ModelSpec cohere2 = *Bare("cohere2");
  EXPECT_EQ(rope(cohere2, 0), 0);
  EXPECT_EQ(rope(cohere2, 3), -1);
  EXPECT_EQ(WindowOf(cohere2, 3), 0);
  const ModelSpec gemma3 = *Bare("gemma3_text");
  EXPECT_EQ(gemma3.ropes[static_cast<size_t>(rope(gemma3, 0))].theta, 10000.0);
  EXPECT_EQ(gemma3.ropes[static_cast<size_t>(rope(gemma3, 5))].theta, 1000000.0);
  ExpectRefused({{"model_type", "gemma3_text"}, {"rope_parameters", {{"rope_theta", 500.0}}}},
                {"\"rope_parameters\" must have full_attention and sliding_attention"});
}

TEST(LlamaRows, AlibiSlopesOfOtherHeadsLieBetweenThoseOfAPowerOfTwo) {
  const ModelSpec bloom = *Bare("bloom", {{"n_head", 4}});
  EXPECT_THAT(bloom.attentions[0].alibi_slopes, ElementsAre(0.25F, 0.0625F, 0x1p-6F, 0x1p-8F));
  EXPECT_EQ(bloom.attentions[0].rope, -1);
  EXPECT_EQ(bloom.shape.max_positions, 0);
  const ModelSpec three = *Bare("bloom", {{"hidden_size", 6}, {"n_head", 3}});
  EXPECT_THAT(three.attentions[0].alibi_slopes, ElementsAre(0.0625F, 0x1p-8F, 0.25F));
}

TEST(Gemma4, HasLayersOfTwoKindsWithHeadsOfTheirOwn) {
  const auto attention = [](const ModelSpec& spec, size_t layer) {
    return spec.AttentionOf(spec.layers[layer].front());
  };
  const ModelSpec spec = *Bare("gemma4_text", {{"num_kv_shared_layers", 12}});
  const SelfAttentionSpec sliding = attention(spec, 0);
  const SelfAttentionSpec full = attention(spec, 5);
  EXPECT_EQ(sliding.head_dim, 256);
  EXPECT_EQ(sliding.window, 512);
  EXPECT_EQ(spec.ropes[static_cast<size_t>(sliding.rope)].theta, 1e4);
  EXPECT_EQ(full.head_dim, 512);
  EXPECT_EQ(full.window, 0);
  EXPECT_EQ(full.n_kv_heads, 4);
  EXPECT_EQ(spec.ropes[static_cast<size_t>(full.rope)].n_turning, 64);
  EXPECT_FALSE(full.v_is_k);
  EXPECT_TRUE(full.v_norm.is_there());
  EXPECT_EQ(attention(spec, 17).keys_of, -1);
  EXPECT_EQ(attention(spec, 18).keys_of, 16);
  EXPECT_EQ(attention(spec, 29).keys_of, 17);
  EXPECT_EQ(spec.CacheLayers().back(), 17);
  EXPECT_EQ(spec.layer_input.width, 256);
  EXPECT_EQ(spec.layers[0].size(), 3U);
  EXPECT_TRUE(spec.layers[0].back().stream_factor);

  const Json dense = {{"hidden_size_per_layer_input", 0},
                      {"attention_k_eq_v", true},
                      {"num_global_key_value_heads", 2},
                      {"global_head_dim", 128}};
  const ModelSpec large = *Bare("gemma4_text", dense);
  EXPECT_EQ(attention(large, 5).n_kv_heads, 2);
  EXPECT_EQ(attention(large, 5).head_dim, 128);
  EXPECT_TRUE(attention(large, 5).v_is_k);
  EXPECT_FALSE(attention(large, 0).v_is_k);
  EXPECT_EQ(large.layers[0].size(), 2U);
  // The last layer sees all keys, whatever it is called.
  const Json types = Json::array({"full_attention", "sliding_attention", "sliding_attention"});
  const Json three = {{"num_hidden_layers", 3}, {"layer_types", types}};
  EXPECT_EQ(WindowOf(*Bare("gemma4_text", three), 1), 512);
  EXPECT_EQ(WindowOf(*Bare("gemma4_text", three), 2), 0);
  // By layer, the two keys for heads say nothing.
  const Json own = {{"per_layer_config", {{"0", {{"head_dim", 64}}}}}};
  EXPECT_EQ(attention(*Bare("gemma4_text", own), 0).head_dim, 64);
  EXPECT_EQ(attention(*Bare("gemma4_text", own), 5).head_dim, 256);
}

TEST(Gemma4, RefusesWhatItCannotRun) {
  const auto refused = [](const Json& keys, const std::vector<std::string>& words) {
    ExpectRefused(Edited(Json{{"model_type", "gemma4_text"}}, keys), words);
  };
  refused({{"num_kv_shared_layers", 30}}, {"\"num_kv_shared_layers\" = 30"});
  // No layer that sees all keys is left to read from.
  refused({{"num_kv_shared_layers", 27}}, {"\"num_kv_shared_layers\" = 27", "layer 5"});
  refused({{"vocab_size_per_layer_input", 7}}, {"\"vocab_size_per_layer_input\" = 7", "262144"});
  refused({{"use_bidirectional_attention", "all"}}, {"\"use_bidirectional_attention\" = \"all\""});
  refused({{"global_head_dim", 33}}, {"layer 5", "heads of 33"});
  const Json three = {{"attention_k_eq_v", true}, {"num_global_key_value_heads", 3}};
  refused(three, {"layer 5 has 3 heads"});
  refused({{"enable_moe_block", true},
           {"num_experts", 4},
           {"top_k_experts", 2},
           {"use_double_wide_mlp", true}},
          {"\"use_double_wide_mlp\" = true"});
  const Json part = {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.001}};
  refused({{"rope_parameters", {{"full_attention", part}, {"sliding_attention", Json::object()}}}},
          {"full_attention.partial_rotary_factor\": 0 pairs of 256"});
  EXPECT_TRUE(Bare("gemma4_text", {{"use_bidirectional_attention", "vision"}}).ok());
}

TEST(GptNeo, HasWindowsInTheLayersThatAreLocal) {
  const Json types = {{{"global", "local"}, 1}, {{"local"}, 2}};
  const Json four = {{"num_layers", 4}, {"window_size", 7}};
  const ModelSpec spec = *Bare("gpt_neo", Edited(four, {{"attention_types", types}}));
  EXPECT_EQ(WindowOf(spec, 0), 0);
  for (const size_t layer : {1, 2, 3}) EXPECT_EQ(WindowOf(spec, layer), 7);
  EXPECT_EQ(spec.attentions[0].scale, 1.0);
  const Json layers = {"local", "global", "local", "global"};
  const Json both = {{"attention_types", types}, {"attention_layers", layers}};
  EXPECT_EQ(WindowOf(*Bare("gpt_neo", Edited(four, both)), 3), 0);
  const auto refused = [&](const Json& edits, const std::vector<std::string>& parts) {
    ExpectRefused(Edited(Edited({{"model_type", "gpt_neo"}}, four), edits), parts);
  };
  refused({{"attention_types", {{{"global"}, 3}}}}, {"3 layers, num_layers is 4"});
  refused({{"attention_types", {{{"global"}, "4"}}}},
          {"\"attention_types\"", "must be a list like"});
  refused({{"attention_layers", {"local", "far", "local", "local"}}}, {"layers[1]", "\"far\""});
}

TEST(Falcon, IsOfOneOfFourForms) {
  const auto names = [](const Json& edits) {
    const Json config = Edited({{"model_type", "falcon"}}, edits);
    const JsonFields fields = *JsonFields::Of(config, "config.json");
    const Family& family = **FindFamily(fields, "config.json");
    const ModelSpec spec = *family.read_spec(fields, "config.json");
    std::vector<std::string> found;
    ForEachTensor(family, spec, family.experts,
                  [&](const RoleName& entry, const TensorSite& at, const std::string& name) {
                    const bool norm =
                        entry.role == TensorRole::kAttnNorm || entry.role == TensorRole::kMlpNorm;
                    if (at.layer == 0 && norm) found.push_back(name.substr(16));
                  });
    found.push_back(spec.layers[0][1].input == BlockInput::kStream ? "in turn" : "in parallel");
    found.push_back(std::to_string(spec.shape.n_kv_heads));
    return found;
  };
  EXPECT_THAT(names(Json::object()),
              ElementsAre("input_layernorm.weight", "input_layernorm.weight", "in parallel", "1"));
  EXPECT_THAT(
      names({{"parallel_attn", false}, {"multi_query", false}}),
      ElementsAre("input_layernorm.weight", "post_attention_layernorm.weight", "in turn", "71"));
  const Json grouped = {{"new_decoder_architecture", true},
                        {"hidden_size", 4096},
                        {"num_attention_heads", 64},
                        {"num_kv_heads", 8}};
  EXPECT_THAT(names(grouped), ElementsAre("ln_attn.weight", "ln_mlp.weight", "in parallel", "8"));
  EXPECT_THAT(names(Edited(grouped, {{"num_ln_in_parallel_attn", 1}})),
              ElementsAre("input_layernorm.weight", "input_layernorm.weight", "in parallel", "8"));
  ExpectRefused({{"model_type", "falcon"}, {"alibi", true}}, {"\"alibi\" = true"});
}

TEST(Xglm, HasARowOfSinesForEveryPosition) {
  EXPECT_TRUE(Bare("xglm")->embedding.sinusoids);
  EXPECT_EQ(Bare("xglm")->embedding.scale, 32.0F);
  ExpectRefused({{"model_type", "xglm"}, {"pad_token_id", 2}}, {"\"pad_token_id\" = 2"});
}

TEST(Mpt, ReadsWhatItsAttentionIsTold) {
  const Json told = {{"attn_config", {{"clip_qkv", 6}, {"softmax_scale", 0.5}}}};
  const ModelSpec spec = *Bare("mpt", told);
  EXPECT_EQ(spec.attentions[0].clip, 6.0);
  EXPECT_EQ(spec.attentions[0].scale, 0.5);
  EXPECT_EQ(spec.attentions[0].alibi_slopes.size(), 16U);
  for (const Json& other : {Json{{"alibi", false}}, Json{{"alibi_bias_max", 16}},
                            Json{{"prefix_lm", true}}, Json{{"qk_ln", true}}}) {
    ExpectRefused({{"model_type", "mpt"}, {"attn_config", other}}, {other.begin().key()});
  }
}

TEST(Ministral3, WarmsItsQueriesByThePosition) {
  const Json rope = {{"rope_type", "yarn"},
                     {"factor", 16.0},
                     {"original_max_position_embeddings", 100},
                     {"llama_4_scaling_beta", 0.5}};
  const ModelSpec spec = *Bare("ministral3", {{"rope_parameters", rope}});
  const QueryTemperature& temperature = spec.attentions[0].temperature;
  EXPECT_EQ(temperature.At(99), 1.0);
  EXPECT_NEAR(temperature.At(100), 1.0 + 0.5 * std::log(2.0), 1e-9);
  ExpectRefused({{"model_type", "ministral3"},
                 {"rope_parameters", Edited(rope, {{"llama_4_scaling_beta", nullptr}})}},
                {"llama_4_scaling_beta"});
}

TEST(Llama4, HasChunksWhereItRotatesAndTemperatureWhereNot) {
  const ModelSpec spec = *Bare("llama4_text", {{"num_hidden_layers", 4}});
  const SelfAttentionSpec& turns = spec.AttentionOf(spec.layers[0][0]);
  const SelfAttentionSpec& still = spec.AttentionOf(spec.layers[3][0]);
  EXPECT_TRUE(turns.chunks);
  EXPECT_EQ(turns.window, 8192);
  EXPECT_FALSE(turns.qk_norm.weight);
  EXPECT_EQ(turns.temperature.coefficient, 0.0);
  EXPECT_FALSE(still.chunks || still.qk_norm.is_there());
  EXPECT_EQ(still.temperature.coefficient, 0.1);
  EXPECT_EQ(still.temperature.offset, 1);
  EXPECT_TRUE(spec.mixtures[0].router.weighs_input);
  const Json some = {{"num_hidden_layers", 4}, {"moe_layers", {1, 3}}};
  EXPECT_EQ(Bare("llama4_text", some)->layers[0][1].operation, Operation::kFeedForward);
  EXPECT_EQ(Bare("llama4_text", some)->feed_forwards[0].width, 16384);
  ExpectRefused({{"model_type", "llama4_text"}, {"layer_types", {"sliding_attention"}}},
                {"layer_types[0]", "chunked_attention"});
}

TEST(Latents, AreReadFromTheirSizes) {
  const ModelSpec v3 = *Bare("deepseek_v3");
  const SelfAttentionSpec& attention = v3.attentions[0];
  EXPECT_EQ(attention.head_dim, 192);
  EXPECT_EQ(attention.in_width(), 1536 + 512 + 64);
  // Attention and cache have one head, of latents.
  EXPECT_EQ(attention.k_width(), 512 + 64);
  EXPECT_EQ(attention.q_width(), 128 * (512 + 64));
  EXPECT_EQ(attention.attended_width(), 128 * 512);
  const std::vector<AttentionSpec> asked = AttentionSpecsOf(v3, true);
  EXPECT_EQ(asked[0].n_kv_heads, 1);
  EXPECT_EQ(asked[0].head_dim, 512 + 64);
  EXPECT_EQ(asked[0].v_head_dim, 512);
  EXPECT_FLOAT_EQ(asked[0].scale, 1.0F / std::sqrt(192.0F));  // of the heads as they are
  EXPECT_THAT(SpecLines(v3), ::testing::Contains(::testing::HasSubstr(
                                 "holds one head of 576 whose first 512 are its values")));
  EXPECT_EQ(attention.out_width(), 128 * 128);
  EXPECT_EQ(v3.ropes[0].n_dims, 64);
  EXPECT_EQ(v3.ropes[0].pairing, RopePairing::kInterleaved);
  EXPECT_EQ(Bare("youtu", {{"rope_interleave", false}})->ropes[0].pairing, RopePairing::kHalfSplit);
  const ModelSpec direct = *ReadSpec(WithNull({{"model_type", "youtu"}}, "q_lora_rank"));
  EXPECT_EQ(direct.attentions[0].q_in_width(), 16 * 192);
  // yarn also scales the scores.
  const Json yarn = {{"rope_type", "yarn"},
                     {"factor", 10.0},
                     {"mscale_all_dim", 1.0},
                     {"original_max_position_embeddings", 64}};
  const double magnitude = 0.1 * std::log(10.0) + 1.0;
  EXPECT_NEAR(Bare("youtu", {{"rope_parameters", yarn}})->attentions[0].scale,
              magnitude * magnitude / std::sqrt(192.0), 1e-9);
  ExpectRefused({{"model_type", "youtu"}, {"num_key_value_heads", 4}}, {"must be", "= 16"});
  ExpectRefused({{"model_type", "youtu"}, {"v_head_dim", 0}}, {"\"v_head_dim\" = 0"});
  ExpectRefused({{"model_type", "youtu"}, {"qk_rope_head_dim", 63}}, {"must be even"});
  ExpectRefused({{"model_type", "youtu"}, {"attention_bias", true}}, {"attention_bias"});
  const Json v2 = {{"model_type", "deepseek_v2"}, {"num_experts_per_tok", 6}};
  EXPECT_EQ(ReadSpec(v2)->mixtures[0].router.n_groups, 1);
  const Json groups = {{"topk_method", "group_limited_greedy"}, {"n_group", 8}, {"topk_group", 3}};
  EXPECT_EQ(ReadSpec(Edited(v2, groups))->mixtures[0].router.n_best, 1);
  ExpectRefused(Edited(v2, {{"topk_method", "noaux_tc"}}), {"\"topk_method\" = \"noaux_tc\""});
}

TEST(Gpt2, HoldsTheMatricesOfItsBlocksTransposed) {
  const JsonFields fields = *JsonFields::Of(kGpt2, "config.json");
  const Family& family = **FindFamily(fields, "config.json");
  const ModelSpec spec = *ReadSpec(kGpt2);
  std::vector<std::string> transposed;
  const auto visit = [&](const RoleName& entry, const TensorSite& at, const std::string& name) {
    if (at.layer < 1 && entry.transposed) transposed.push_back(name);
    if (entry.role == TensorRole::kQkv) {
      EXPECT_THAT(StoredShape(entry, spec, at.layer), ElementsAre(32, 96));
    }
  };
  ForEachTensor(family, spec, family.experts, visit);
  EXPECT_THAT(
      transposed,
      ElementsAre("transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_proj.weight",
                  "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_proj.weight"));
}

TEST(Gpt2, RefusesWhatItCannotRun) {
  ExpectRefused(Edited(kGpt2, {{"activation_function", "relu"}}), {"relu", "gelu_new"});
  ExpectRefused(Edited(kGpt2, {{"scale_attn_weights", false}}), {"\"scale_attn_weights\" = false"});
  ExpectRefused(Edited(kGpt2, {{"scale_attn_by_inverse_layer_idx", true}}),
                {"\"scale_attn_by_inverse_layer_idx\" = true"});
  ExpectRefused(Edited(kGpt2, {{"add_cross_attention", true}}), {"add_cross_attention"});
}

}  // namespace
}  // namespace ng
