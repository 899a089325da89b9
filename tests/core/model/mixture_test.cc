// Mixtures of experts: which experts a row goes to, how config.json and files say what they are.
#include "core/model/ops/mixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/formats/safetensors.h"
#include "core/machine/executor.h"
#include "core/model/files/model_file.h"
#include "core/model/load/file_types.h"
#include "core/model/load/load_weights.h"
#include "core/model/rows/router.h"
#include "core/model/weights/weight_types.h"
#include "core/model/weights/weights.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

struct Routed {
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

Routed RouteLogits(const RouterSpec& router, std::vector<float> logits,
                   const std::vector<float>& selection_bias = {}) {
  std::vector<float> compared(logits.size());
  Routed routed{std::vector<int32_t>(static_cast<size_t>(router.n_used)),
                std::vector<float>(static_cast<size_t>(router.n_used))};
  Route(router, {selection_bias, logits, compared, routed.experts, routed.weights});
  return routed;
}

TEST(Router, TakesTheBestOfASoftmaxAndTheLowerOfEqualOnes) {
  RouterSpec router = {.n_experts = 4, .n_used = 2};
  const Routed routed = RouteLogits(router, {0.0F, 1.0F, 3.0F, 1.0F});
  EXPECT_THAT(routed.experts, ElementsAre(2, 1));
  const double sum = 1.0 + 2.0 * std::exp(1.0) + std::exp(3.0);
  EXPECT_NEAR(routed.weights[0], std::exp(3.0) / sum, 1e-6);
  EXPECT_NEAR(routed.weights[1], std::exp(1.0) / sum, 1e-6);
  router.normalised = true;
  router.scale = 2.5F;
  const Routed scaled = RouteLogits(router, {0.0F, 1.0F, 3.0F, 1.0F});
  EXPECT_NEAR(scaled.weights[0], 2.5 / (1.0 + std::exp(-2.0)), 1e-6);
  EXPECT_NEAR(scaled.weights[0] + scaled.weights[1], 2.5, 1e-6);
}

TEST(Router, ComparesWithABiasThatTheWeightsDoNotHave) {
  const RouterSpec router = {.n_experts = 3, .n_used = 1, .sigmoid = true, .selection_bias = true};
  const Routed routed = RouteLogits(router, {1.0F, 0.0F, -1.0F}, {0.0F, 0.0F, 1.0F});
  EXPECT_THAT(routed.experts, ElementsAre(2));
  EXPECT_NEAR(routed.weights[0], 1.0 / (1.0 + std::exp(1.0)), 1e-6);
}

TEST(Router, StaysInTheGroupsWhoseTwoBestAreTheBest) {
  RouterSpec router = {
      .n_experts = 6, .n_used = 2, .sigmoid = true, .n_groups = 2, .n_groups_used = 1};
  // The best expert is in the first group, the best two together are in the second.
  const std::vector<float> logits = {4.0F, -9.0F, -9.0F, 1.0F, -9.0F, 2.0F};
  EXPECT_THAT(RouteLogits(router, logits).experts, ElementsAre(5, 3));
  router.n_groups_used = 2;
  EXPECT_THAT(RouteLogits(router, logits).experts, ElementsAre(0, 5));
}

TEST(Router, GoesByTheBestOneOfAGroupWhereTheFamilyDoes) {
  const RouterSpec router = {
      .n_experts = 6, .n_used = 2, .n_groups = 2, .n_groups_used = 1, .n_best = 1};
  const std::vector<float> logits = {4.0F, -9.0F, -8.0F, 1.0F, -9.0F, 3.5F};
  EXPECT_THAT(RouteLogits(router, logits).experts, ElementsAre(0, 2));
}

// Of logits whose sigmoid is 1 the larger one is still the better.
TEST(Router, ComparesLogitsWhereItWeighsWhatExpertsRead) {
  RouterSpec router = {.n_experts = 3, .n_used = 1, .sigmoid = true};
  EXPECT_THAT(RouteLogits(router, {30.0F, 50.0F, 40.0F}).experts, ElementsAre(0));
  router.weighs_input = true;
  EXPECT_THAT(RouteLogits(router, {30.0F, 50.0F, 40.0F}).experts, ElementsAre(1));
}

TEST(Router, OfNaNChoosesExpertsThatThereAre) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool sigmoid : {false, true}) {
    const RouterSpec router = {
        .n_experts = 4, .n_used = 2, .sigmoid = sigmoid, .n_groups = 2, .n_groups_used = 1};
    const Routed routed = RouteLogits(router, {nan, nan, nan, nan});
    for (const int32_t expert : routed.experts) EXPECT_TRUE(expert >= 0 && expert < 4);
    EXPECT_TRUE(std::isnan(routed.weights[0]));
  }
}

