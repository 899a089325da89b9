// The goldens: ids, logits and attention rows of each family's original implementation, reproduced
// by every way of running them; and, among those ways, the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/formats/safetensors.h"
#include "ng/engine.h"

namespace ng {
namespace {

using Tensors = std::map<std::string, std::vector<float>>;

// NOLINTNEXTLINE(bugprone-exception-escape): of the JSON library, whose moves do not throw
struct Golden {
  std::string dir;
  nlohmann::json info;
  Tensors expected;
};

Golden ReadGolden(const std::string& name) {
  Golden golden;
  golden.dir = absl::StrCat(NG_TEST_DATA, "/golden/", name);
  std::ifstream(golden.dir + "/case.json") >> golden.info;
  const auto source = OpenSafetensors(golden.dir + "/expected.safetensors");
  EXPECT_TRUE(source.ok()) << source.status();
  for (const TensorInfo& tensor : (*source)->tensors()) {
    std::vector<std::byte> raw(static_cast<size_t>(tensor.n_bytes));
    EXPECT_TRUE((*source)->Read(tensor, raw).ok());
    std::vector<float>& values = golden.expected[tensor.name];
    values.resize(static_cast<size_t>(tensor.n_elements));
    ConvertToF32(tensor.dtype, raw.data(), values);
  }
  return golden;
}

// One way of running a case.
struct Way {
  std::string attention;
  bool use_cache = true;
  int prefill_chunk = 0;
  int threads = 1;
  std::string codec = "f32";

  std::string Name() const {
    return absl::StrCat(attention, use_cache ? " cached" : " recomputed", " chunk ", prefill_chunk,
                        " threads ", threads);
  }
};

struct Outcome {
  std::vector<std::vector<int32_t>> ids;
  Tensors tensors;
};

void KeepRows(const std::string& name, const std::vector<AttentionRow>& rows, Tensors* out,
              const std::string& suffix = "") {
  for (const AttentionRow& row : rows) {
    std::vector<float>& tensor = (*out)[absl::StrCat(name, ".layer", row.layer, suffix)];
    tensor.insert(tensor.end(), row.probs.begin(), row.probs.end());
  }
}

// [head][query][key] from rows ordered by (pos, layer, head).
void KeepFull(int index, int n_heads, const std::vector<AttentionRow>& rows, Tensors* out) {
  if (rows.empty()) return;
  const size_t n = rows.back().probs.size();
  for (const AttentionRow& row : rows) {
    std::vector<float>& tensor = (*out)[absl::StrCat("attn_full.", index, ".layer", row.layer)];
    tensor.resize(static_cast<size_t>(n_heads) * n * n);
    const size_t pos = row.probs.size() - 1;
    std::copy(row.probs.begin(), row.probs.end(),
              tensor.begin() + static_cast<int64_t>((static_cast<size_t>(row.head) * n + pos) * n));
  }
}

std::string StopIds(const Golden& golden) {
  const nlohmann::json& eot = golden.info["eot_token_id"];
  return eot.is_null() ? "" : absl::StrCat(eot.get<int>());
}

// Runs the prompts of a golden, those of `only` if any, in one batch.
absl::StatusOr<Outcome> RunGolden(const Golden& golden, const Way& way,
                                  const std::vector<size_t>& only = {}) {
  EngineOptions options;
  options.overrides = {"model.path=" + golden.dir,
                       "model.weights=f32",
                       "sampler.chain=greedy",
                       "attention.name=" + way.attention,
                       "cache.codec=" + way.codec,
                       absl::StrCat("run.use_cache=", way.use_cache ? "true" : "false"),
                       absl::StrCat("run.prefill_chunk=", way.prefill_chunk),
                       absl::StrCat("run.threads=", way.threads),
                       absl::StrCat("run.stop_ids=", StopIds(golden))};
  NG_ASSIGN_OR_RETURN(const auto engine, Engine::Open(options));
  std::vector<GenerateRequest> requests;
  const nlohmann::json& prompts = golden.info["prompts"];
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (!only.empty() && std::ranges::count(only, i) == 0) continue;
    requests.push_back({prompts[i].get<std::vector<int32_t>>(), golden.info["max_new_tokens"], {}});
  }
  NG_RETURN_IF_ERROR(engine->Load(Needs(requests)));
  Outcome outcome;
  GenerateOptions keep;
  keep.capture_logits = keep.capture_decode_logits = keep.capture_attn_full = true;
  const std::span<const int> attend = engine->attention_layers();
  keep.trace_layers.assign(attend.begin(), attend.end());
  keep.on_step = [&](int index, const StepRecord& record) {
    if (record.step == 0) {
      KeepRows(absl::StrCat("attn_row_prefill.", index), record.attn_rows, &outcome.tensors);
    } else {
      KeepRows(absl::StrCat("attn_row_decode.", index), record.attn_rows, &outcome.tensors,
               absl::StrCat(".step", record.step - 1));
    }
    return absl::OkStatus();
  };
  NG_ASSIGN_OR_RETURN(const auto done, engine->Generate(requests, keep));
  for (size_t i = 0; i < done.size(); ++i) {
    outcome.ids.push_back(done[i].ids);
    outcome.tensors[absl::StrCat("logits.", i)] = done[i].captured.logits;
    outcome.tensors[absl::StrCat("decode_logits.", i)] = done[i].captured.decode_logits;
    KeepFull(static_cast<int>(i), engine->model_shape().n_heads, done[i].captured.attn_full,
             &outcome.tensors);
  }
  return outcome;
}

int64_t DifferingBits(const Tensors& a, const Tensors& b) {
  int64_t bits = 0;
  for (const auto& [name, values] : a) {
    const std::vector<float>& other = b.at(name);
    EXPECT_EQ(values.size(), other.size()) << name;
    for (size_t i = 0; i < std::min(values.size(), other.size()); ++i) {
      bits += std::popcount(std::bit_cast<uint32_t>(values[i]) ^ std::bit_cast<uint32_t>(other[i]));
    }
  }
  return bits;
}

struct Worst {
  double logits = 0.0;
  double attention = 0.0;
};

void CompareWithReference(const Golden& golden, const Outcome& outcome, Worst* worst) {
  EXPECT_EQ(outcome.ids, golden.info["greedy_ids"].get<std::vector<std::vector<int32_t>>>());
  for (const auto& [name, expected] : golden.expected) {
    const auto found = outcome.tensors.find(name);
    ASSERT_NE(found, outcome.tensors.end()) << name;
    ASSERT_EQ(found->second.size(), expected.size()) << name;
    double& most = name.find("attn") == 0 ? worst->attention : worst->logits;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double difference = std::abs(double{found->second[i]} - double{expected[i]});
      ASSERT_FALSE(std::isnan(difference)) << name;
      most = std::max(most, difference);
    }
  }
}

