// What is refused before any weight is read, and by which words.
#include "core/model/files/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelFileTest : public ::testing::Test {
 protected:
  using Tensors = std::vector<NamedTensor>;

  static NamedTensor& Named(Tensors& tensors, const std::string& name) {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const NamedTensor& tensor) { return tensor.name == name; });
  }
  static void Remove(Tensors& tensors, const std::string& name) {
    std::erase_if(tensors, [&](const NamedTensor& tensor) { return tensor.name == name; });
  }

  // The error of the tiny model with an edited config.json.
  void ExpectConfigError(const std::string& from, const std::string& to,
                         const std::vector<std::string>& parts) {
    model_.WriteTo(dir_.path());
    const std::string config = absl::StrReplaceAll(model_.ConfigJson(), {{from, to}});
    ASSERT_NE(config, model_.ConfigJson()) << from;
    dir_.Write("config.json", config);
    ExpectError(parts);
  }

  void ExpectError(const std::vector<std::string>& parts) {
    const auto opened = OpenModel(dir_.path());
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(ExitCode(opened.status()), 3);
    const std::string message(opened.status().message());
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_THAT(message, HasSubstr(dir_.path()));
    for (const std::string& part : parts) EXPECT_THAT(message, HasSubstr(part));
  }

  test::TinyNiels model_;
  test::TempDir dir_;
};

TEST_F(ModelFileTest, OpensANielsModelAndBindsEveryTensor) {
  model_.WriteTo(dir_.path());
  const auto file = OpenModel(dir_.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->spec.family, "niels-gpt");
  EXPECT_EQ(file->spec.shape.head_dim, 8);
  EXPECT_EQ(file->bindings.size(), 2U + 2U * 10U);
  EXPECT_TRUE(file->unused.empty());
  EXPECT_EQ(file->Find(TensorRole::kMlpGate, 1)->name, "blocks.1.mlp.fc_g.weight");
  EXPECT_EQ(file->Find(TensorRole::kHead), nullptr);
}

TEST_F(ModelFileTest, RefusesConfigValuesThatCannotBe) {
  ExpectConfigError("\"L\": 2", "\"L\": -1", {"config.json", "\"L\" = -1"});
  ExpectConfigError("\"L\": 2, ", "", {"\"L\""});
  ExpectConfigError("\"C\": 24", "\"C\": \"wide\"", {"\"C\"", "wide"});
  ExpectConfigError("\"C\": 24", "\"C\": 24.5", {"\"C\""});
  ExpectConfigError("\"H\": 3", "\"H\": 0", {"\"H\" = 0"});
  ExpectConfigError("\"H\": 3", "\"H\": 5", {"C = 24", "H = 5"});
  ExpectConfigError("\"H\": 3", "\"H\": 8", {"even"});  // head_dim 3
  ExpectConfigError("\"V\": 61", "\"V\": 99999999999999999999", {"\"V\""});
  ExpectConfigError("\"rope_theta\": 10000", "\"rope_theta\": 0", {"rope_theta"});
  ExpectConfigError("niels-gpt", "frobnicator", {"model_type", "frobnicator", "niels-gpt"});
  ExpectConfigError("{", "[", {"config.json"});
}

TEST_F(ModelFileTest, RefusesFewerLayersThanTheConfigSays) {
  ExpectConfigError("\"L\": 2", "\"L\": 3", {"holds 2 layers", "says 3"});
}

TEST_F(ModelFileTest, RefusesAGapBetweenLayers) {
  model_.n_layers = 3;
  model_.WriteTo(dir_.path(), [](Tensors& tensors) {
    std::erase_if(tensors, [](const NamedTensor& t) { return t.name.rfind("blocks.1.", 0) == 0; });
  });
  ExpectError({"none of blocks.1"});
}

TEST_F(ModelFileTest, RefusesAVocabularyThatDisagrees) {
  ExpectConfigError("\"V\": 61", "\"V\": 62", {"tok_emb.weight", "[61, 24]", "[62, 24]"});
}

TEST_F(ModelFileTest, ListsEveryMissingTensor) {
  model_.WriteTo(dir_.path(), [](Tensors& tensors) {
    Remove(tensors, "ln_f.weight");
    Remove(tensors, "blocks.1.attn.proj.weight");
  });
  ExpectError({"missing 2 tensors", "ln_f.weight", "blocks.1.attn.proj.weight"});
}