absl::StatusOr<ModelSpec> SpecOf(const Json& config) {
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(config, "config.json"));
  NG_ASSIGN_OR_RETURN(const Family* family, FindFamily(fields, "config.json"));
  return family->read_spec(fields, "config.json");
}

// The layers with experts.
std::vector<int> Sparse(const Json& config) {
  const auto spec = SpecOf(config);
  EXPECT_TRUE(spec.ok()) << spec.status();
  std::vector<int> layers;
  for (int i = 0; i < spec->shape.n_layers; ++i) {
    if (ExpertsOf(*spec, i) > 0) layers.push_back(i);
  }
  return layers;
}

void ExpectNoMixture(const Json& config, const std::vector<std::string>& parts) {
  const auto spec = SpecOf(config);
  ASSERT_FALSE(spec.ok()) << config;
  EXPECT_EQ(ExitCode(spec.status()), 3);
  for (const std::string& part : parts) {
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(part));
  }
}

TEST(Mixtures, AreInTheLayersThatTheConfigSays) {
  const Json qwen = {{"model_type", "qwen2_moe"}, {"num_hidden_layers", 6}};
  const auto with = [](Json config, const char* key, const Json& value) {
    config[key] = value;
    return config;
  };
  EXPECT_THAT(Sparse(with(qwen, "decoder_sparse_step", 2)), ElementsAre(1, 3, 5));
  EXPECT_THAT(Sparse(with(qwen, "mlp_only_layers", {0, 4})), ElementsAre(1, 2, 3, 5));
  const Json glm = {{"model_type", "glm4_moe"}, {"head_dim", 128}, {"num_hidden_layers", 3}};
  EXPECT_THAT(Sparse(glm), ElementsAre(1, 2));
  EXPECT_THAT(Sparse(with(glm, "first_k_dense_replace", 7)), ElementsAre());
  const Json ernie = {{"model_type", "ernie4_5_moe"},
                      {"num_hidden_layers", 6},
                      {"moe_layer_start_index", 2},
                      {"moe_layer_interval", 2},
                      {"moe_layer_end_index", 4}};
  EXPECT_THAT(Sparse(ernie), ElementsAre(3));
  const Json exaone = {{"model_type", "exaone_moe"}, {"num_hidden_layers", 3}};
  EXPECT_THAT(Sparse(exaone), ElementsAre(1, 2));
  EXPECT_THAT(Sparse(with(exaone, "mlp_layer_types", {"sparse", "dense", "dense"})),
              ElementsAre(0));
  ExpectNoMixture(with(exaone, "mlp_layer_types", {"sparse", "dense"}),
                  {"\"mlp_layer_types\" lists 2 layers, num_hidden_layers is 3"});
  ExpectNoMixture(with(exaone, "mlp_layer_types", {"sparse", "dense", "both"}),
                  {"\"mlp_layer_types[2]\" = \"both\"", "\"dense\" or \"sparse\""});
}

TEST(Mixtures, HaveTheExpertsThatTheConfigSays) {
  const auto qwen = SpecOf({{"model_type", "qwen2_moe"}, {"norm_topk_prob", true}});
  ASSERT_TRUE(qwen.ok()) << qwen.status();
  ASSERT_EQ(qwen->mixtures.size(), 1U);
  const MixtureSpec& mixture = qwen->mixtures[0];
  EXPECT_EQ(mixture.router.n_experts, 60);
  EXPECT_EQ(mixture.router.n_used, 4);
  EXPECT_TRUE(mixture.router.normalised && mixture.shared_gate);
  EXPECT_EQ(mixture.expert.width, 1408);
  EXPECT_EQ(mixture.shared.width, 5632);
  const auto glm = SpecOf({{"model_type", "glm4_moe"}, {"head_dim", 128}, {"n_shared_experts", 3}});
  EXPECT_EQ(glm->mixtures[0].shared.width, 3 * 1408);
  EXPECT_FALSE(SpecOf({{"model_type", "glm4_moe"}, {"head_dim", 128}, {"n_shared_experts", 0}})
                   ->mixtures[0]
                   .has_shared());
  // One number of experts for each layer.
  const Json hunyuan = {{"model_type", "hunyuan_v1_moe"},
                        {"num_experts", 4},
                        {"num_hidden_layers", 2},
                        {"moe_topk", {1, 3}}};
  const auto listed = SpecOf(hunyuan);
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->MixtureOf(listed->layers[1][1]).router.n_used, 3);
}

