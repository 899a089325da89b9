// Folders that MLX wrote: the goldens, turned and renamed as mlx-lm does it, give the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/integration/engine/adapted_model.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

using Tensors = std::vector<NamedTensor>;

// A part of the rows of each matrix of a tensor [n, rows, columns].
NamedTensor RowsOf(const NamedTensor& all, std::string name, int64_t first, int64_t step,
                   int64_t n_rows) {
  const int64_t of_rows = all.shape[1];
  const int64_t columns = all.shape.size() > 2 ? all.shape[2] : 1;
  NamedTensor part{std::move(name), all.shape, {}};
  part.shape[1] = n_rows;
  for (int64_t i = 0; i < all.shape[0]; ++i) {
    for (int64_t row = 0; row < n_rows; ++row) {
      const auto at = all.data.begin() + (i * of_rows + first + row * step) * columns;
      part.data.insert(part.data.end(), at, at + columns);
    }
  }
  return part;
}

// [n, rows, columns] -> [n, columns, rows]
NamedTensor Turned(NamedTensor tensor) {
  const NamedTensor from = tensor;
  const int64_t rows = from.shape[1];
  const int64_t columns = from.shape[2];
  std::swap(tensor.shape[1], tensor.shape[2]);
  for (int64_t i = 0; i < from.shape[0] * rows * columns; ++i) {
    const int64_t within = i % (rows * columns);
    const int64_t to = i - within + within % columns * rows + within / columns;
    tensor.data[static_cast<size_t>(to)] = from.data[static_cast<size_t>(i)];
  }
  return tensor;
}

// Experts of a layer that are a tensor each become one, in their order.
Tensors Stacked(const Tensors& tensors, const std::string& part) {
  const std::regex of_expert(R"((.*)\.experts\.\d+(\..*))");
  Tensors stacked;
  std::map<std::string, size_t> at;
  for (const NamedTensor& tensor : tensors) {
    std::smatch match;
    if (!std::regex_match(tensor.name, match, of_expert)) {
      stacked.push_back(tensor);
      continue;
    }
    const std::string name = absl::StrCat(match[1].str(), part, match[2].str());
    const auto [found, is_new] = at.try_emplace(name, stacked.size());
    if (is_new) {
      stacked.push_back({name, tensor.shape, {}});
      stacked.back().shape.insert(stacked.back().shape.begin(), 0);
    }
    NamedTensor& all = stacked[found->second];
    ++all.shape[0];
    all.data.insert(all.data.end(), tensor.data.begin(), tensor.data.end());
  }
  return stacked;
}

// How a family's file holds all experts of a layer together.
struct Together {
  bool transposed = false;  // [n_experts, inputs, outputs]
  bool in_turn = false;     // a row of gate, a row of up
};

// gate_up_proj and down_proj of all experts become three tensors, in `part` of the layer.
Tensors Apart(const Tensors& tensors, Together are, const std::string& part) {
  Tensors made;
  for (NamedTensor tensor : tensors) {
    if (!absl::StrContains(tensor.name, ".experts.")) {
      made.push_back(tensor);
      continue;
    }
    const bool is_bias = absl::EndsWith(tensor.name, "_bias");
    if (are.transposed && !is_bias) tensor = Turned(tensor);
    tensor.name = absl::StrReplaceAll(tensor.name, {{".experts.", part}, {"_bias", ".bias"}});
    if (!is_bias) tensor.name += ".weight";
    if (!absl::StrContains(tensor.name, "gate_up_proj")) {
      made.push_back(tensor);
      continue;
    }
    const int64_t n = tensor.shape[1] / 2;
    for (const auto& [to, first] : {std::pair("gate_proj", 0), std::pair("up_proj", 1)}) {
      const std::string name = absl::StrReplaceAll(tensor.name, {{"gate_up_proj", to}});
      made.push_back(RowsOf(tensor, name, are.in_turn ? first : first * n, are.in_turn ? 2 : 1, n));
    }
  }
  return made;
}

Tensors Without(const Tensors& tensors, const std::string& part) {
  Tensors rest;
  std::ranges::copy_if(tensors, std::back_inserter(rest), [&](const NamedTensor& tensor) {
    return !absl::StrContains(tensor.name, part);
  });
  return rest;
}

void TurnConvolutions(Tensors& tensors) {
  for (NamedTensor& tensor : tensors) {
    if (tensor.shape.size() == 3 && absl::StrContains(tensor.name, "conv")) {
      std::swap(tensor.shape[1], tensor.shape[2]);
    }
  }
}

void AddOneToNorms(Tensors& tensors) {
  for (NamedTensor& tensor : tensors) {
    for (const char* ending : {".input_layernorm.weight", ".post_attention_layernorm.weight",
                               "model.norm.weight", ".q_norm.weight", ".k_norm.weight"}) {
      if (!absl::EndsWith(tensor.name, ending)) continue;
      for (float& value : tensor.data) value += 1.0F;
    }
  }
}