TEST_F(ModelFileTest, RefusesAModelWithoutEmbeddingUnderEitherName) {
  model_.WriteTo(dir_.path(), [](Tensors& tensors) { Remove(tensors, "tok_emb.weight"); });
  ExpectError({"missing 1 tensor", "tok_emb.weight"});
}

TEST_F(ModelFileTest, AcceptsTheEmbeddingUnderTheHeadsName) {
  model_.WriteTo(dir_.path(), [](Tensors& tensors) {
    Named(tensors, "tok_emb.weight").name = "lm_head.weight";
  });
  const auto file = OpenModel(dir_.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Find(TensorRole::kTokenEmbedding)->name, "lm_head.weight");
  EXPECT_FALSE(file->head_copy);
}

TEST_F(ModelFileTest, ListsTensorsThatNothingAsksFor) {
  model_.WriteTo(dir_.path(), [](Tensors& tensors) {
    tensors.push_back({"rope.inv_freq", {2}, {1.0F, 2.0F}});
  });
  const auto file = OpenModel(dir_.path());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->unused.size(), 1U);
  EXPECT_EQ(file->unused[0]->name, "rope.inv_freq");
}

TEST_F(ModelFileTest, RefusesFoldersWithoutAModel) {
  ExpectError({"config.json"});
  dir_.Write("config.json", model_.ConfigJson());
  ExpectError({"no .safetensors file"});
  const auto absent = OpenModel(dir_.File("absent"));
  EXPECT_EQ(ExitCode(absent.status()), 3);
  EXPECT_THAT(std::string(absent.status().message()), HasSubstr("absent"));
  const auto file = OpenModel(dir_.Write("model.gguf", "GGUF"));
  EXPECT_EQ(ExitCode(file.status()), 3);
}

TEST_F(ModelFileTest, ReadsTheFilesThatAnIndexNamesUnlessModelSafetensorsIsThere) {
  const auto sharded = OpenModel(NG_TEST_DATA "/golden/llama/bf16_sharded");
  ASSERT_TRUE(sharded.ok()) << sharded.status();
  EXPECT_THAT(sharded->source->path(), HasSubstr("model.safetensors.index.json"));
  EXPECT_EQ(sharded->bindings.size(), 3U + 2U * 9U);
  dir_.Write("config.json", model_.ConfigJson());
  dir_.Write("model.safetensors.index.json", "{}");
  ExpectError({"model.safetensors.index.json", "weight_map"});
  model_.WriteTo(dir_.path());
  EXPECT_TRUE(OpenModel(dir_.path()).ok());
}

TEST_F(ModelFileTest, AnUntiedHeadMustBeThere) {
  const std::string golden = NG_TEST_DATA "/golden/llama/untied/";
  std::filesystem::copy(golden + "model.safetensors", dir_.File("model.safetensors"));
  const std::string config = test::Slurp(golden + "config.json");
  dir_.Write("config.json", config);
  const auto file = OpenModel(dir_.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->bindings.size(), 3U + 2U * 9U);
  EXPECT_FALSE(file->head_copy);
  // A tied model's file without a head, under a config that asks for one.
  const std::string tied = NG_TEST_DATA "/golden/llama/tied_gqa/";
  std::filesystem::copy(tied + "model.safetensors", dir_.File("model.safetensors"),
                        std::filesystem::copy_options::overwrite_existing);
  dir_.Write("config.json",
             absl::StrReplaceAll(test::Slurp(tied + "config.json"),
                                 {{"\"tie_word_embeddings\": true", "\"x\": true"}}));
  ExpectError({"missing 1 tensor: lm_head.weight"});
}

TEST_F(ModelFileTest, AFileMayLeaveOutTheFamilysPrefixAndHoldMasks) {
  const auto file = OpenModel(NG_TEST_DATA "/golden/gpt2/hub_layout");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Find(TensorRole::kQkv, 0)->name, "h.0.attn.c_attn.weight");
  ASSERT_EQ(file->unused.size(), 1U);
  EXPECT_EQ(file->unused[0]->name, "h.0.attn.bias");
}

