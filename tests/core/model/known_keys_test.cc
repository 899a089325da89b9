// Every key that transformers and llama.cpp know, set on every family that ng reads: where it moves
// what they compute, it moves the ModelSpec or is refused; where not, it changes nothing.
// The tables in tests/data/keys/ say which; tests/data/keys/README.md where they are from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/formats/gguf.h"
#include "core/formats/json.h"
#include "core/formats/merged_source.h"
#include "core/model/families/families.h"
#include "core/model/gguf/gguf_families.h"
#include "core/model/keys/inert_keys.h"
#include "core/model/rows/rope.h"
#include "core/model/spec/spec_text.h"

namespace ng {
namespace {

using Json = nlohmann::json;

std::vector<std::string> Lines(const char* name) {
  std::ifstream file(absl::StrCat(NG_TEST_DATA "/keys/", name));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with('#')) lines.push_back(line);
  }
  EXPECT_FALSE(lines.empty()) << name;
  return lines;
}

// All of a spec that shows in the logits of a short prompt: no table of RoPE that no layer has, not
// how many positions one may turn through, nor a window that is longer than the prompt.
std::string LogitsOf(const ModelSpec& spec) {
  constexpr int64_t kPrompt = 12;
  ModelSpec seen = spec;
  seen.ropes.clear();
  seen.attentions.clear();
  std::string text;
  std::vector<RopeSpec> used;
  for (LayerSpec& blocks : seen.layers) {
    for (BlockSpec& block : blocks) {
      if (block.operation != Operation::kAttention) continue;
      SelfAttentionSpec attention = spec.AttentionOf(block);
      if (attention.window >= kPrompt) attention.window = 0;
      if (attention.rope >= 0) {
        attention.rope = ModelSpec::IndexIn(&used, spec.ropes[static_cast<size_t>(attention.rope)]);
      }
      block.part = ModelSpec::IndexIn(&seen.attentions, attention);
    }
  }
  for (const RopeSpec& rope : used) {
    absl::StrAppend(&text, absl::StrJoin(RopeFrequencies(rope), " "), " times ",
                    rope.scaling.magnitude,
                    rope.pairing == RopePairing::kInterleaved ? " of neighbours\n" : "\n");
  }
  return absl::StrCat(text, spec.shape.vocab_size, " ", spec.width, " ",
                      spec.embedding.positions ? spec.shape.max_positions : 0, "\n",
                      absl::StrJoin(SpecLines(seen), "\n"));
}

absl::StatusOr<std::string> LogitsOf(const Json& config) {
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(config, "config.json"));
  NG_ASSIGN_OR_RETURN(const Family* family, FindFamily(fields, "config.json"));
  NG_ASSIGN_OR_RETURN(const ModelSpec spec, family->read_spec(fields, "config.json"));
  return LogitsOf(spec);
}

Json WithKey(Json config, const std::string& key, const Json& value) {
  const size_t dot = key.find('.');
  if (dot == key.npos || key.starts_with("transformers.")) {
    config[key] = value;
  } else {
    Json& outer = config[key.substr(0, dot)];
    outer = WithKey(outer.is_object() ? outer : Json::object(), key.substr(dot + 1), value);
  }
  return config;
}

// What ng does on purpose though the reference does not move.
bool IsStricter(const std::string& key, const std::string& value) {
  // A method that transformers does not know, or that is given no number of bits, quantises
  // nothing there. The file says that it does.
  return key == "quantization_config" && value.starts_with("{\"quant_method\"");
}

// What a key made of a model, beside what its reference says of the key: 'm', it moves; else it
// does not.
void ExpectAsTheReference(char letter, const std::string& key, const std::string& still,
                          const absl::StatusOr<std::string>& moved) {
  if (letter == 'm') {
    EXPECT_TRUE(!moved.ok() || *moved != still);
    return;
  }
  ASSERT_TRUE(moved.ok()) << moved.status();
  // Whether a head is tied is for the tensors to say where there is one.
  if (key != "tie_word_embeddings") {
    EXPECT_EQ(*moved, still);
  }
}

