// Gemma 4's config.json: layers that see all keys have heads of their own size, the last layers
// read the keys of layers before them, and each layer may get an input of its own.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/families/expert_rows.h"
#include "core/model/families/family_configs.h"
#include "core/model/families/llama_rows.h"
#include "core/model/keys/config_fields.h"
#include "core/model/keys/edit_attentions.h"
#include "core/model/keys/rope_keys.h"
#include "core/model/spec/limits.h"

namespace ng {
namespace {

constexpr const char* kLayerKey = "per_layer_config";

struct LayerHeads {
  int64_t head_dim = 0;
  int64_t n_kv_heads = 0;
};

class Gemma4Reader {
 public:
  Gemma4Reader(const JsonFields& config, const std::string& path, const Gemma4Form& form,
               ModelSpec spec)
      : config_(config), path_(path), form_(form), spec_(std::move(spec)) {}

  absl::StatusOr<ModelSpec> Read() && {
    for (const LayerSpec& blocks : spec_.layers) {
      full_.push_back(spec_.AttentionOf(blocks.front()).window == 0);
    }
    if (form_.last_is_full) full_.back() = true;
    NG_RETURN_IF_ERROR(ReadSizesOfHeads());
    NG_RETURN_IF_ERROR(ReadSharing());
    NG_RETURN_IF_ERROR(ReadRopes());
    NG_RETURN_IF_ERROR(EditLayers());
    NG_RETURN_IF_ERROR(ReadLayerInputs());
    for (LayerSpec& blocks : spec_.layers) blocks.back().stream_factor = form_.stream_factors;
    if (!spec_.mixtures.empty()) SetNormsApart();
    return std::move(spec_);
  }