class GoldenCase : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(GoldenCase, EveryWayGivesTheReferenceAndTheSameBits) {
  const auto& [name, attention] = GetParam();
  const Golden golden = ReadGolden(name);
  Worst worst;
  Outcome first;
  int64_t differing_bits = 0;
  int n_ways = 0;
  for (const bool use_cache : {true, false}) {
    for (const int chunk : {0, 1, 3, 7}) {
      for (const int threads : {1, 2}) {
        const Way way{attention, use_cache, chunk, threads};
        SCOPED_TRACE(way.Name());
        const absl::StatusOr<Outcome> outcome = RunGolden(golden, way);
        ASSERT_TRUE(outcome.ok()) << outcome.status();
        CompareWithReference(golden, *outcome, &worst);
        if (n_ways++ == 0) first = *outcome;
        differing_bits += DifferingBits(first.tensors, outcome->tensors);
      }
    }
  }
  const auto& tolerance = golden.info["tolerance"];
  EXPECT_LE(worst.logits, tolerance["logits_max_abs"].get<double>());
  EXPECT_LE(worst.attention, tolerance["attn_max_abs"].get<double>());
  EXPECT_EQ(differing_bits, 0);
  std::printf(
      "%s %s: %d ways, max |logits - reference| %.3g, max |rows - reference| %.3g, "
      "differing bits %lld\n",
      name.c_str(), attention.c_str(), n_ways, worst.logits, worst.attention,
      static_cast<long long>(differing_bits));
}

// The tensors of request 0, called as those of request `index`.
Tensors AsRequest(size_t index, const Tensors& tensors) {
  Tensors renamed;
  for (const auto& [name, values] : tensors) {
    const size_t dot = name.find('.');  // "logits.0", "attn_full.0.layer1"
    renamed[absl::StrCat(name.substr(0, dot + 1), index, name.substr(dot + 2))] = values;
  }
  return renamed;
}

TEST_P(GoldenCase, APromptAloneGivesTheIdsAndTheBitsOfItsBatch) {
  const auto& [name, attention] = GetParam();
  const Golden golden = ReadGolden(name);
  const Way way{attention, /*use_cache=*/true, /*prefill_chunk=*/3, /*threads=*/2};
  const absl::StatusOr<Outcome> batch = RunGolden(golden, way);
  ASSERT_TRUE(batch.ok()) << batch.status();
  for (size_t i = 0; i < batch->ids.size(); ++i) {
    SCOPED_TRACE(i);
    const absl::StatusOr<Outcome> alone = RunGolden(golden, way, {i});
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ(alone->ids[0], batch->ids[i]);
    EXPECT_EQ(DifferingBits(AsRequest(i, alone->tensors), batch->tensors), 0);
  }
}