// As a base model's class saves it, or a model's that holds the whole one as its base.
TEST_F(ModelFileTest, AFileMayLeaveOutTheFirstPartOfItsNamesOrHaveItTwice) {
  int n_models = 0;
  const char* const models[] = {"llama/tied_gqa", "gpt_neox/tiny", "opt/tiny",
                                "bloom/tiny",     "mpt/tiny",      "gemma3/tiny"};
  for (size_t run = 0; run < 2 * std::size(models); ++run) {
    const bool twice = run % 2 == 1;
    const char* const model = models[run / 2];
    const std::string golden = absl::StrCat(NG_TEST_DATA "/golden/", model, "/");
    const auto whole = OpenModel(golden);
    ASSERT_TRUE(whole.ok()) << whole.status();
    dir_.Write("config.json", test::Slurp(golden + "config.json"));
    Tensors tensors;
    for (const TensorInfo& info : whole->source->tensors()) {
      const bool of_head =
          info.name.find("head") != info.name.npos || info.name.starts_with("embed_out");
      const size_t part = info.name.find('.') + 1;
      tensors.push_back({of_head ? info.name
                         : twice ? info.name.substr(0, part) + info.name
                                 : info.name.substr(part),
                         info.shape,
                         {}});
      tensors.back().data.resize(static_cast<size_t>(info.n_elements));
    }
    ASSERT_TRUE(WriteSafetensors(dir_.File("model.safetensors"), tensors).ok());
    const auto base = OpenModel(dir_.path());
    ASSERT_TRUE(base.ok()) << base.status();
    ASSERT_EQ(base->bindings.size(), whole->bindings.size()) << model;
    EXPECT_EQ(base->unused.size(), whole->unused.size()) << model;
    for (size_t i = 0; i < base->bindings.size(); ++i) {
      const std::string& found = base->bindings[i].tensor->name;
      const std::string& name = whole->bindings[i].tensor->name;
      EXPECT_TRUE(twice ? found.ends_with(name) : name.ends_with(found)) << found;
      n_models += found != name ? 1 : 0;
    }
  }
  EXPECT_GE(n_models, 120);
}

TEST_F(ModelFileTest, AFileMayAddThePrefixOfACompiledModel) {
  const std::string golden = NG_TEST_DATA "/golden/nanogpt/bias/";
  dir_.Write("config.json", test::Slurp(golden + "config.json"));
  const auto source = OpenSafetensors(golden + "model.safetensors");
  ASSERT_TRUE(source.ok()) << source.status();
  Tensors tensors;
  for (const TensorInfo& info : (*source)->tensors()) {
    tensors.push_back({"_orig_mod." + info.name, info.shape, {}});
    tensors.back().data.resize(static_cast<size_t>(info.n_elements));
  }
  ASSERT_TRUE(WriteSafetensors(dir_.File("model.safetensors"), tensors).ok());
  const auto file = OpenModel(dir_.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->unused.empty());
  EXPECT_EQ(file->Find(TensorRole::kQkv, 1)->name, "_orig_mod.transformer.h.1.attn.c_attn.weight");
}

TEST_F(ModelFileTest, TakesTheSizesOfAPostLnModelFromItsTensors) {
  const std::string golden = NG_TEST_DATA "/golden/postln/basic/";
  const auto file = OpenModel(golden);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->spec.width, 24);
  EXPECT_EQ(file->spec.shape.n_layers, 2);
  EXPECT_EQ(file->spec.shape.head_dim, 6);
  EXPECT_EQ(file->spec.context(), 33);  // the last token is never fed
  ASSERT_EQ(file->bindings.size(), 3U + 2U * 6U);
  EXPECT_EQ(file->bindings.back().part, 11);
  EXPECT_EQ(file->bindings.back().n_bytes(), 24 * 24 * 4);
}

TEST_F(ModelFileTest, TakesAListAsTheOnlyRowOfAMatrixAndNoMatrixInAList) {
  for (const NamedTensor& tensor : model_.Tensors()) {
    model_.WriteTo(dir_.path(), [&](Tensors& tensors) {
      std::vector<int64_t>& shape = Named(tensors, tensor.name).shape;
      shape.insert(shape.begin(), 1);
    });
    SCOPED_TRACE(tensor.name);
    if (tensor.shape.size() == 1) {
      EXPECT_TRUE(OpenModel(dir_.path()).ok());
    } else {
      ExpectError({tensor.name, "has shape [1, ", "must be " + ShapeString(tensor.shape)});
    }
  }
}

