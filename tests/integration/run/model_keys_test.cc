// What ng-run says of keys and tensors of a model that nobody uses, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const nlohmann::json kNone = nlohmann::json::object();

class ModelKeys : public ::testing::Test {
 protected:
  // A golden model with an edited config.json, run for one token.
  Result Run(const nlohmann::json& edits, const Arguments& more = {},
             const std::string& model = "llama/untied") {
    const std::string folder = NG_TEST_DATA "/golden/" + model;
    nlohmann::json config = nlohmann::json::parse(ReadFile(folder + "/config.json"));
    config.merge_patch(edits);
    dir_.Write("config.json", config.dump());
    std::filesystem::copy_file(folder + "/model.safetensors", dir_.File("model.safetensors"),
                               std::filesystem::copy_options::overwrite_existing);
    return NgRun(Greedy(dir_.path(), "5 6 7", 1) + more);
  }

  TempDir dir_;
};

TEST_F(ModelKeys, UnreadOnesAreNamedInOneWarning) {
  const Result plain = Run(kNone);
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_THAT(plain.err, Not(HasSubstr("warning")));
  const Result run = Run({{"frob", 1}, {"frab", "x"}, {"unsloth_fixed", true}});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, plain.out);
  EXPECT_THAT(run.err, HasSubstr("ng-run: warning: " + dir_.File("config.json") +
                                 ": nobody reads these keys: frab, frob\n"));
  const Result strict = Run({{"frob", 1}}, {"--model.strict=true"});
  ExpectError(strict, 3, {"config.json: nobody reads this key: frob", "model.strict"});
}

TEST_F(ModelKeys, ThoseThatCannotBeHonouredAreRefusedUnlessIgnored) {
  const nlohmann::json edits = {{"quantization_config", {{"quant_method", "aqlm"}}}};
  ExpectError(Run(edits), 3,
              {"config.json: key \"quantization_config.quant_method\" = \"aqlm\", can run: fp8, "});
  const Result ignored = Run(edits, {"--model.ignore_keys=quantization_config"});
  EXPECT_EQ(ignored.exit_code, 0) << ignored.err;
  EXPECT_THAT(ignored.err, HasSubstr("is left out, as model.ignore_keys says"));
  ExpectError(Run(kNone, {"--model.ignore_keys=quantisation_config"}), 2,
              {"model.ignore_keys = quantisation_config: no file of the model has the key"});
}

TEST_F(ModelKeys, TensorsWithoutAPlaceAreNamed) {
  // A llama has no norms of heads.
  const nlohmann::json llama = {
      {"model_type", "llama"}, {"layer_types", nullptr}, {"max_window_layers", nullptr}};
  const Result run = Run(llama, {}, "qwen3/tiny");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("model.safetensors: 4 tensors have no place in a llama model: "
                                 "model.layers.0.self_attn.k_norm.weight, "));
  ExpectError(Run(llama, {"--model.strict=true"}, "qwen3/tiny"), 3, {"model.safetensors: "});
}

// Files hold them also where a layer reads those of another one.
TEST_F(ModelKeys, MatricesOfSharedKeysAreNotMissed) {
  const nlohmann::json shared = {{"num_kv_shared_layers", 2}};
  const Result run = Run(shared, {"--model.strict=true"}, "gemma4/experts");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, Not(HasSubstr("warning")));
}

TEST_F(ModelKeys, AHeadThatDiffersIsNotTied) {
  const Result plain = Run(kNone);
  const Result tied = Run({{"tie_word_embeddings", true}});
  EXPECT_EQ(tied.exit_code, 0) << tied.err;
  EXPECT_EQ(tied.out, plain.out);
  EXPECT_THAT(tied.err, HasSubstr("\"lm_head.weight\" differs from"));
}

TEST_F(ModelKeys, ANegativeEndTokenIsNone) { EXPECT_EQ(Run({{"eos_token_id", -1}}).exit_code, 0); }

}  // namespace
}  // namespace ng::test