// Calls attempt(letter, base, key, value) for each row of a table, which has a letter for each
// base. Counts the letters.
template <class Attempt>
void ForEachCase(const char* bases_name, const char* cases, Attempt&& attempt,
                 std::map<char, int>* count) {
  std::ifstream bases_file(absl::StrCat(NG_TEST_DATA "/keys/", bases_name));
  // In the order of the file, which is that of the letters.
  const auto bases = nlohmann::ordered_json::parse(bases_file);
  for (const std::string& line : Lines(cases)) {
    const std::vector<std::string> row = absl::StrSplit(line, '\t');
    ASSERT_EQ(row.size(), 3U) << line;
    size_t place = 0;
    for (const auto& [name, base] : bases.items()) {
      const char letter = row[2].at(place++);
      ++(*count)[letter];
      SCOPED_TRACE(absl::StrCat(name, ": ", row[0], " = ", row[1]));
      ASSERT_NO_FATAL_FAILURE(attempt(letter, base, row[0], row[1]));
    }
  }
}

TEST(KnownKeys, OfConfigsMoveWhatTheyMoveInTransformersOrAreRefused) {
  std::map<char, int> count;
  const auto attempt = [](char letter, const auto& base, const std::string& key,
                          const std::string& value) {
    if (letter == 'f' || letter == '-') return;
    if (letter != 'm' && IsStricter(key, value)) return;
    const Json config(base);
    ExpectAsTheReference(letter, key, LogitsOf(config).value(),
                         LogitsOf(WithKey(config, key, Json::parse(value))));
  };
  ASSERT_NO_FATAL_FAILURE(ForEachCase("config_bases.json", "config_cases.tsv", attempt, &count));
  EXPECT_GT(count['s'], 9000);
  EXPECT_GT(count['m'], 300);
}

// The same with one row for each family, key and value.
TEST(KnownKeys, OfFurtherFamiliesMoveWhatTheyMoveInTransformersOrAreRefused) {
  std::map<std::string, Json> bases;
  for (const std::string& line : Lines("family_bases.jsonl")) {
    const Json named = Json::parse(line);
    bases[named.begin().key()] = named.begin().value();
  }
  int n_moved = 0;
  for (const std::string& line : Lines("family_cases.tsv")) {
    const std::vector<std::string> row = absl::StrSplit(line, '\t');
    ASSERT_EQ(row.size(), 4U) << line;
    if (row[3] != "m" && row[3] != "s") continue;
    n_moved += row[3] == "m" ? 1 : 0;
    const Json& config = bases.at(row[0]);
    SCOPED_TRACE(line);
    ASSERT_NO_FATAL_FAILURE(
        ExpectAsTheReference(row[3].front(), row[1], LogitsOf(config).value(),
                             LogitsOf(WithKey(config, row[1], Json::parse(row[2])))));
  }
  EXPECT_GT(n_moved, 300);
}

TEST(KnownKeys, OfConfigsMayBeAbsentAndAreThenThoseOfTheClass) {
  for (const char* type : {"llama",
                           "mistral",
                           "ministral",
                           "qwen2",
                           "qwen3",
                           "seed_oss",
                           "internlm3",
                           "helium",
                           "ernie4_5",
                           "olmo",
                           "starcoder2",
                           "gpt2",
                           "arcee",
                           "hunyuan_v1_dense",
                           "smollm3",
                           "granite",
                           "hyperclovax",
                           "olmo2",
                           "olmo3",
                           "exaone4",
                           "glm",
                           "glm4",
                           "gemma",
                           "gemma2",
                           "gemma3_text",
                           "vaultgemma",
                           "phi3",
                           "cohere",
                           "cohere2",
                           "stablelm",
                           "nemotron",
                           "jais2",
                           "phi",
                           "persimmon",
                           "gpt_neox",
                           "gpt_bigcode",
                           "bloom",
                           "codegen",
                           "gptj",
                           "opt",
                           "biogpt",
                           "openai-gpt",
                           "mixtral",
                           "qwen2_moe",
                           "qwen3_moe",
                           "olmoe",
                           "flex_olmo",
                           "granitemoe",
                           "granitemoeshared",
                           "solar_open",
                           "exaone_moe",
                           "ernie4_5_moe",
                           "hunyuan_v1_moe",
                           "minimax_m2",
                           "hy_v3",
                           "gpt_neo",
                           "xglm",
                           "mpt",
                           "falcon",
                           "nanochat",
                           "bitnet",
                           "afmoe",
                           "llama4_text",
                           "youtu",
                           "deepseek_v3",
                           "glm4_moe_lite",
                           "lfm2",
                           "qwen3_5_text",
                           "qwen3_5_moe_text",
                           "qwen3_next"}) {
    const auto bare = LogitsOf(Json{{"model_type", type}});
    EXPECT_TRUE(bare.ok()) << bare.status();
  }
  const Json mistral = {{"model_type", "mistral"}};
  const JsonFields none = JsonFields::Of(mistral, "config.json").value();
  const auto spec = FindFamily(none, "config.json").value()->read_spec(none, "config.json");
  EXPECT_EQ(spec->window(), 4096);
  EXPECT_EQ(spec->shape.n_kv_heads, 8);
}