TEST_F(ModelFileTest, RefusesAPostLnModelWhoseTensorsDisagree) {
  const auto expect = [&](const Tensors& tensors, const std::vector<std::string>& parts) {
    ASSERT_TRUE(WriteSafetensors(dir_.File("model.safetensors"), tensors).ok());
    ExpectError(parts);
  };
  const auto make = [](const std::string& name, const std::vector<int64_t>& shape) {
    int64_t n = 1;
    for (const int64_t extent : shape) n *= extent;
    return NamedTensor{name, shape, std::vector<float>(static_cast<size_t>(n))};
  };
  dir_.Write("config.json", R"({"model_type": "postln", "num_heads": 2, "eps": 1e-5})");
  const Tensors sound = {make("w_emb", {5, 4}), make("pos_embed", {7, 4}),
                         make("blocks_weights", {1, 6, 4, 4}), make("w_head", {4, 5})};
  ASSERT_TRUE(WriteSafetensors(dir_.File("model.safetensors"), sound).ok());
  ASSERT_TRUE(OpenModel(dir_.path()).ok());
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, std::vector<int64_t>>>{{"w_emb", {5, 4, 1}},
                                                                 {"pos_embed", {7, 6}},
                                                                 {"blocks_weights", {1, 5, 4, 4}},
                                                                 {"blocks_weights", {0, 6, 4, 4}},
                                                                 {"w_head", {5, 4}}}) {
    Tensors edited = sound;
    Named(edited, name) = make(name, shape);
    expect(edited, {name, ShapeString(shape)});
  }
  Tensors edited = sound;
  Remove(edited, "blocks_weights");
  expect(edited, {"missing 1 tensor: blocks_weights"});
  dir_.Write("config.json", R"({"model_type": "postln", "num_heads": 3, "eps": 1e-5})");
  expect(sound, {"num_heads", "3", "width 4"});
  const auto random_weights = OpenRandomModel(dir_.File("config.json"));
  EXPECT_EQ(ExitCode(random_weights.status()), 3);
}

TEST_F(ModelFileTest, TakesTheOneFileOfAnyNameAndPrefersModelSafetensors) {
  model_.WriteTo(dir_.path());
  std::filesystem::rename(dir_.File("model.safetensors"), dir_.File("weights.safetensors"));
  EXPECT_TRUE(OpenModel(dir_.path()).ok());
  dir_.Write("other.safetensors", "");
  ExpectError({"weights.safetensors", "other.safetensors"});
  model_.WriteTo(dir_.path());
  EXPECT_TRUE(OpenModel(dir_.path()).ok());
}

// What the program says of a folder whose config.json is edited.
class DoubtTest : public ModelFileTest {
 protected:
  absl::Status Open(const nlohmann::json& edits, bool strict = false,
                    std::vector<std::string> ignored = {}) {
    std::ifstream file(NG_TEST_DATA "/golden/llama/untied/config.json");
    nlohmann::json config = nlohmann::json::parse(file);
    config.merge_patch(edits);
    lines_.clear();
    KeyPolicy keys(strict, std::move(ignored),
                   [&](std::string_view line) { lines_.emplace_back(line); });
    return OpenRandomModel(dir_.Write("config.json", config.dump()), keys).status();
  }
  std::vector<std::string> lines_;
};

TEST_F(DoubtTest, NamesKeysThatNobodyReadsInOneLine) {
  EXPECT_TRUE(Open({{"frob", 1}, {"rope_scaling", {{"frob", 2}}}}).ok());
  EXPECT_THAT(lines_, ElementsAre(dir_.File("config.json") +
                                  ": nobody reads these keys: frob, rope_scaling.frob"));
  const absl::Status refused = Open({{"frob", 1}}, /*strict=*/true);
  EXPECT_EQ(ExitCode(refused), 3);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("this key: frob"));
}

TEST_F(DoubtTest, SaysNothingOfInertKeysNorOfKeysThatSayNothing) {
  EXPECT_TRUE(Open({{"use_cache", true}, {"unsloth_version", "1"}, {"frob", false}, {"frab", ""}},
                   /*strict=*/true)
                  .ok());
}

TEST_F(DoubtTest, RunsWithoutKeysThatAreIgnored) {
  EXPECT_EQ(ExitCode(Open({{"is_causal", false}})), 3);
  EXPECT_TRUE(Open({{"is_causal", false}}, /*strict=*/true, {"is_causal"}).ok());
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("\"is_causal\" = false is left out")));
}

}  // namespace
}  // namespace ng
