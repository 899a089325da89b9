// What a model's makers say of its sampling, as entries below the user's own.
#include "core/runtime/assembly/model_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/formats/json.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// The defaults as "key=value", for the text of a generation_config.json or of a GGUF file's keys,
// and a user's entries.
std::vector<std::string> Defaults(const std::string& json,
                                  const std::vector<std::string>& overrides = {},
                                  bool gguf = false) {
  const nlohmann::json value = nlohmann::json::parse(json);
  const JsonFields fields = *JsonFields::Of(value, "x.json");
  const auto suggestions = gguf ? ReadGgufSampling(fields, "/m/x.gguf")
                                : ReadSuggestedSampling(fields, "/m/x.json", 100);
  EXPECT_TRUE(suggestions.ok()) << suggestions.status();
  const auto entries = ModelDefaults(*suggestions, *ParseOverrides(overrides));
  EXPECT_TRUE(entries.ok()) << entries.status();
  std::vector<std::string> texts;
  for (const ConfigEntry& entry : *entries) {
    EXPECT_EQ(entry.origin.kind, ConfigOrigin::Kind::kModel);
    texts.push_back(entry.key + "=" + entry.text);
  }
  return texts;
}

TEST(ModelDefaults, AreTheChainOfTransformersInItsOrder) {
  EXPECT_THAT(Defaults(R"({"do_sample": true, "top_p": 0.9, "temperature": 0.6})"),
              ElementsAre("sampler.chain=temperature,top_k,top_p", "sampler.temperature.value=0.6",
                          "sampler.top_p.p=0.9"));
  EXPECT_THAT(
      Defaults(R"({"typical_p": 0.8, "min_p": 0.1, "top_k": 20, "top_p": 1.0,
                           "repetition_penalty": 1.05})"),
      ElementsAre("sampler.chain=repetition_penalty,top_k,min_p,typical_p",
                  "sampler.repetition_penalty.value=1.05", "sampler.repetition_penalty.window=0",
                  "sampler.top_k.k=20", "sampler.min_p.p=0.1", "sampler.typical_p.p=0.8"));
  EXPECT_THAT(Defaults(R"({"do_sample": true, "top_k": 0})"),
              ElementsAre("sampler.chain=temperature", "sampler.temperature.value=1"));
}

TEST(ModelDefaults, AreGreedyWhereNothingIsDrawn) {
  const auto greedy = ElementsAre("sampler.chain=greedy");
  EXPECT_THAT(Defaults(R"({"do_sample": false, "temperature": 0.6, "top_p": 0.9})"), greedy);
  EXPECT_THAT(Defaults(R"({"temperature": 0.0, "top_k": 3})"), greedy);
  EXPECT_THAT(
      Defaults(R"({"do_sample": false, "repetition_penalty": 1.2})"),
      ElementsAre("sampler.chain=repetition_penalty,greedy", "sampler.repetition_penalty.value=1.2",
                  "sampler.repetition_penalty.window=0"));
}

TEST(ModelDefaults, GiveWayToTheConfigOneByOne) {
  const std::string json = R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9})";
  EXPECT_THAT(Defaults(json, {"sampler.temperature.value=2", "sampler.min_p.p=0.2"}),
              ElementsAre("sampler.chain=temperature,top_k,top_p,min_p", "sampler.top_p.p=0.9"));
  // A chain that is named keeps its stages.
  EXPECT_THAT(Defaults(json, {"sampler.chain=top_p,banned_tokens"}),
              ElementsAre("sampler.top_p.p=0.9"));
  EXPECT_THAT(Defaults(json, {"sampler.chain=greedy"}), IsEmpty());
  EXPECT_THAT(Defaults(json, {"run.model_defaults=false"}), IsEmpty());
}

TEST(ModelDefaults, AreNoneWhereTheFileSaysNothing) {
  EXPECT_THAT(Defaults(R"({"eos_token_id": [1, 2], "temperature": null})"), IsEmpty());
  EXPECT_THAT(Defaults(R"({"num_beams": 1, "no_repeat_ngram_size": 2})"), IsEmpty());
  EXPECT_THAT(Defaults(R"({"general.sampling.sequence": "k"})", {}, /*gguf=*/true), IsEmpty());
}

// Its values are f32; 0 and less turn top_k off; a window of -1 is everything, of 0 nothing.
TEST(ModelDefaults, ReadGgufFilesToo) {
  EXPECT_THAT(Defaults(R"({"general.sampling.temp": 0.60000002384185791,
                           "general.sampling.top_k": -1, "general.sampling.penalty_repeat": 1.5,
                           "general.sampling.penalty_last_n": -1,
                           "general.sampling.xtc_probability": 0.5,
                           "general.sampling.xtc_threshold": 0.25})",
                       {}, /*gguf=*/true),
              ElementsAre("sampler.chain=repetition_penalty,temperature,xtc",
                          "sampler.repetition_penalty.value=1.5",
                          "sampler.repetition_penalty.window=0", "sampler.temperature.value=0.6",
                          "sampler.xtc.probability=0.5", "sampler.xtc.threshold=0.25"));
  EXPECT_THAT(Defaults(R"({"general.sampling.penalty_repeat": 1.5, "general.sampling.top_k": 0,
                           "general.sampling.penalty_last_n": 0, "general.sampling.temp": 0.5})",
                       {}, /*gguf=*/true),
              ElementsAre("sampler.chain=temperature", "sampler.temperature.value=0.5"));
}

// Tokens that are never drawn, in front of whatever else runs; an end is not banned so.
TEST(ModelDefaults, BanTokens) {
  EXPECT_THAT(Defaults(R"({"suppress_tokens": [7, 3, -1, 100], "do_sample": false})"),
              ElementsAre("sampler.chain=banned_tokens,greedy", "sampler.banned_tokens.ids=3,7"));
  EXPECT_THAT(Defaults(R"({"bad_words_ids": [[5], [2], [5, 6]], "eos_token_id": 2, "top_k": 4})"),
              ElementsAre("sampler.chain=banned_tokens,top_k", "sampler.banned_tokens.ids=5",
                          "sampler.top_k.k=4"));
  const std::vector<std::string> alone = Defaults(R"({"suppress_tokens": [7]})");
  ASSERT_EQ(alone.size(), 2);
  EXPECT_THAT(alone[0], StartsWith("sampler.chain=banned_tokens,temperature"));
  EXPECT_THAT(Defaults(R"({"suppress_tokens": [], "begin_suppress_tokens": [4]})"), IsEmpty());
  EXPECT_THAT(Defaults(R"({"suppress_tokens": [7]})", {"sampler.chain=greedy"}), IsEmpty());
}

}  // namespace
}  // namespace ng