TEST(Mixtures, AreRefusedWhereTheyCannotBe) {
  ExpectNoMixture({{"model_type", "mixtral"}, {"num_local_experts", 3}, {"num_experts_per_tok", 4}},
                  {"\"num_experts_per_tok\" = 4, must be at most 3"});
  ExpectNoMixture({{"model_type", "mixtral"}, {"num_local_experts", 0}}, {"num_local_experts"});
  ExpectNoMixture({{"model_type", "dots1"}}, {"n_routed_experts"});
  Json glm = {
      {"model_type", "glm4_moe"}, {"head_dim", 128}, {"n_routed_experts", 8}, {"n_group", 3}};
  ExpectNoMixture(glm, {"\"n_group\" = 3", "of 8 experts"});
  glm["n_group"] = 8;
  ExpectNoMixture(glm, {"\"n_group\" = 8", "at least 2"});
  glm["n_group"] = 4;
  glm["num_experts_per_tok"] = 3;
  ExpectNoMixture(glm, {"\"num_experts_per_tok\" = 3, must be at most 2"});
  ExpectNoMixture({{"model_type", "ernie4_5_moe"}, {"use_bias", true}}, {"\"use_bias\""});
}

// A copy of a golden model whose tensors `edit` has changed.
class MixtureFiles : public ::testing::Test {
 protected:
  using Edit = std::function<void(std::vector<NamedTensor>&)>;

  void Write(const std::string& golden, const Edit& edit) {
    const std::string from = NG_TEST_DATA "/golden/" + golden + "/";
    std::filesystem::copy_file(from + "config.json", dir_.path() + "/config.json");
    const auto source = OpenSafetensors(from + "model.safetensors");
    std::vector<NamedTensor> tensors;
    for (const TensorInfo& info : (*source)->tensors()) {
      NamedTensor& tensor = tensors.emplace_back();
      tensor.name = info.name;
      tensor.shape = info.shape;
      tensor.data.resize(static_cast<size_t>(info.n_elements));
      ASSERT_TRUE((*source)->Read(info, std::as_writable_bytes(std::span(tensor.data))).ok());
    }
    edit(tensors);
    ASSERT_TRUE(WriteSafetensors(dir_.path() + "/model.safetensors", tensors).ok());
  }

  std::string Error() {
    const auto file = OpenModel(dir_.path());
    EXPECT_FALSE(file.ok());
    EXPECT_EQ(ExitCode(file.status()), 3);
    return std::string(file.status().message());
  }

  test::TempDir dir_;
};

TEST_F(MixtureFiles, LackNoExpert) {
  Write("qwen2_moe/tiny", [](std::vector<NamedTensor>& tensors) {
    std::erase_if(tensors, [](const auto& tensor) {
      return absl::StrContains(tensor.name, "layers.2.mlp.experts.3.");
    });
  });
  EXPECT_THAT(Error(), HasSubstr("missing 3 tensors: model.layers.2.mlp.experts.3.gate_proj"));
}

TEST_F(MixtureFiles, LackSoManyThatSomeAreCounted) {
  Write("qwen2_moe/tiny", [](std::vector<NamedTensor>& tensors) {
    std::erase_if(tensors, [](const auto& tensor) {
      return absl::StrContains(tensor.name, "mlp.experts.") &&
             !absl::StrContains(tensor.name, "gate_proj");
    });
  });
  const std::string error = Error();
  EXPECT_THAT(error, HasSubstr("missing 20 tensors: model.layers."));
  EXPECT_THAT(error, HasSubstr(" and 8 more"));
}

TEST_F(MixtureFiles, HaveExpertsOfOneShape) {
  Write("qwen2_moe/tiny", [](std::vector<NamedTensor>& tensors) {
    for (NamedTensor& tensor : tensors) {
      if (tensor.name == "model.layers.0.mlp.experts.1.up_proj.weight") {
        std::swap(tensor.shape[0], tensor.shape[1]);
      }
    }
  });
  EXPECT_THAT(Error(), HasSubstr("experts.1.up_proj.weight\" has shape [16, 20], must be "
                                 "[20, 16] in this qwen2_moe model"));
}

TEST_F(MixtureFiles, HaveAsManyExpertsInOneTensorAsTheConfigSays) {
  Write("qwen3_moe/tiny", [](std::vector<NamedTensor>& tensors) {
    for (NamedTensor& tensor : tensors) {
      if (tensor.name != "model.layers.1.mlp.experts.down_proj") continue;
      tensor.shape[0] = 3;
      tensor.data.resize(tensor.data.size() / 4 * 3);
    }
  });
  EXPECT_THAT(Error(), HasSubstr("experts.down_proj\" has shape [3, 16, 12], must be [4, 16, 12]"));
}