// The error of the prompts' logits, relative to their size, root mean square.
double RelativeError(const Golden& golden, const Outcome& outcome) {
  double error = 0.0;
  double size = 0.0;
  for (const auto& [name, expected] : golden.expected) {
    if (name.find("logits.") != 0) continue;
    const std::vector<float>& found = outcome.tensors.at(name);
    for (size_t i = 0; i < expected.size(); ++i) {
      error += std::pow(double{found[i]} - double{expected[i]}, 2.0);
      size += std::pow(double{expected[i]}, 2.0);
    }
  }
  return std::sqrt(error / size);
}

// Integers in the cache cost precision, which these bounds state (each about twice what the worst
// golden shows), but no bit of the contract.
TEST_P(GoldenCase, CachesOfIntegersComeNearAndKeepTheirBits) {
  const auto& [name, attention] = GetParam();
  const Golden golden = ReadGolden(name);
  // A row may go to another expert.
  constexpr std::string_view kMixtures[] = {"moe",  "oss",    "llama4",    "deepseek",
                                            "next", "hybrid", "nemotron_h"};
  const bool mixture = std::ranges::any_of(
      kMixtures, [&name = name](auto part) { return name.find(part) != name.npos; });
  // Gemma 4 does not divide its scores by the root of the width, so that a rounded key moves more.
  const bool sharp = name.starts_with("gemma4");
  for (const auto& [codec, tolerance] :
       {std::pair("int8", mixture || sharp ? 0.2 : 0.02), std::pair("int4", sharp ? 0.8 : 0.3)}) {
    SCOPED_TRACE(codec);
    const absl::StatusOr<Outcome> whole = RunGolden(golden, {attention, true, 0, 1, codec});
    ASSERT_TRUE(whole.ok()) << whole.status();
    const double error = RelativeError(golden, *whole);
    EXPECT_LE(error, tolerance);
    std::printf("%s %s %s: error %.3g of the logits\n", name.c_str(), attention.c_str(), codec,
                error);
    for (const Way& way : {Way{attention, true, 3, 2, codec}, Way{attention, false, 0, 1, codec}}) {
      const absl::StatusOr<Outcome> outcome = RunGolden(golden, way);
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      EXPECT_EQ(outcome->ids, whole->ids);
      EXPECT_EQ(DifferingBits(whole->tensors, outcome->tensors), 0) << way.Name();
    }
  }
}

std::string CaseName(const ::testing::TestParamInfo<GoldenCase::ParamType>& info) {
  return absl::StrReplaceAll(std::get<0>(info.param), {{"/", "_"}, {"-", "_"}}) + "_" +
         std::get<1>(info.param);
}

// What attention itself has to do: windows, chunks, caps, slopes, sinks, temperature.
INSTANTIATE_TEST_SUITE_P(
    Features, GoldenCase,
    ::testing::Combine(::testing::Values("gemma2/tiny", "gemma3/tiny", "olmo3/tiny", "bloom/tiny",
                                         "gpt_oss/tiny", "gpt_neo/tiny", "mpt/tiny",
                                         "ministral3/tiny", "llama4/tiny"),
                       ::testing::Values("reference", "flash")),
    CaseName);

// One way of attention is enough where another part of the model is tested.
INSTANTIATE_TEST_SUITE_P(
    Parts, GoldenCase,
    ::testing::Combine(::testing::Values("granite/tiny", "hunyuan/tiny", "smollm3/tiny",
                                         "olmo2/tiny", "phi3/tiny", "cohere/tiny", "nemotron/tiny",
                                         "gpt_neox/tiny", "codegen/tiny", "gpt_bigcode/tiny",
                                         "openai-gpt/tiny", "opt/tiny", "qwen2_moe/tiny",
                                         "qwen3_moe/tiny", "glm4_moe/tiny", "granitemoeshared/tiny",
                                         "gpt_oss/mxfp4", "xglm/tiny", "falcon/grouped",
                                         "nanochat/tiny", "apertus/tiny", "bitnet/tiny",
                                         "afmoe/tiny", "deepseek_v3/tiny", "youtu/tiny",
                                         "lfm2/tiny", "qwen3_5/tiny", "qwen3_next/tiny",
                                         "granite_hybrid/tiny", "nemotron_h/tiny", "gemma4/inputs",
                                         "gemma4/experts"),
                       ::testing::Values("flash")),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    All, GoldenCase,
    ::testing::Combine(::testing::Values("niels/b1", "niels/b3", "niels/edge_tmax", "niels/eot",
                                         "llama/tied_gqa", "llama/untied", "llama/ragged",
                                         "llama/bf16_sharded", "llama/rope_linear",
                                         "llama/rope_llama3", "mistral/tiny", "mistral/window",
                                         "qwen2/tiny", "qwen2/window", "qwen3/tiny", "helium/tiny",
                                         "olmo/tiny", "starcoder2/tiny", "nanogpt/bias",
                                         "nanogpt/nobias", "gpt2/tiny", "gpt2/hub_layout",
                                         "gpt2/ragged", "postln/basic", "postln/max_new_0"),
                       ::testing::Values("reference", "flash")),
    CaseName);

}  // namespace
}  // namespace ng
