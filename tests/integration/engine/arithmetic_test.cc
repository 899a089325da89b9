// G1 holds across the levels of one arithmetic: logits and attention rows of a run are the same
// bits on each of them, whatever the model is made of, its weights are held as and its cache
// stores.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "ng/isa.h"
#include "tests/integration/engine/goldens.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

using Overrides = std::vector<std::string>;

// Every float of a short run as its bits, so that the same NaN twice is equal.
absl::StatusOr<std::vector<uint32_t>> BitsOfRun(const Overrides& overrides, int64_t n_prompt,
                                                int64_t n_new) {
  EngineOptions options;
  options.overrides = overrides;
  options.overrides.insert(options.overrides.end(),
                           {"sampler.chain=greedy", "run.stop_ids=", "run.threads=1"});
  NG_ASSIGN_OR_RETURN(const auto engine, Engine::Open(options));
  const int64_t vocab_size = engine->model_shape().vocab_size;
  GenerateRequest request{{}, n_new, {}};
  for (int64_t i = 0; i < n_prompt; ++i) {
    request.prompt_ids.push_back(static_cast<int32_t>((i * 37 + 11) % vocab_size));
  }
  const std::vector<GenerateRequest> requests = {request};
  NG_RETURN_IF_ERROR(engine->Load(Needs(requests)));
  GenerateOptions keep;
  keep.capture_logits = keep.capture_decode_logits = keep.capture_attn_full = true;
  const std::span<const int> attend = engine->attention_layers();
  keep.trace_layers.assign(attend.begin(), attend.end());
  NG_ASSIGN_OR_RETURN(const auto done, engine->Generate(requests, keep));
  std::vector<uint32_t> bits;
  const auto add = [&](const std::vector<float>& values) {
    for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  };
  add(done[0].captured.logits);
  add(done[0].captured.decode_logits);
  for (const AttentionRow& row : done[0].captured.attn_full) add(row.probs);
  return bits;
}

// The run on every level against the first level of the same arithmetic.
void ExpectOneResultPerArithmetic(const Overrides& overrides, int64_t n_prompt, int64_t n_new) {
  std::map<std::string, std::pair<IsaLevel, std::vector<uint32_t>>> first;
  for (const IsaLevel level : SupportedIsaLevels()) {
    Overrides with = overrides;
    with.push_back(absl::StrCat("run.isa=", std::string(IsaName(level))));
    const auto bits = BitsOfRun(with, n_prompt, n_new);
    ASSERT_TRUE(bits.ok()) << bits.status();
    ASSERT_FALSE(bits->empty());
    const auto& [known, found] =
        *first.try_emplace(ArithmeticOf(level).ToString(), level, *bits).first;
    EXPECT_TRUE(*bits == found.second) << IsaName(level) << " is not " << IsaName(found.first);
  }
}

// What each family is made of: mixtures, sinks, convolutions, delta rules, states, latent keys; and
// the blocks of GGUF files.
TEST(OneArithmetic, EveryGoldenGivesTheSameBitsOnEveryLevel) {
  const std::vector<std::string> goldens = test::Goldens();
  ASSERT_GT(goldens.size(), 60U);
  for (const std::string& path : goldens) {
    SCOPED_TRACE(path);
    // Some have no more than 16 positions.
    ExpectOneResultPerArithmetic({"model.path=" + path}, 11, 3);
  }
}

TEST(OneArithmetic, EveryWeightTypeCodecAndBackendGivesTheSameBitsOnEveryLevel) {
  const test::TempDir dir;
  test::TinyNiels model;
  model.max_positions = 300;  // two splits of the keys
  model.WriteTo(dir.path());
  const char* const kTypes[] = {"f32", "bf16", "f16", "int8", "int4"};
  for (const std::string attention : {"flash", "reference"}) {
    for (const std::string weights : kTypes) {
      for (const std::string codec : kTypes) {
        // A long prompt once for each codec: tiles of many rows, and every kind of tail.
        const bool is_long = attention == "flash" && weights == "f32";
        SCOPED_TRACE(absl::StrCat(attention, ", weights ", weights, ", cache ", codec));
        ExpectOneResultPerArithmetic({"model.path=" + dir.path(), "attention.name=" + attention,
                                      "model.weights=" + weights, "cache.codec=" + codec},
                                     is_long ? 275 : 21, 3);
      }
    }
  }
}

TEST(OneArithmetic, TheDemoGivesTheSameBitsOnEveryLevel) {
  for (const std::string weights : {"auto", "bf16", "f16", "int8", "int4"}) {
    SCOPED_TRACE(weights);
    ExpectOneResultPerArithmetic(
        {"model.path=" NG_SOURCE_DIR "/configs/demo", "model.weights=" + weights}, 17, 3);
  }
}

}  // namespace
}  // namespace ng
