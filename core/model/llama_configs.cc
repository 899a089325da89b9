#include "core/model/llama_configs.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/limits.h"
#include "core/model/rope.h"

namespace ng {
namespace {

using Windows = std::vector<int64_t>;  // of each layer; 0: none

absl::Status ReadHeads(const JsonFields& config, const std::string& path, const LlamaRow& row,
                       ModelSpec* spec) {
  constexpr const char* kKvHeads = "num_key_value_heads";
  NG_ASSIGN_OR_RETURN(const int64_t n_heads,
                      IntOr(config, "num_attention_heads", kCount, row.n_heads));
  // Null is as many as heads in every family, and shared out in those that share it out.
  int64_t n_kv_heads = n_heads;
  if (!config.IsNull(kKvHeads)) {
    const int64_t absent = row.n_kv_heads == 0 ? n_heads : row.n_kv_heads;
    NG_ASSIGN_OR_RETURN(n_kv_heads, IntOr(config, kKvHeads, kCount, absent));
  }
  int64_t head_dim = 0;
  const bool may_be_null = row.head_dim == 0 || row.null_head_dim;
  if (!may_be_null || !config.IsNull("head_dim")) {
    NG_ASSIGN_OR_RETURN(head_dim, IntOr(config, "head_dim", kCount, row.head_dim));
  }
  if (head_dim == 0 && spec->width % n_heads != 0) {
    return ModelFileError(absl::StrCat(path, ": hidden_size = ", spec->width,
                                       " must be a multiple of num_attention_heads = ", n_heads,
                                       " where head_dim is not set"));
  }
  if (head_dim == 0) head_dim = spec->width / n_heads;
  if (head_dim % 2 != 0) {
    return ModelFileError(absl::StrCat(path, ": head_dim = ", head_dim, " must be even for RoPE"));
  }
  if (n_heads % n_kv_heads != 0) {
    return ModelFileError(
        absl::StrCat(path, ": num_attention_heads = ", n_heads,
                     " must be a multiple of num_key_value_heads = ", n_kv_heads));
  }
  spec->shape.n_heads = static_cast<int>(n_heads);
  spec->shape.n_kv_heads = static_cast<int>(n_kv_heads);
  spec->shape.head_dim = static_cast<int>(head_dim);
  return absl::OkStatus();
}

absl::StatusOr<bool> ReadBias(const JsonFields& config, const BiasKey& bias) {
  if (std::string_view(bias.key).empty()) return bias.absent;
  bool absent = bias.absent;
  if (!std::string_view(bias.older_key).empty()) {
    NG_ASSIGN_OR_RETURN(absent, BoolOr(config, bias.older_key, absent));
  }
  return BoolOr(config, bias.key, absent);
}

absl::Status CheckAgreement(const std::string& path, const LlamaRow& row, bool attention,
                            bool mlp) {
  if (!row.biases_agree || attention == mlp) return absl::OkStatus();
  return ModelFileError(absl::StrCat(path, ": keys \"", row.qkv_bias.key, "\" and \"",
                                     row.mlp_bias.key, "\" differ, must be equal"));
}

// Which layers attend to everything, the others to a window only, where the config lists what each
// one does. Errors: one does anything else, or so where the config uses no window.
absl::StatusOr<std::optional<std::vector<bool>>> ReadLayerTypes(const JsonFields& config,
                                                                const std::string& path,
                                                                std::string_view no_window,
                                                                const ModelSpec& spec) {
  constexpr const char* kKey = "layer_types";
  NG_ASSIGN_OR_RETURN(const auto types, config.OptionalTexts(kKey));
  if (!types) return std::nullopt;
  if (std::ssize(*types) != spec.shape.n_layers) {
    return ModelFileError(absl::StrCat(path, ": key \"", kKey, "\" lists ", types->size(),
                                       " layers, num_hidden_layers is ", spec.shape.n_layers));
  }
  std::vector<bool> full;
  for (size_t i = 0; i < types->size(); ++i) {
    const std::string& type = (*types)[i];
    const bool has_window = no_window.empty() && type == "sliding_attention";
    full.push_back(!has_window);
    // "attention" is its older name.
    if (has_window || type == "full_attention" || type == "attention") continue;
    const std::string allowed = no_window.empty() ? " or \"sliding_attention\""
                                                  : absl::StrCat(" where ", std::string(no_window));
    return ModelFileError(absl::StrCat(path, ": key \"", kKey, "[", i, "]\" = ", JsonExcerpt(type),
                                       ", must be \"full_attention\"", allowed));
  }
  return full;
}

// The window of each layer: of those that are not `full`.
Windows WindowsOf(int64_t window, const std::vector<bool>& full) {
  Windows windows;
  for (const bool sees_all : full) windows.push_back(sees_all ? 0 : window);
  return windows;
}

absl::StatusOr<Windows> ReadQwenWindows(const JsonFields& config, const std::string& path,
                                        const LlamaRow& row, const ModelSpec& spec) {
  const Windows none(static_cast<size_t>(spec.shape.n_layers), 0);
  NG_ASSIGN_OR_RETURN(const std::optional<bool> said, config.OptionalBool("use_sliding_window"));
  const bool used = said.value_or(false);
  NG_ASSIGN_OR_RETURN(
      std::optional<std::vector<bool>> full,
      ReadLayerTypes(config, path, used ? "" : "use_sliding_window is not true", spec));
  if (!used) return none;
  if (!full) {
    NG_ASSIGN_OR_RETURN(const int64_t n_full,
                        IntOr(config, "max_window_layers", {0, kPositions.max}, 28));
    full.emplace(static_cast<size_t>(spec.shape.n_layers), false);
    std::fill_n(full->begin(), std::min<int64_t>(n_full, spec.shape.n_layers), true);
  }
  if (std::ranges::count(*full, false) == 0 || config.IsNull("sliding_window")) return none;
  NG_ASSIGN_OR_RETURN(const int64_t window,
                      IntOr(config, "sliding_window", kPositions, row.window));
  return WindowsOf(window, *full);
}

absl::StatusOr<Windows> ReadTypedWindows(const JsonFields& config, const std::string& path,
                                         const LlamaRow& row, const ModelSpec& spec) {
  int64_t window = 0;
  if (!config.IsNull("sliding_window")) {
    NG_ASSIGN_OR_RETURN(window, IntOr(config, "sliding_window", kPositions, row.window));
  }
  NG_ASSIGN_OR_RETURN(
      std::optional<std::vector<bool>> full,
      ReadLayerTypes(config, path, window > 0 ? "" : "sliding_window is not set", spec));
  if (!full) {
    full.emplace(static_cast<size_t>(spec.shape.n_layers), false);
    for (size_t i = 0; row.full_every > 0 && i < full->size(); i += row.full_every) {
      (*full)[i] = true;
    }
  }
  return WindowsOf(window, *full);
}

// [n_layers]; 0: the layer sees all keys.
absl::StatusOr<Windows> ReadWindows(const JsonFields& config, const std::string& path,
                                    const LlamaRow& row, const ModelSpec& spec) {
  if (row.windows == WindowKeys::kTypes) return ReadTypedWindows(config, path, row, spec);
  if (row.windows == WindowKeys::kQwen) return ReadQwenWindows(config, path, row, spec);
  int64_t window = 0;
  if (row.windows == WindowKeys::kAll && !config.IsNull("sliding_window")) {
    NG_ASSIGN_OR_RETURN(window, IntOr(config, "sliding_window", kPositions, row.window));
  }
  return Windows(static_cast<size_t>(spec.shape.n_layers), window);
}

// Reads the eps, unless the family's norms have one that no key says.
absl::StatusOr<NormSpec> ReadNorm(const JsonFields& config, const LlamaRow& row) {
  NormSpec norm = {.kind = row.norm,
                   .eps = static_cast<float>(row.eps),
                   .weight = row.norm_affine,
                   .bias = row.norm_bias};
  if (std::string_view(row.eps_key).empty()) return norm;
  NG_ASSIGN_OR_RETURN(norm.eps, EpsOr(config, row.eps_key, row.eps));
  return norm;
}

absl::StatusOr<RopeSpec> ReadRopeOf(const JsonFields& config, const std::string& path,
                                    const LlamaRow& row, const ModelShape& shape) {
  if (row.scaled_by_default && !config.Has("rope_parameters") && !config.Has("rope_scaling")) {
    return ModelFileError(path +
                          ": key \"rope_parameters\" is missing, it must say how RoPE is scaled");
  }
  return ReadRope(config, path,
                  {.theta = row.theta,
                   .head_dim = shape.head_dim,
                   .max_positions = shape.max_positions,
                   .pairing = row.pairing});
}

absl::Status RequireAbsent(const JsonFields& config, const std::string& path, const char* key) {
  if (std::string_view(key).empty()) return absl::OkStatus();
  const nlohmann::json* const value = config.Find(key);
  if (value == nullptr || SaysNothing(*value)) return absl::OkStatus();
  return ModelFileError(
      absl::StrCat(path, ": key \"", key, "\" = ", JsonExcerpt(*value), ", can run only without"));
}

}  // namespace

absl::StatusOr<ModelSpec> ReadLlamaLike(const JsonFields& config, const std::string& path,
                                        const LlamaRow& row) {
  NG_RETURN_IF_ERROR(RequirePlain(config, path));
  NG_RETURN_IF_ERROR(RequireAbsent(config, path, row.without));
  ModelSpec spec;
  NG_ASSIGN_OR_RETURN(spec.shape.vocab_size, IntOr(config, "vocab_size", kSize, row.vocab_size));
  NG_ASSIGN_OR_RETURN(spec.shape.max_positions,
                      IntOr(config, "max_position_embeddings", kPositions, row.max_positions));
  NG_ASSIGN_OR_RETURN(spec.width, IntOr(config, "hidden_size", kSize, row.width));
  FeedForwardSpec feed_forward;
  feed_forward.gated = row.gated;
  NG_ASSIGN_OR_RETURN(feed_forward.width, IntOr(config, "intermediate_size", kSize, row.ffn_width));
  NG_ASSIGN_OR_RETURN(const int64_t n_layers,
                      IntOr(config, "num_hidden_layers", kCount, row.n_layers));
  spec.shape.n_layers = static_cast<int>(n_layers);
  NG_RETURN_IF_ERROR(ReadHeads(config, path, row, &spec));
  NG_ASSIGN_OR_RETURN(const NormSpec norm, ReadNorm(config, row));
  NG_ASSIGN_OR_RETURN(const RopeSpec rope, ReadRopeOf(config, path, row, spec.shape));
  SelfAttentionSpec attention = AttentionOfShape(spec.shape);
  attention.rope = spec.IndexIn(&spec.ropes, rope);
  if (row.qk_norm) attention.qk_norm = norm;
  NG_ASSIGN_OR_RETURN(feed_forward.activation,
                      ReadActivation(config, path, "hidden_act", row.activations));
  spec.head.norm = norm;
  NG_ASSIGN_OR_RETURN(spec.head.tied, BoolOr(config, "tie_word_embeddings", row.tied_head));
  NG_ASSIGN_OR_RETURN(attention.qkv_bias, ReadBias(config, row.qkv_bias));
  NG_ASSIGN_OR_RETURN(attention.out_bias, ReadBias(config, row.attn_out_bias));
  NG_ASSIGN_OR_RETURN(feed_forward.bias, ReadBias(config, row.mlp_bias));
  NG_RETURN_IF_ERROR(CheckAgreement(path, row, attention.qkv_bias, feed_forward.bias));
  NG_ASSIGN_OR_RETURN(const Windows windows, ReadWindows(config, path, row, spec));
  for (const int64_t window : windows) {
    attention.window = window;
    spec.AddLayer(PreNormLayer(norm), attention, feed_forward);
  }
  return spec;
}

}  // namespace ng
