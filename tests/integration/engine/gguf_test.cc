// GGUF files whole: llama.cpp's own with its logits, other formats' models as GGUF, damaged ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/formats/safetensors.h"
#include "core/model/rows/rope.h"
#include "ng/engine.h"
#include "tests/integration/engine/captured_run.h"
#include "tests/support/gguf_model.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

absl::StatusOr<Completion> RunModel(const std::string& path, const std::string& weights,
                                    const Ids& ids, int max_new_tokens) {
  EngineOptions options;
  options.overrides = {"model.path=" + path, "model.weights=" + weights, "sampler.chain=greedy",
                       "run.stop_ids="};
  return test::CapturedRun(options, ids, max_new_tokens);
}

std::vector<float> Values(const TensorSource& source, const std::string& name) {
  const TensorInfo* tensor = source.Find(name);
  EXPECT_NE(tensor, nullptr) << name;
  if (tensor == nullptr) return {};
  std::vector<std::byte> raw(static_cast<size_t>(tensor->n_bytes));
  EXPECT_TRUE(source.Read(*tensor, raw).ok());
  std::vector<float> values(static_cast<size_t>(tensor->n_elements));
  ConvertToF32(tensor->dtype, raw.data(), values);
  return values;
}

double MostApart(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0.0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double apart = std::abs(double{a[i]} - double{b[i]});
    if (!(apart <= most)) most = apart;  // NaN too
  }
  return most;
}

class GgufGolden : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  void SetUp() override {
    const auto& [name, type] = GetParam();
    const std::string dir = absl::StrCat(NG_TEST_DATA, "/golden/gguf/", name);
    info_ = nlohmann::json::parse(test::Slurp(dir + "/case.json"));
    type_ = info_["types"][type];
    path_ = absl::StrCat(dir, "/", type_["file"].get<std::string>());
    auto expected = OpenSafetensors(absl::StrCat(dir, "/expected-", type, ".safetensors"));
    ASSERT_TRUE(expected.ok()) << expected.status();
    expected_ = *std::move(expected);
  }

  // Every row along the reference's ids: those of the prompt, then those that chose a token.
  void ExpectLogits(const std::string& weights, const std::string& reference, double tolerance) {
    double most = 0.0;
    for (size_t i = 0; i < info_["prompts"].size(); ++i) {
      Ids ids = type_["greedy_ids"][i];
      ids.pop_back();
      const auto done = RunModel(path_, weights, ids, 1);
      ASSERT_TRUE(done.ok()) << done.status();
      const std::vector<float>& logits = done->captured.logits;
      const std::vector<float> prompt = Values(*expected_, absl::StrCat(reference, "logits.", i));
      const std::vector<float> decode =
          Values(*expected_, absl::StrCat(reference, "decode_logits.", i));
      ASSERT_LE(std::max(prompt.size(), decode.size()), logits.size());
      most = std::max(
          most, MostApart({logits.begin(), logits.begin() + static_cast<int64_t>(prompt.size())},
                          prompt));
      most = std::max(
          most,
          MostApart({logits.end() - static_cast<int64_t>(decode.size()), logits.end()}, decode));
    }
    EXPECT_LE(most, tolerance);
    RecordProperty("max_abs", std::to_string(most));
  }

  void ExpectIds(const std::string& weights) {
    if (!type_["greedy_exact"].get<bool>()) return;
    for (size_t i = 0; i < info_["prompts"].size(); ++i) {
      const auto done = RunModel(path_, weights, info_["prompts"][i], info_["max_new_tokens"]);
      ASSERT_TRUE(done.ok()) << done.status();
      EXPECT_EQ(done->ids, type_["greedy_ids"][i].get<Ids>());
    }
  }

  nlohmann::json info_;
  nlohmann::json type_;
  std::string path_;
  std::unique_ptr<TensorSource> expected_;
};

TEST_P(GgufGolden, HeldAsF32IsTheArithmeticOnItsValues) {
  ExpectLogits("f32", "dequant_", type_["tolerance"]["dequant_max_abs"]);
  ExpectIds("f32");
}

TEST_P(GgufGolden, HeldAsItIsIsNearLlamaCpp) {
  ExpectLogits("auto", "", type_["tolerance"]["llamacpp_max_abs"]);
  ExpectIds("auto");
}

INSTANTIATE_TEST_SUITE_P(
    All, GgufGolden,
    ::testing::Values(std::pair("llama", "Q4_0"), std::pair("llama", "Q4_K_M"),
                      std::pair("llama", "Q5_K"), std::pair("llama_bf16", "BF16"),
                      std::pair("qwen2", "Q8_0"), std::pair("low_bits", "LOW")),
    [](const auto& info) { return absl::StrCat(info.param.first, "_", info.param.second); });

