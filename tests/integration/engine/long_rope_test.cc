// Models with factors of RoPE for long runs (longrope): which runs have them, from folders and from
// GGUF files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/files/model_file.h"
#include "tests/integration/engine/captured_run.h"
#include "tests/support/gguf_model.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr char kPhi3[] = NG_TEST_DATA "/golden/phi3/tiny";  // within 32 positions, beyond up to 64
constexpr char kLong[] = "cache.max_tokens=64";

absl::StatusOr<Completion> RunLong(const std::string& path, const std::vector<std::string>& more,
                                   int n_tokens = 40) {
  EngineOptions options;
  options.overrides = {"model.path=" + path, "model.weights=f32", "sampler.chain=greedy",
                       "run.stop_ids="};
  options.overrides.insert(options.overrides.end(), more.begin(), more.end());
  std::vector<int32_t> ids(static_cast<size_t>(n_tokens));
  std::iota(ids.begin(), ids.end(), 0);
  return test::CapturedRun(options, ids, 8);
}

class LongRope : public ::testing::Test {
 protected:
  // The model whose only factors are those of long runs.
  std::string WithLongFactorsAlone() const {
    auto config = nlohmann::json::parse(test::Slurp(absl::StrCat(kPhi3, "/config.json")));
    nlohmann::json& rope = config["rope_parameters"];
    rope["short_factor"] = rope["long_factor"];
    // Of twice the original positions, as before.
    rope["attention_factor"] = std::sqrt(1.0 + std::log(2.0) / std::log(32.0));
    rope["original_max_position_embeddings"] = config["original_max_position_embeddings"] = 64;
    const std::string written = dir_.Write("config.json", config.dump());
    const std::filesystem::path folder = std::filesystem::path(written).parent_path();
    std::filesystem::copy_file(absl::StrCat(kPhi3, "/model.safetensors"),
                               folder / "model.safetensors",
                               std::filesystem::copy_options::overwrite_existing);
    return folder.string();
  }

  std::string WriteGguf(const std::vector<float>& long_factors) const {
    auto model = OpenModel(kPhi3);
    EXPECT_TRUE(model.ok()) << model.status();
    const std::vector<double>& factors = model->spec.ropes[0].scaling.factors;
    const std::vector<float> short_factors(factors.begin(), factors.end());
    const auto magnitude = static_cast<float>(model->spec.ropes[0].scaling.magnitude);
    model->spec.shape.max_positions = 64;
    const std::vector<int64_t> n_short = {2};
    const std::vector<int64_t> n_long = {static_cast<int64_t>(long_factors.size())};
    test::GgufBuilder gguf = test::GgufOf(*model, "phi3", DType::kF32);
    gguf.U32("phi3.rope.dimension_count", 4)
        .U32("phi3.rope.scaling.original_context_length", 32)
        .F32("phi3.rope.scaling.attn_factor", magnitude)
        .Tensor("rope_factors_short.weight", n_short, DType::kF32, short_factors)
        .Tensor("rope_factors_long.weight", n_long, DType::kF32, long_factors);
    return dir_.Write("model.gguf", gguf.Bytes());
  }

  test::TempDir dir_;
};

TEST_F(LongRope, RunsHaveItWhereTheCacheMayBeSoLong) {
  const auto wanted = RunLong(WithLongFactorsAlone(), {});
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  for (const std::vector<std::string>& more : {std::vector<std::string>{kLong},
                                               {kLong, "run.prefill_chunk=7", "cache.name=paged"},
                                               {kLong, "run.use_cache=false"},
                                               {"cache.max_tokens=48"}}) {
    const auto found = RunLong(kPhi3, more);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->ids, wanted->ids);
    EXPECT_EQ(found->captured.logits, wanted->captured.logits);
  }
  // From the first token on.
  const auto near = RunLong(kPhi3, {}, 8);
  const auto far = RunLong(kPhi3, {kLong}, 8);
  ASSERT_TRUE(near.ok() && far.ok()) << near.status() << far.status();
  EXPECT_NE(near->captured.logits, far->captured.logits);
  const auto within = RunLong(kPhi3, {"cache.max_tokens=32"}, 8);
  EXPECT_EQ(near->captured.logits, within->captured.logits);
}

// long_run.json is what tests/data/golden/make_long_run.py wrote.
TEST_F(LongRope, GivesTheIdsOfTransformers) {
  const auto golden = nlohmann::json::parse(test::Slurp(absl::StrCat(kPhi3, "/long_run.json")));
  const auto found = RunLong(kPhi3, {kLong});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->ids, golden["ids"].get<std::vector<int32_t>>());
  const std::vector<float>& logits = found->captured.logits;
  const auto first = golden["first_logits"].get<std::vector<float>>();
  const auto last = golden["last_logits"].get<std::vector<float>>();
  ASSERT_EQ(logits.size(), 40 * last.size());
  for (size_t i = 0; i < last.size(); ++i) {
    EXPECT_NEAR(logits[i], first[i], 3e-5);
    EXPECT_NEAR(logits[39 * last.size() + i], last[i], 3e-5);
  }
}

TEST_F(LongRope, ErrorsSayHowToHaveIt) {
  const auto check = [](const std::vector<std::string>& more, size_t n_tokens) {
    EngineOptions options;
    options.overrides = more;
    options.overrides.push_back(absl::StrCat("model.path=", kPhi3));
    const auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    GenerateRequest request;
    request.prompt_ids.assign(n_tokens, 1);
    request.max_new_tokens = 1;
    const absl::Status status = (*engine)->CheckRequest(request);
    EXPECT_EQ(ExitCode(status), 5);
    return std::string(status.message());
  };
  EXPECT_THAT(check({}, 40),
              HasSubstr("40 > 32 T_max; with cache.max_tokens above 32 the model takes "
                        "its factors for long runs, of up to 64 tokens"));
  EXPECT_THAT(check({kLong}, 70), EndsWith("70 > 64 T_max"));
}

TEST_F(LongRope, GgufFilesHaveItInATensor) {
  const std::string gguf = WriteGguf({2.0F, 4.0F});
  test::ExpectSameLogits(RunLong(gguf, {kLong}), RunLong(kPhi3, {kLong}));
  test::ExpectSameLogits(RunLong(gguf, {}, 8), RunLong(kPhi3, {}, 8));
  const auto refused = RunLong(WriteGguf({2.0F, 4.0F, 8.0F}), {kLong});
  EXPECT_EQ(ExitCode(refused.status()), 3);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("tensor \"rope_factors_long.weight\" must have the shape of "
                        "\"rope_factors_short.weight\", [2]"));
}

}  // namespace
}  // namespace ng
