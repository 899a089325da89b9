// The text part of a model that also reads images.
#include "core/model/keys/text_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/safetensors.h"
#include "core/model/files/model_file.h"
#include "core/model/spec/spec_text.h"
#include "ng/safetensors.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

const std::string kText = NG_TEST_DATA "/golden/gemma3/tiny";

Json TextConfig() {
  Json config;
  std::ifstream(kText + "/config.json") >> config;
  return config;
}

class TextPart : public ::testing::Test {
 protected:
  // The golden model inside of another: its tensors behind `prefix`, in place of "model.".
  void Wrap(const Json& config, const std::string& prefix) {
    dir_.Write("config.json", config.dump());
    const auto source = OpenSafetensors(kText + "/model.safetensors").value();
    std::vector<NamedTensor> tensors = {{"vision_tower.patch.weight", {2}, {1.0F, 2.0F}}};
    for (const TensorInfo& tensor : source->tensors()) {
      std::vector<std::byte> raw(static_cast<size_t>(tensor.n_bytes));
      EXPECT_TRUE(source->Read(tensor, raw).ok());
      std::vector<float> values(static_cast<size_t>(tensor.n_elements));
      ConvertToF32(tensor.dtype, raw.data(), values);
      tensors.push_back({prefix + tensor.name.substr(6), tensor.shape, values});
    }
    EXPECT_TRUE(WriteSafetensors(dir_.File("model.safetensors"), tensors).ok());
  }

  std::string ErrorOf(const Json& config) {
    dir_.Write("config.json", config.dump());
    const auto opened = OpenModel(dir_.path());
    EXPECT_EQ(ExitCode(opened.status()), 3);
    return std::string(opened.status().message());
  }

  test::TempDir dir_;
};

TEST_F(TextPart, IsTheModelThatItWouldBeByItself) {
  const ModelFile alone = OpenModel(kText).value();
  Json text = TextConfig();
  text.erase("model_type");
  text.erase("eos_token_id");
  const Json config = {{"model_type", "gemma3"},
                       {"vision_config", {{"hidden_size", 8}}},
                       {"eos_token_id", {3, 4}},
                       {"text_config", text}};
  for (const char* prefix : {"model.language_model.", "language_model.model."}) {
    Wrap(config, prefix);
    const auto part = OpenModel(dir_.path());
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_EQ(part->spec.family, "gemma3_text");
    EXPECT_EQ(SpecLines(part->spec), SpecLines(alone.spec));
    EXPECT_THAT(part->eos_ids, ElementsAre(3, 4));
    ASSERT_EQ(part->warnings.size(), 1U);
    EXPECT_THAT(part->warnings[0], HasSubstr("of a gemma3 model, of which the text part runs; 1 "));
    ASSERT_EQ(part->bindings.size(), alone.bindings.size());
    for (size_t i = 0; i < alone.bindings.size(); ++i) {
      const TensorInfo& a = *alone.bindings[i].tensor;
      const TensorInfo& b = *part->bindings[i].tensor;
      EXPECT_EQ(a.name, b.name);
      std::vector<std::byte> of_a(static_cast<size_t>(a.n_bytes));
      std::vector<std::byte> of_b(static_cast<size_t>(b.n_bytes));
      ASSERT_TRUE(alone.source->Read(a, of_a).ok());
      ASSERT_TRUE(part->source->Read(b, of_b).ok());
      EXPECT_EQ(of_a, of_b) << a.name;
    }
  }
}

TEST_F(TextPart, HasTheHeadThatTheWholeModelSays) {
  const std::string path = "config.json";
  const auto tied = [&](const Json& config) {
    JsonDocument document;
    *document = config;
    const std::optional<JsonDocument> part = TextConfigOf(document, path).value();
    return (*part)->value("tie_word_embeddings", Json());
  };
  const Json untied = {{"tie_word_embeddings", false}};
  const Json text = {{"tie_word_embeddings", true}};
  EXPECT_EQ(tied({{"model_type", "gemma3"}}), true);
  EXPECT_EQ(tied({{"model_type", "qwen3_5"}}), false);
  EXPECT_EQ(tied({{"model_type", "gemma3"}, {"text_config", untied}}), true);
  EXPECT_EQ(tied({{"model_type", "qwen3_5"}, {"text_config", text}}), false);
  EXPECT_EQ(tied({{"model_type", "gemma3"}, {"text_config", text}, {"tie_word_embeddings", false}}),
            false);
  EXPECT_EQ(tied({{"model_type", "gemma3"}, {"tie_word_embeddings", nullptr}}), false);
  EXPECT_EQ(tied({{"model_type", "lfm2_vl"}, {"tie_embedding", false}}), false);
  // A llava's text part may say that it is tied, or leave it to its own class.
  EXPECT_EQ(tied({{"model_type", "llava"}, {"text_config", text}, {"tie_word_embeddings", false}}),
            true);
  EXPECT_EQ(tied({{"model_type", "llava"}, {"text_config", untied}}), false);
  EXPECT_EQ(tied({{"model_type", "llava"}, {"text_config", untied}, {"tie_word_embeddings", true}}),
            true);
  EXPECT_EQ(tied({{"model_type", "llava"}}), nullptr);
  EXPECT_EQ(tied({{"model_type", "llava_next"}, {"text_config", text}}), false);
}

TEST_F(TextPart, IsRefusedWhereItCannotRun) {
  Wrap({{"model_type", "gemma3"}, {"text_config", TextConfig()}}, "model.language_model.");
  EXPECT_THAT(ErrorOf({{"model_type", "gemma3"}, {"text_config", 3}}),
              HasSubstr("key \"text_config\" = 3, must be an object"));
  EXPECT_THAT(ErrorOf({{"model_type", "gemma3"},
                       {"text_config", TextConfig()},
                       {"quantization_config", {{"quant_method", "awq"}}}}),
              HasSubstr("quantization_config"));
  EXPECT_THAT(ErrorOf({{"model_type", "paligemma"}, {"text_config", TextConfig()}}),
              HasSubstr("\"model_type\" = \"paligemma\""));
}

}  // namespace
}  // namespace ng