TEST(KnownKeys, OfPublishedConfigsAreReadOrInert) {
  for (const std::string& line : Lines("published_configs.jsonl")) {
    const Json row = Json::parse(line);
    SCOPED_TRACE(row["name"].get<std::string>());
    const JsonFields config = JsonFields::Of(row["config"], "config.json").value();
    const Family* family = FindFamily(config, "config.json").value();
    const auto spec = family->read_spec(config, "config.json");
    ASSERT_TRUE(spec.ok()) << spec.status();
    std::vector<std::string> unread = WithoutInertKeys(config.Unread(), family->model_type);
    std::erase(unread, "eos_token_id");  // of whoever opens the folder
    EXPECT_EQ(unread, row["unread"].get<std::vector<std::string>>());
  }
}

// A value as make_gguf_cases.py writes it.
void Set(const std::string& key, const Json& value, GgufMetadata* metadata) {
  metadata->Remove(key);
  if (!value.is_array()) {
    EXPECT_TRUE(metadata->Add(key, value)) << key;
    return;
  }
  GgufMetadata::Array array{GgufType::kI32, static_cast<int64_t>(value.size()), {}};
  for (const Json& item : value) {
    if (item.is_boolean()) {
      array.type = GgufType::kBool;
      array.bytes += item.get<bool>() ? '\1' : '\0';
      continue;
    }
    if (item.is_number_float()) array.type = GgufType::kF32;
    const auto bits = item.is_number_float() ? std::bit_cast<uint32_t>(item.get<float>())
                                             : static_cast<uint32_t>(item.get<int32_t>());
    for (int i = 0; i < 4; ++i) array.bytes += static_cast<char>(bits >> (8 * i) & 0xFF);
  }
  EXPECT_TRUE(metadata->Add(key, array)) << key;
}

GgufMetadata GgufOf(const nlohmann::ordered_json& keys) {
  GgufMetadata metadata("model.gguf");
  for (const auto& [key, value] : keys.items()) Set(key, Json(value), &metadata);
  return metadata;
}

GgufMetadata TinyGguf(const std::string& architecture) {
  const std::ifstream file(NG_TEST_DATA "/keys/gguf_bases.json");
  std::stringstream text;
  text << file.rdbuf();
  return GgufOf(nlohmann::ordered_json::parse(text.str()).at(architecture));
}

absl::StatusOr<std::string> LogitsOf(const GgufMetadata& metadata) {
  const MergedSource no_tensors("model.gguf");
  NG_ASSIGN_OR_RETURN(const auto model, ReadGgufModel(metadata, no_tensors));
  return LogitsOf(model->spec);
}

TEST(KnownKeys, OfGgufFilesMoveWhatTheyMoveInLlamaCppOrAreRefused) {
  std::map<char, int> count;
  const auto attempt = [](char letter, const auto& base, const std::string& key,
                          const std::string& value) {
    if (letter != 's' && letter != 'm') return;
    const auto architecture = base["general.architecture"].template get<std::string>();
    // Which layers have experts, the tensors say.
    if (base.contains(architecture + ".expert_count")) return;
    GgufMetadata metadata = GgufOf(base);
    const std::string still = LogitsOf(metadata).value();
    Set(absl::StrReplaceAll(key, {{"%s", architecture}}), Json::parse(value), &metadata);
    ExpectAsTheReference(letter, key, still, LogitsOf(metadata));
  };
  ASSERT_NO_FATAL_FAILURE(ForEachCase("gguf_bases.json", "gguf_cases.tsv", attempt, &count));
  EXPECT_GT(count['s'], 4000);
  EXPECT_GT(count['m'], 80);
}