 private:
  // Of the layers that see all keys by two keys, or of each layer by itself.
  absl::Status ReadSizesOfHeads() {
    const LayerHeads usual = {spec_.shape.head_dim, spec_.shape.n_kv_heads};
    heads_.assign(full_.size(), usual);
    NG_ASSIGN_OR_RETURN(k_is_v_, BoolOr(config_, "attention_k_eq_v", false));
    LayerHeads full = usual;
    NG_ASSIGN_OR_RETURN(full.head_dim, IntOr(config_, "global_head_dim", kCount, 512));
    NG_ASSIGN_OR_RETURN(const auto n_kv_heads,
                        config_.OptionalInt("num_global_key_value_heads", kCount));
    if (k_is_v_) full.n_kv_heads = n_kv_heads.value_or(usual.n_kv_heads);
    const bool by_layer = config_.Has(kLayerKey);
    for (size_t i = 0; i < full_.size(); ++i) {
      if (by_layer) {
        NG_RETURN_IF_ERROR(ReadOwnHeads(i));
      } else if (full_[i]) {
        heads_[i] = full;
      }
      const auto [head_dim, n_kv] = heads_[i];
      if (head_dim % 2 == 0 && spec_.shape.n_heads % n_kv == 0) continue;
      return ModelFileError(absl::StrCat(path_, ": layer ", i, " has ", n_kv, " heads of ",
                                         head_dim, " for keys, must be of an even size, and ",
                                         spec_.shape.n_heads, " a multiple of their number"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadOwnHeads(size_t layer) {
    NG_ASSIGN_OR_RETURN(const auto all, config_.OptionalObject(kLayerKey));
    const std::string name = absl::StrCat(layer);
    if (!all->Has(name)) return absl::OkStatus();
    NG_ASSIGN_OR_RETURN(const auto own, all->OptionalObject(name));
    NG_ASSIGN_OR_RETURN(heads_[layer].head_dim,
                        IntOr(*own, "head_dim", kCount, heads_[layer].head_dim));
    NG_ASSIGN_OR_RETURN(heads_[layer].n_kv_heads,
                        IntOr(*own, "num_key_value_heads", kCount, heads_[layer].n_kv_heads));
    return absl::OkStatus();
  }

  // The last layers read the keys of the last layer before them that sees as many.
  absl::Status ReadSharing() {
    constexpr const char* kKey = "num_kv_shared_layers";
    const auto n_layers = std::ssize(full_);
    NG_ASSIGN_OR_RETURN(const int64_t n_shared, IntOr(config_, kKey, {0, n_layers - 1}, 0));
    const int64_t n_own = n_layers - n_shared;
    keys_of_.assign(full_.size(), -1);
    for (int64_t i = n_own; i < n_layers; ++i) {
      const auto layer = static_cast<size_t>(i);
      int64_t source = n_own - 1;
      while (source >= 0 && full_[static_cast<size_t>(source)] != full_[layer]) --source;
      const bool alike = source >= 0 && SameHeads(static_cast<size_t>(source), layer);
      if (!alike) {
        return ModelFileError(absl::StrCat(path_, ": key \"", kKey, "\" = ", n_shared, ": layer ",
                                           i, " has no layer before the last ", n_shared,
                                           " with the same type and heads"));
      }
      keys_of_[layer] = static_cast<int>(source);
    }
    return absl::OkStatus();
  }

  bool SameHeads(size_t a, size_t b) const {
    return heads_[a].head_dim == heads_[b].head_dim && heads_[a].n_kv_heads == heads_[b].n_kv_heads;
  }

  // Of each layer. Without rope_parameters the class has tables of its own.
  absl::Status ReadRopes() {
    for (size_t i = 0; i < full_.size(); ++i) {
      RopeContext context = {.theta = full_[i] ? 1e6 : 1e4,
                             .head_dim = static_cast<int>(heads_[i].head_dim),
                             .max_positions = spec_.shape.max_positions,
                             .keys = {.theta = "", .part = ""},
                             .layer_type = full_[i] ? "full_attention" : "sliding_attention"};
      NG_ASSIGN_OR_RETURN(RopeSpec rope, ReadRope(config_, path_, context));
      const bool quarter = full_[i] && !config_.Has("rope_parameters");
      if (quarter) rope.n_turning = std::max<int64_t>(1, heads_[i].head_dim / 8);
      rope.factors = full_[i] && form_.rope_factors;
      ropes_.push_back(spec_.IndexIn(&spec_.ropes, rope));
    }
    return absl::OkStatus();
  }

  absl::Status EditLayers() {
    NG_ASSIGN_OR_RETURN(const bool double_wide, BoolOr(config_, "use_double_wide_mlp", false));
    NormSpec v_norm = spec_.head.norm;
    v_norm.weight = false;
    EditAttentions(&spec_, [&](size_t layer, SelfAttentionSpec* mine) {
      mine->head_dim = static_cast<int>(heads_[layer].head_dim);
      mine->n_kv_heads = static_cast<int>(heads_[layer].n_kv_heads);
      mine->rope = ropes_[layer];
      mine->keys_of = keys_of_[layer];
      mine->v_norm = v_norm;
      mine->v_is_k = k_is_v_ && full_[layer];
      if (full_[layer]) mine->window = 0;
    });
    for (size_t i = 0; i < full_.size() && double_wide && spec_.mixtures.empty(); ++i) {
      if (keys_of_[i] < 0) continue;
      BlockSpec& block = spec_.layers[i][1];
      FeedForwardSpec wide = spec_.FeedForwardOf(block);
      wide.width *= 2;
      block.part = spec_.IndexIn(&spec_.feed_forwards, wide);
    }
    if (!double_wide || spec_.mixtures.empty()) return absl::OkStatus();
    return ModelFileError(path_ +
                          ": key \"use_double_wide_mlp\" = true, can run only without "
                          "enable_moe_block");
  }

  absl::Status ReadLayerInputs() {
    constexpr const char* kVocabKey = "vocab_size_per_layer_input";
    LayerInputSpec input = {.norm = spec_.head.norm};
    NG_ASSIGN_OR_RETURN(input.vocab_size, IntOr(config_, kVocabKey, kSize, 262144));
    constexpr const char* kWidthKey = "hidden_size_per_layer_input";
    if (config_.IsNull(kWidthKey)) return absl::OkStatus();
    NG_ASSIGN_OR_RETURN(input.width, IntOr(config_, kWidthKey, {0, kSize.max}, 256));
    if (input.width == 0) return absl::OkStatus();
    if (input.vocab_size < spec_.shape.vocab_size) {
      return ModelFileError(
          absl::StrCat(path_, ": key \"", kVocabKey, "\" = ", input.vocab_size,
                       ", must be at least vocab_size = ", spec_.shape.vocab_size));
    }
    input.scale = static_cast<float>(std::sqrt(static_cast<double>(input.width)));
    input.projection_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec_.width)));
    spec_.layer_input = input;
    const FeedForwardSpec gate = {
        .width = input.width, .activation = Dense().activation, .gated = false};
    const BlockSpec block = {.operation = Operation::kLayerInput,
                             .part = spec_.IndexIn(&spec_.feed_forwards, gate),
                             .after = spec_.head.norm};
    for (LayerSpec& blocks : spec_.layers) blocks.push_back(block);
    return absl::OkStatus();
  }

  const FeedForwardSpec& Dense() const {
    return spec_.mixtures.empty() ? spec_.feed_forwards.front() : spec_.mixtures.front().shared;
  }

  void SetNormsApart() {
    const NormSpec& norm = spec_.head.norm;
    for (MixtureSpec& mixture : spec_.mixtures) {
      mixture.router_norm = mixture.shared_norm = mixture.shared_after = norm;
      mixture.experts_after = norm;
      mixture.router.expert_scales = form_.expert_scales;
      mixture.router.logit_scale =
          static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec_.width)));
    }
  }