class GgufAsSafetensors : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufAsSafetensors, GivesTheSameBits) {
  const std::string folder = absl::StrCat(NG_TEST_DATA, "/golden/", GetParam());
  const auto model = OpenModel(folder);
  ASSERT_TRUE(model.ok()) << model.status();
  const Ids ids = {5, 1, 33, 7, 20, 2};
  constexpr int kNewTokens = 4;
  const test::TempDir dir;
  for (const auto& [dtype, weights] :
       {std::pair(DType::kF32, "f32"), {DType::kF16, "f16"}, {DType::kBf16, "bf16"}}) {
    const std::string path =
        dir.Write("model.gguf", test::GgufOf(*model, model->spec.family, dtype).Bytes());
    const auto expected = RunModel(folder, weights, ids, kNewTokens);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const auto found = RunModel(path, "auto", ids, kNewTokens);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->ids, expected->ids);
    EXPECT_EQ(found->captured.logits, expected->captured.logits) << weights;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufAsSafetensors,
                         ::testing::Values("llama/tied_gqa", "llama/untied", "llama/rope_linear",
                                           "qwen2/tiny", "qwen3/tiny", "gpt2/tiny"),
                         [](const auto& info) {
                           return absl::StrReplaceAll(info.param, {{"/", "_"}});
                         });

// A tensor of factors that are all 2 is a linear scaling by 2.
TEST(GgufRopeFactors, DivideTheFrequencies) {
  const auto model = OpenModel(NG_TEST_DATA "/golden/llama/untied");
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<float> factors(static_cast<size_t>(model->spec.shape.head_dim / 2), 2.0F);
  const std::vector<int64_t> shape = {model->spec.shape.head_dim / 2};
  const auto gguf = [&] { return test::GgufOf(*model, "llama", DType::kF32); };
  const test::TempDir dir;
  const auto logits = [&](const test::GgufBuilder& builder) {
    const auto done = RunModel(dir.Write("model.gguf", builder.Bytes()), "auto", {5, 1, 33, 7}, 1);
    EXPECT_TRUE(done.ok()) << done.status();
    return done.ok() ? done->captured.logits : std::vector<float>();
  };
  const std::vector<float> divided =
      logits(gguf().Tensor("rope_freqs.weight", shape, DType::kF32, factors));
  EXPECT_EQ(divided, logits(gguf().F32("llama.rope.scaling.factor", 2.0F)));
  EXPECT_NE(divided, logits(gguf()));
}

// A converter writes the llama3 scaling of a config.json as factors, rounded to f32: the
// frequencies differ from the config's in the last bits of an f32.
TEST(GgufRopeFactors, AreTheScalingOfAConfig) {
  const std::string folder = NG_TEST_DATA "/golden/llama/rope_llama3";
  auto model = OpenModel(folder);
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<double> scaled = RopeFrequencies(model->spec.ropes[0]);
  model->spec.ropes[0].scaling = {};
  std::vector<float> factors;
  for (const double plain : RopeFrequencies(model->spec.ropes[0])) {
    factors.push_back(static_cast<float>(plain / scaled[factors.size()]));
  }
  EXPECT_GT(factors.back(), factors.front());
  const std::vector<int64_t> shape = {std::ssize(factors)};
  const test::TempDir dir;
  const std::string path =
      dir.Write("model.gguf", test::GgufOf(*model, "llama", DType::kF32)
                                  .Tensor("rope_freqs.weight", shape, DType::kF32, factors)
                                  .Bytes());
  const Ids ids = {5, 1, 33, 7, 20, 2, 9, 9, 14, 3};
  const auto expected = RunModel(folder, "f32", ids, 4);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto found = RunModel(path, "f32", ids, 4);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->ids, expected->ids);
  EXPECT_THAT(found->captured.logits,
              ::testing::Pointwise(::testing::FloatNear(1e-5F), expected->captured.logits));
}

// The tokenizer inside the file, with the begin token that it asks for.
TEST(GgufText, IsEncodedByTheFilesOwnVocabulary) {
  EngineOptions options;
  options.overrides = {"model.path=" NG_TEST_DATA "/golden/gguf/llama_bf16/model-BF16.gguf"};
  const auto engine = Engine::Open(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  ASSERT_TRUE((*engine)->has_tokenizer());
  const auto ids = (*engine)->Encode("Hello, world!", {});
  ASSERT_TRUE(ids.ok()) << ids.status();
  // As in tokenize.jsonl beside the file, after <s>.
  EXPECT_EQ(*ids, (Ids{1, 327, 363, 328, 276, 329, 342, 266, 272, 321, 361}));
  EXPECT_EQ((*engine)->Decode(*ids).value(), " Hello, world!");
  EXPECT_THAT((*engine)->EncodeMessage("Hello").status().message(),
              HasSubstr("tokenizer.chat_template"));
}

TEST(GgufFiles, RunOrAreRefusedAsTheManifestSays) {
  const std::string folder = NG_TEST_DATA "/malformed/";
  const nlohmann::json manifest = nlohmann::json::parse(test::Slurp(folder + "manifest.json"));
  int n_files = 0;
  for (const nlohmann::json& file : manifest["files"]) {
    const std::string path = file["path"];
    if (!path.starts_with("gguf_")) continue;
    ++n_files;
    if (file["expect"] == "ok") {
      const nlohmann::json& check = file["check"];
      const auto done = RunModel(folder + path, "auto", check["prompt"], check["max_new_tokens"]);
      ASSERT_TRUE(done.ok()) << done.status();
      EXPECT_EQ(done->ids, check["greedy_ids"].get<Ids>()) << path;
      continue;
    }
    const absl::Status status = RunModel(folder + path, "auto", {1}, 1).status();
    EXPECT_EQ(ExitCode(status), 3) << path << ": " << file["reason"];
    EXPECT_THAT(std::string(status.message()), HasSubstr(path + ": "));
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
  }
  EXPECT_EQ(n_files, 33);
}

}  // namespace
}  // namespace ng