// kv_b_proj [n_heads * (n_k + n_v), rank] becomes a turned part for keys and one for values.
Tensors WithLatentsApart(const Tensors& tensors, int64_t n_heads, int64_t n_k) {
  Tensors made;
  for (NamedTensor tensor : tensors) {
    if (!absl::EndsWith(tensor.name, "kv_b_proj.weight")) {
      made.push_back(tensor);
      continue;
    }
    tensor.shape = {n_heads, tensor.shape[0] / n_heads, tensor.shape[1]};
    const auto name = [&](const char* to) {
      return absl::StrReplaceAll(tensor.name, {{"kv_b_proj", to}});
    };
    made.push_back(Turned(RowsOf(tensor, name("embed_q"), 0, 1, n_k)));
    made.push_back(RowsOf(tensor, name("unembed_out"), n_k, 1, tensor.shape[1] - n_k));
  }
  return made;
}

Tensors Renamed(Tensors tensors, const std::vector<std::pair<std::string, std::string>>& names) {
  for (NamedTensor& tensor : tensors) tensor.name = absl::StrReplaceAll(tensor.name, names);
  return tensors;
}

// A golden as mlx-lm converts it.
Tensors AsMlx(const std::string& family, const std::string& folder) {
  Tensors tensors = TensorsOf(folder);
  TurnConvolutions(tensors);
  if (family == "gpt_oss") return Apart(tensors, {true, true}, ".experts.");
  if (family == "qwen3_moe") return Apart(tensors, {}, ".switch_mlp.");
  if (family == "granitemoeshared" || family == "granite_hybrid") {
    tensors = Renamed(tensors, {{"moe.input_linear.weight", "moe.experts.gate_up_proj"},
                                {"moe.output_linear.weight", "moe.experts.down_proj"}});
    return Apart(tensors, {}, ".switch_mlp.");
  }
  tensors = Stacked(tensors, family == "afmoe" ? ".experts" : ".switch_mlp");
  if (family == "qwen3_next" || family == "qwen3_5") AddOneToNorms(tensors);
  if (family == "nemotron_h") {
    return Renamed(tensors, {{"switch_mlp.up_proj", "switch_mlp.fc1"},
                             {"switch_mlp.down_proj", "switch_mlp.fc2"}});
  }
  if (family == "lfm2") {
    return Renamed(tensors, {{"feed_forward.w1", "feed_forward.gate_proj"},
                             {"feed_forward.w3", "feed_forward.up_proj"},
                             {"feed_forward.w2", "feed_forward.down_proj"}});
  }
  if (family == "deepseek_v3") {
    const auto file = OpenModel(folder);
    const SelfAttentionSpec& attention = file->spec.attentions.front();
    return WithLatentsApart(tensors, attention.n_heads, attention.nope_dim());
  }
  return tensors;
}

std::string Golden(const std::string& family) {
  return absl::StrCat(NG_TEST_DATA "/golden/", family, "/tiny");
}

class MlxFolder : public ::testing::TestWithParam<std::string> {};

TEST_P(MlxFolder, GivesTheBitsOfTheModelItWasMadeFrom) {
  const TempDir dir;
  const std::string golden = Golden(GetParam());
  WriteModel(golden, AsMlx(GetParam(), golden), dir.File("mlx"));
  EXPECT_THAT(AdaptedLogits(dir.File("mlx"), ""), ElementsAreArray(AdaptedLogits(golden, "")));
}

INSTANTIATE_TEST_SUITE_P(All, MlxFolder,
                         ::testing::Values("qwen2_moe", "qwen3_moe", "glm4_moe", "deepseek_v3",
                                           "gpt_oss", "afmoe", "granitemoeshared", "granite_hybrid",
                                           "nemotron_h", "lfm2", "qwen3_next", "qwen3_5"),
                         [](const auto& param) { return param.param; });

absl::Status OpenWithout(const std::string& family, const std::string& part) {
  const TempDir dir;
  WriteModel(Golden(family), Without(AsMlx(family, Golden(family)), part), dir.File("mlx"));
  return OpenAdapted(dir.File("mlx"), "").status();
}

TEST(MlxFolders, NameWhatALayerLacks) {
  const absl::Status gate = OpenWithout("qwen3_moe", "layers.1.mlp.switch_mlp.gate_proj");
  EXPECT_THAT(std::string(gate.message()), HasSubstr("model.layers.1.mlp.switch_mlp.gate_proj"));
  const absl::Status bias = OpenWithout("gpt_oss", "layers.0.mlp.experts.up_proj.bias");
  EXPECT_THAT(std::string(bias.message()),
              HasSubstr("missing 1 tensor: model.layers.0.mlp.experts.up_proj.bias"));
}

TEST(MlxFolders, SayWhichShapeIsNotTheirs) {
  const TempDir dir;
  Tensors tensors = AsMlx("qwen3_moe", Golden("qwen3_moe"));
  for (NamedTensor& tensor : tensors) {
    if (absl::EndsWith(tensor.name, "layers.0.mlp.switch_mlp.up_proj.weight")) {
      std::swap(tensor.shape[1], tensor.shape[2]);
    }
  }
  WriteModel(Golden("qwen3_moe"), tensors, dir.File("mlx"));
  EXPECT_THAT(std::string(OpenAdapted(dir.File("mlx"), "").status().message()),
              HasSubstr("switch_mlp.up_proj.weight\" has shape [4, 16, 12], must be [4, 12, 16]"));
}

}  // namespace
}  // namespace ng::test