  const JsonFields& config_;
  const std::string& path_;
  const Gemma4Form& form_;
  ModelSpec spec_;
  std::vector<bool> full_;         // [n_layers]: it sees all keys
  std::vector<LayerHeads> heads_;  // [n_layers]
  std::vector<int> keys_of_;       // [n_layers]
  std::vector<int> ropes_;         // [n_layers]
  bool k_is_v_ = false;            // in layers that see all keys
};

// Only what is no text is seen from both sides with "vision".
absl::Status CheckCausal(const JsonFields& config, const std::string& path) {
  constexpr const char* kKey = "use_bidirectional_attention";
  NG_ASSIGN_OR_RETURN(const auto sides, config.OptionalText(kKey));
  if (!sides || *sides == "vision") return absl::OkStatus();
  return ModelFileError(absl::StrCat(path, ": key \"", kKey, "\" = ", JsonExcerpt(*sides),
                                     ", can run only without, or with \"vision\""));
}

}  // namespace

absl::StatusOr<ModelSpec> ReadGemma4Spec(const JsonFields& config, const std::string& path) {
  NG_RETURN_IF_ERROR(CheckCausal(config, path));
  const bool experts = Gemma4HasExperts(config);
  NG_ASSIGN_OR_RETURN(ModelSpec spec, experts ? ReadLlamaLike(config, path, kGemma4MoeRow)
                                              : ReadLlamaLike(config, path, kGemma4Row));
  return EditGemma4Layers(config, path, {}, std::move(spec));
}

absl::StatusOr<ModelSpec> EditGemma4Layers(const JsonFields& config, const std::string& path,
                                           const Gemma4Form& form, ModelSpec spec) {
  return Gemma4Reader(config, path, form, std::move(spec)).Read();
}

bool Gemma4HasExperts(const JsonFields& config) {
  const nlohmann::json* const value = config.Find("enable_moe_block");
  return value != nullptr && *value == true;
}

}  // namespace ng
