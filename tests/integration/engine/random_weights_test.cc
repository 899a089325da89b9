// A shape without a model file: made-up weights through the whole engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

std::string Spec(const std::string& name) {
  return absl::StrCat(NG_TEST_DATA, "/golden/", name, "/config.json");
}

EngineOptions Options(const std::string& spec) {
  EngineOptions options;
  options.random_weights = spec;
  options.overrides = {"sampler.chain=greedy"};
  return options;
}

absl::StatusOr<Completion> Complete(const EngineOptions& options) {
  NG_ASSIGN_OR_RETURN(const auto engine, Engine::Open(options));
  const std::vector<GenerateRequest> requests = {{{5, 9, 2, 30, 41}, 6, {}}};
  NG_RETURN_IF_ERROR(engine->Load(Needs(requests)));
  EXPECT_FALSE(engine->has_tokenizer());
  GenerateOptions keep;
  keep.capture_logits = keep.capture_decode_logits = true;
  NG_ASSIGN_OR_RETURN(auto done, engine->Generate(requests, keep));
  return std::move(done[0]);
}

TEST(RandomWeights, RunEveryFamilyWithTheSameLogitsEachTime) {
  for (const char* name : {"niels/b1", "llama/tied_gqa", "llama/untied", "nanogpt/bias",
                           "nanogpt/nobias", "gpt2/tiny"}) {
    SCOPED_TRACE(name);
    const auto first = Complete(Options(Spec(name)));
    const auto again = Complete(Options(Spec(name)));
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(first->ids.size(), 11U);
    EXPECT_EQ(first->captured.logits, again->captured.logits);
    EXPECT_EQ(first->captured.decode_logits, again->captured.decode_logits);
    for (const float logit : first->captured.logits) ASSERT_TRUE(std::isfinite(logit));
  }
}

TEST(RandomWeights, BadSpecsAreModelErrorsNamingFileAndKey) {
  const test::TempDir dir;
  const auto expect = [&](const std::string& spec, const std::vector<std::string>& parts) {
    const auto engine = Engine::Open(Options(spec));
    ASSERT_FALSE(engine.ok());
    EXPECT_EQ(ExitCode(engine.status()), 3) << engine.status();
    EXPECT_THAT(std::string(engine.status().message()), HasSubstr(spec));
    for (const std::string& part : parts) {
      EXPECT_THAT(std::string(engine.status().message()), HasSubstr(part));
    }
  };
  expect(dir.File("absent.json"), {});
  expect(dir.Write("not.json", "{"), {});
  expect(dir.Write("no_type.json", "{}"), {"model_type"});
  expect(dir.Write("half.json", R"({"model_type": "llama", "vocab_size": 0})"),
         {"\"vocab_size\" = 0"});
}

// Nothing is silently replaced by the made-up model.
TEST(RandomWeights, ExcludeAModelFileAndATokenizer) {
  for (const std::string key : {"model.path", "tokenizer.path"}) {
    EngineOptions options = Options(Spec("llama/untied"));
    options.overrides.push_back(key + "=somewhere");
    const auto refused = Engine::Open(options);
    EXPECT_EQ(ExitCode(refused.status()), 2);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(key));
    options.overrides.push_back(key + "=");
    EXPECT_TRUE(Engine::Open(options).ok());
  }
}

TEST(RandomWeights, AShapeBeyondEveryMachineIsALimitNotAnOverflow) {
  const test::TempDir dir;
  const std::string spec = dir.Write("huge.json", R"({"model_type": "niels-gpt", "V": 16777216,
      "T": 2147483647, "C": 16777216, "L": 500, "H": 65536, "d_ff": 16777216, "rope_theta": 1e4})");
  const auto engine = Engine::Open(Options(spec));
  ASSERT_TRUE(engine.ok()) << engine.status();
  const absl::Status loaded = (*engine)->Load({.max_tokens = 8});
  EXPECT_EQ(ExitCode(loaded), 5) << loaded;
}

TEST(RandomWeights, AreNamedByDescribe) {
  const auto engine = Engine::Open(Options(Spec("llama/tied_gqa")));
  ASSERT_TRUE(engine.ok());
  const auto text = (*engine)->Describe({.max_tokens = 8});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("config.json with random weights"));
}

}  // namespace
}  // namespace ng