// GLM 4.5 has a layer behind the last that predicts further tokens.
TEST_F(MixtureFiles, MayHaveLayersThatNobodyAsksFor) {
  Write("glm4_moe/tiny", [](std::vector<NamedTensor>& tensors) {
    tensors.push_back({"model.layers.3.eh_proj.weight", {2}, {1.0F, 2.0F}});
  });
  std::ifstream in(dir_.path() + "/config.json");
  Json config = Json::parse(in);
  for (const int n : {1, 0}) {
    config["num_nextn_predict_layers"] = n;
    std::ofstream(dir_.path() + "/config.json") << config;
    std::vector<std::string> warnings;
    KeyPolicy keys(false, {}, [&](std::string_view text) { warnings.emplace_back(text); });
    const auto file = OpenModel(dir_.path(), keys);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->spec.shape.n_layers, 3);
    // Layers behind the config's are not read, as in transformers, and that is said.
    EXPECT_EQ(warnings.size(), n == 0 ? 1U : 0U);
    if (n == 0) {
      EXPECT_THAT(warnings.front(), HasSubstr("model.layers.3.eh_proj.weight"));
    }
  }
}

TEST_F(MixtureFiles, OfSeveralTypesAreHeldAsF32) {
  Write("qwen2_moe/tiny", [](std::vector<NamedTensor>&) {});
  const auto file = OpenModel(dir_.path());
  ASSERT_TRUE(file.ok()) << file.status();
  WeightTypes types = UniformWeightTypes(file->spec, WeightType::kBf16);
  const auto set = [&](int expert, WeightType type) {
    SetRoleType(TensorRole::kExpertDown, file->spec, {0, expert}, type, types);
    return types.layers[0][1].experts->out;
  };
  EXPECT_EQ(set(0, WeightType::kF16), WeightType::kF16);
  EXPECT_EQ(set(1, WeightType::kF16), WeightType::kF16);
  EXPECT_EQ(set(2, WeightType::kBf16), WeightType::kF32);
  EXPECT_EQ(set(3, WeightType::kF16), WeightType::kF32);
}

// BF16 holds all values of MXFP4. By name they are held in their 4 bits.
TEST_F(MixtureFiles, HoldMxfp4AsBf16AndByNameAsItIs) {
  const auto file = OpenModel(NG_TEST_DATA "/golden/gpt_oss/mxfp4");
  ASSERT_TRUE(file.ok()) << file.status();
  const std::unique_ptr<Executor> executor = MakeExecutor(2);
  const auto load = [&](std::string_view held) {
    LoadWeightsOptions options;
    options.types = *WeightTypesFor(*file, held);
    options.executor = executor.get();
    return LoadWeights(*file, options).value();
  };
  const ModelWeights wide = load("auto");
  const ModelWeights packed = load("mxfp4");
  const BlockWeights& expected = wide.layers[0][1];
  const BlockWeights& found = packed.layers[0][1];
  EXPECT_EQ(packed.embedding.type(), WeightType::kF32);
  ASSERT_EQ(expected.experts.size(), found.experts.size());
  for (size_t i = 0; i < found.experts.size(); ++i) {
    for (const auto matrix : {&MatrixPair::in, &MatrixPair::out}) {
      const PackedMatrix& a = expected.experts[i].*matrix;
      const PackedMatrix& b = found.experts[i].*matrix;
      EXPECT_EQ(a.type(), WeightType::kBf16);
      EXPECT_EQ(b.type(), WeightType::kMxfp4);
      std::vector<float> row_a(static_cast<size_t>(a.k()));
      std::vector<float> row_b(static_cast<size_t>(b.k()));
      for (int64_t row = 0; row < a.n(); ++row) {
        a.CopyRow(row, row_a.data());
        b.CopyRow(row, row_b.data());
        ASSERT_EQ(row_a, row_b) << i << " " << row;
      }
    }
  }
}

TEST_F(MixtureFiles, WithoutMxfp4AreNotHeldAsIt) {
  const auto file = OpenModel(NG_TEST_DATA "/golden/gpt_oss/tiny");
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = WeightTypesFor(*file, "mxfp4").status();
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("model.weights = mxfp4: no tensor of " NG_TEST_DATA "/golden/gpt_oss/tiny"));
}

// MXFP4 is a pair of tensors.
TEST_F(MixtureFiles, OfMxfp4LackNoScales) {
  std::filesystem::copy_file(NG_TEST_DATA "/golden/gpt_oss/mxfp4/config.json",
                             dir_.path() + "/config.json");
  std::ifstream in(NG_TEST_DATA "/golden/gpt_oss/mxfp4/model.safetensors", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const size_t name = bytes.find("gate_up_proj_scales");
  ASSERT_NE(name, bytes.npos);
  bytes.replace(name, 19, "gate_up_proj_scalez");
  std::ofstream(dir_.path() + "/model.safetensors", std::ios::binary) << bytes;
  EXPECT_THAT(Error(), HasSubstr("gate_up_proj_blocks\" is there without \"model.layers.0.mlp."
                                 "experts.gate_up_proj_scales\""));
}

}  // namespace
}  // namespace ng