// Of Llama 4 no key says the chunks, and which of its two models has norms of q and k.
TEST(KnownKeys, OfLlama4MustBeWhatItsModelsAre) {
  const nlohmann::ordered_json keys = {{"general.architecture", "llama4"},
                                       {"llama4.vocab_size", 64},
                                       {"llama4.context_length", 64},
                                       {"llama4.embedding_length", 16},
                                       {"llama4.feed_forward_length", 24},
                                       {"llama4.expert_feed_forward_length", 20},
                                       {"llama4.expert_count", 4},
                                       {"llama4.expert_used_count", 1},
                                       {"llama4.interleave_moe_layer_step", 8},
                                       {"llama4.block_count", 4},
                                       {"llama4.attention.head_count", 2},
                                       {"llama4.attention.layer_norm_rms_epsilon", 1e-5}};
  const MergedSource no_tensors("model.gguf");
  const auto read = [&](const std::string& key, const Json& value) {
    GgufMetadata metadata = GgufOf(keys);
    if (!key.empty()) Set("llama4." + key, value, &metadata);
    return ReadGgufModel(metadata, no_tensors);
  };
  const auto normed = read("", {});
  ASSERT_TRUE(normed.ok()) << normed.status();
  const ModelSpec& spec = (*normed)->spec;
  EXPECT_EQ(spec.AttentionOf(spec.layers[0][0]).window, 8192);
  EXPECT_TRUE(spec.AttentionOf(spec.layers[0][0]).qk_norm.is_there());
  EXPECT_EQ(spec.AttentionOf(spec.layers[3][0]).rope, -1);
  const auto larger = read("expert_count", 128);
  ASSERT_TRUE(larger.ok()) << larger.status();
  EXPECT_FALSE((*larger)->spec.attentions[0].qk_norm.is_there());
  EXPECT_TRUE(read("attention.sliding_window", 8192).ok());
  for (const auto& [key, value, error] :
       {std::tuple("interleave_moe_layer_step", 2, " = 2, by its tensors layer 1 is dense"),
        {"interleave_moe_layer_step", 0, " = 0, must be an integer in [1, 65536]"},
        {"attention.sliding_window", 4096, " = 4096, must be an integer in [8192, 8192]"}}) {
    const absl::Status status = read(key, value).status();
    EXPECT_EQ(ExitCode(status), 3);
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr(absl::StrCat("llama4.", key, "\"", error)));
  }
}

TEST(KnownKeys, OfGgufFilesMayBeArraysOfOneValuePerLayer) {
  const auto with = [](int64_t count, std::string bytes) {
    GgufMetadata metadata = TinyGguf("llama");
    metadata.Remove("llama.feed_forward_length");
    metadata.Add("llama.feed_forward_length",
                 GgufMetadata::Array{GgufType::kU8, count, std::move(bytes)});
    return LogitsOf(metadata);
  };
  EXPECT_EQ(with(2, {24, 24}).value(), LogitsOf(TinyGguf("llama")).value());
  EXPECT_EQ(with(2, {24, 25}).status().message(),
            "model.gguf: key \"llama.feed_forward_length\" differs from layer to layer, can run "
            "only with one value for all");
  EXPECT_EQ(
      with(3, {24, 24, 24}).status().message(),
      "model.gguf: key \"llama.feed_forward_length.count\" = 3, must be an integer in [2, 2]");
}

TEST(KnownKeys, OfGgufFilesThatAreNoWholeModelAreRefused) {
  const auto error = [](const char* key, const Json& value) {
    GgufMetadata metadata = TinyGguf("llama");
    metadata.Add(key, value);
    return std::string(LogitsOf(metadata).status().message());
  };
  EXPECT_EQ(error("general.type", "adapter"),
            "model.gguf: key \"general.type\" = \"adapter\", can run only with \"model\"");
  EXPECT_EQ(error("general.type", "model"), "");
}

}  // namespace
}  // namespace ng
