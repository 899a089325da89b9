#include "core/model/gguf/gguf_fields.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/gguf/gguf_layers.h"
#include "core/model/gguf/gguf_names.h"
#include "core/model/gguf/gguf_rows.h"
#include "core/model/spec/limits.h"

namespace ng {
namespace {

using Json = nlohmann::json;

// Fields with the key's own name and value, where a row names it. One for all layers, or an array
// with the same for each of them.
constexpr std::string_view kSame[] = {"embedding_length",
                                      "context_length",
                                      "feed_forward_length",
                                      "attention.head_count",
                                      "attention.head_count_kv",
                                      "attention.key_length",
                                      "attention.layer_norm_rms_epsilon",
                                      "attention.layer_norm_epsilon",
                                      "attention.scale",
                                      "attention.clamp_kqv",
                                      "rope.freq_base",
                                      "rope.freq_base_swa",
                                      "rope.dimension_count",
                                      "attn_logit_softcapping",
                                      "final_logit_softcapping",
                                      "embedding_scale",
                                      "residual_scale",
                                      "logit_scale",
                                      "use_parallel_residual",
                                      "expert_count",
                                      "expert_used_count",
                                      "expert_group_count",
                                      "expert_group_used_count",
                                      "expert_feed_forward_length",
                                      "expert_shared_feed_forward_length",
                                      "expert_shared_count",
                                      "expert_weights_norm",
                                      "expert_weights_scale",
                                      "expert_gating_func"};

class FieldsMaker {
 public:
  FieldsMaker(const GgufSource& source, const LlamaRow& row, const GgufConstants& constants)
      : source_(source),
        row_(row),
        constants_(constants),
        keys_(source.metadata.fields()),
        made_({.fields = Json::object()}) {}

  absl::StatusOr<GgufConfig> Make() {
    NG_RETURN_IF_ERROR(RequirePlain());
    NG_RETURN_IF_ERROR(MakeSizes());
    if (constants_.states != nullptr) {
      NG_RETURN_IF_ERROR(
          AddGgufStates(source_, *constants_.states, {n_stored_layers_, n_layers_}, &made_.fields));
    }
    if (constants_.layers_apart) {
      NG_RETURN_IF_ERROR(AddGgufLayers(source_, {n_stored_layers_, n_layers_}, &made_.fields));
    }
    NG_RETURN_IF_ERROR(CopySame());
    NG_RETURN_IF_ERROR(RequirePresent());
    NG_RETURN_IF_ERROR(MakeExperts());
    NG_RETURN_IF_ERROR(row_.latent != nullptr ? MakeLatents() : CheckHeadWidths());
    NG_RETURN_IF_ERROR(MakeScales());
    NG_RETURN_IF_ERROR(MakeWindows());
    if (row_.rope_layers != RopeLayers::kNone) NG_RETURN_IF_ERROR(MakeRopeScaling());
    return std::move(made_);
  }

 private:
  std::string Key(std::string_view name) const { return source_.Key(name); }
  Json& Field(std::string_view name) { return made_.fields[std::string(name)]; }
  bool Has(std::string_view name) const { return made_.fields.contains(std::string(name)); }
  absl::StatusOr<int64_t> Int(std::string_view name, Range<int64_t> range) const {
    return keys_.Int(Key(name), range);
  }
  absl::StatusOr<std::optional<int64_t>> OptionalInt(std::string_view name,
                                                     Range<int64_t> range) const {
    return keys_.OptionalInt(Key(name), range);
  }
  absl::StatusOr<std::optional<double>> OptionalNumber(std::string_view name,
                                                       Range<double> range) const {
    return keys_.OptionalNumber(Key(name), range);
  }
  // What every architecture may be told and the decoder cannot do.
  absl::Status RequirePlain() const {
    constexpr const char* kType = "general.type";
    NG_ASSIGN_OR_RETURN(const std::optional<std::string> type, keys_.OptionalText(kType));
    if (type && *type != "model") {
      return ModelFileError(absl::StrCat(source_.path(), ": key \"", kType, "\" = ",
                                         JsonExcerpt(*type), ", can run only with \"model\""));
    }
    for (const char* name : constants_.without) NG_RETURN_IF_ERROR(RequireSilent(name));
    if (!std::string_view(constants_.only_with).empty()) {
      NG_RETURN_IF_ERROR(Require(keys_, source_.path(), Key(constants_.only_with), true));
    }
    NG_ASSIGN_OR_RETURN(const std::optional<bool> causal,
                        keys_.OptionalBool(Key("attention.causal")));
    if (causal.value_or(true)) return absl::OkStatus();
    return source_.Refuse("attention.causal",
                          " = false, can run only with true: each token sees those before it");
  }

  // A key that says nothing, or 0, or an array of zeros.
  absl::Status RequireSilent(const char* name) const {
    const Json* const value = keys_.Find(Key(name));
    if (value == nullptr || SaysNothing(*value)) return absl::OkStatus();
    const Json said = value->is_object() ? value->value("each", Json()) : *value;
    if (said.is_number() && said == 0) return absl::OkStatus();
    return source_.Refuse(name, absl::StrCat(" = ", JsonExcerpt(*value), ", can run only without"));
  }

  absl::Status MakeSizes() {
    constexpr const char* kTokens = "tokenizer.ggml.tokens";
    if (keys_.Has(kTokens)) {
      NG_ASSIGN_OR_RETURN(const auto tokens, keys_.OptionalObject(kTokens));
      NG_ASSIGN_OR_RETURN(Field("vocab_size"), tokens->Int("count", kSize));
    } else {
      NG_ASSIGN_OR_RETURN(Field("vocab_size"), Int("vocab_size", kSize));
    }
    NG_ASSIGN_OR_RETURN(n_stored_layers_, Int("block_count", kCount));
    NG_ASSIGN_OR_RETURN(const auto further,
                        OptionalInt("nextn_predict_layers", {0, n_stored_layers_ - 1}));
    made_.n_further_layers = further.value_or(0);
    n_layers_ = n_stored_layers_ - made_.n_further_layers;
    Field("block_count") = n_layers_;
    return absl::OkStatus();
  }

  absl::Status CopySame() {
    for (const std::string_view name : kSame) {
      const std::string key = Key(name);
      // Not read yet: the reader of a row does it, which may have no such key. Or made of an array.
      if (Has(name) || !keys_.Has(key)) continue;
      const Json& value = source_.metadata.Field(key);
      if (!value.is_object()) {
        Field(name) = value;
        continue;
      }
      NG_ASSIGN_OR_RETURN(const auto array, keys_.OptionalObject(key));
      NG_RETURN_IF_ERROR(array->Int("count", {n_stored_layers_, n_stored_layers_}).status());
      if (!array->Has("each")) {
        return source_.Refuse(name,
                              " differs from layer to layer, can run only with one value for all");
      }
      Field(name) = *array->Find("each");
    }
    return absl::OkStatus();
  }

  // Keys whose absence the format gives no meaning.
  absl::Status RequirePresent() {
    for (const char* name : {"context_length", "embedding_length", "attention.head_count"}) {
      if (!Has(name)) NG_RETURN_IF_ERROR(Int(name, kSize).status());
    }
    for (const char* name : constants_.with) {
      if (!Has(name)) NG_RETURN_IF_ERROR(keys_.Number(Key(name), {1e-9, 1e9}).status());
    }
    if (!std::string_view(constants_.other_eps).empty()) {
      NG_ASSIGN_OR_RETURN(const auto eps, OptionalNumber(constants_.other_eps, kEps));
      if (eps && !Has(row_.eps_key)) Field(row_.eps_key) = *eps;
    }
    if (!Has(row_.eps_key)) NG_RETURN_IF_ERROR(keys_.Number(Key(row_.eps_key), kEps).status());
    return absl::OkStatus();
  }

  // Which layers have experts, by their tensors.
  absl::Status MakeExperts() {
    if (row_.experts == nullptr) {
      for (const char* name : {"expert_count", "expert_used_count", "expert_group_count"}) {
        NG_RETURN_IF_ERROR(OptionalInt(name, {0, 0}).status());
      }
      if (!Has("feed_forward_length")) return Int("feed_forward_length", kSize).status();
      return absl::OkStatus();
    }
    Json types = Json::array();
    bool all_sparse = true;
    for (int64_t layer = 0; layer < n_layers_; ++layer) {
      const std::string router = absl::StrCat("blk.", layer, ".ffn_gate_inp.weight");
      const bool sparse = source_.tensors.Find(router) != nullptr;
      all_sparse = all_sparse && sparse;
      types.push_back(sparse ? "sparse" : "dense");
    }
    if (constants_.steps_of_experts) NG_RETURN_IF_ERROR(CheckSteps(types));
    // The larger of Llama 4's two models has no norms of q and k.
    constexpr int kExpertsOfLarger = 128;
    if (constants_.chunk > 0) Field("use_qk_norm") = Field("expert_count") != kExpertsOfLarger;
    Field("mlp_layer_types") = std::move(types);
    if (!Has("feed_forward_length")) {
      if (!all_sparse) return Int("feed_forward_length", kSize).status();
      if (Has("expert_feed_forward_length")) {
        Field("feed_forward_length") = Field("expert_feed_forward_length");
      }
    }
    // The models of one architecture that have a selection bias have sigmoids; not all files say
    // it.
    const bool biased =
        source_.tensors.Find(absl::StrCat("blk.", n_layers_ - 1, ".exp_probs_b.bias")) != nullptr;
    if (row_.latent != nullptr && biased && !Has("expert_gating_func")) {
      Field("expert_gating_func") = 2;
    }
    const std::string_view scale_key = row_.experts->scale;
    if (!scale_key.empty()) {
      NG_ASSIGN_OR_RETURN(const auto scale, OptionalNumber(scale_key, {0.0, 1e9}));
      if (scale.value_or(0.0) == 0.0) made_.fields.erase(std::string(scale_key));
    }
    NG_ASSIGN_OR_RETURN(const auto groups, OptionalInt("expert_group_count", {0, kCount.max}));
    NG_ASSIGN_OR_RETURN(const auto used, OptionalInt("expert_group_used_count", {0, kCount.max}));
    if (groups.value_or(0) <= 1) made_.fields.erase("expert_group_count");
    // Without groups there are none to choose.
    if (groups.value_or(0) <= 1 || used.value_or(0) <= 1) {
      made_.fields.erase("expert_group_used_count");
    }
    return absl::OkStatus();
  }

  // A key says the step of the layers with experts; their tensors must be there.
  absl::Status CheckSteps(const Json& types) {
    constexpr const char* kStep = "interleave_moe_layer_step";
    NG_ASSIGN_OR_RETURN(const int64_t step, Int(kStep, kCount));
    int64_t lead = 0;  // Llama 4 has no such layers
    if (constants_.chunk == 0) {
      NG_ASSIGN_OR_RETURN(const auto found,
                          OptionalInt("leading_dense_block_count", {0, kCount.max}));
      lead = found.value_or(0);
    }
    for (int64_t i = 0; i < n_layers_; ++i) {
      const bool sparse = i >= lead && (i + 1) % step == 0;
      if (types[static_cast<size_t>(i)] == (sparse ? "sparse" : "dense")) continue;
      return source_.Refuse(kStep, absl::StrCat(" = ", step, ", by its tensors layer ", i, " is ",
                                                types[static_cast<size_t>(i)].get<std::string>()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> HeadWidth() {
    NG_ASSIGN_OR_RETURN(const int64_t n_heads, ReadHeads());
    NG_ASSIGN_OR_RETURN(const int64_t width, Int("embedding_length", kSize));
    NG_ASSIGN_OR_RETURN(const auto key_length, OptionalInt("attention.key_length", kCount));
    return key_length.value_or(width / n_heads);
  }

  // Those of v are as wide as those of k; and those of layers with a window as the others, but for
  // architectures that have them apart.
  absl::Status CheckHeadWidths() {
    const bool window = row_.windows == WindowKeys::kTypes && !constants_.layers_apart;
    if (!window && !keys_.Has(Key("attention.value_length"))) return absl::OkStatus();
    NG_ASSIGN_OR_RETURN(const int64_t head_dim, HeadWidth());
    const Range<int64_t> only = {head_dim, head_dim};
    NG_RETURN_IF_ERROR(OptionalInt("attention.value_length", only).status());
    if (!window) return absl::OkStatus();
    for (const char* name : {"attention.key_length_swa", "attention.value_length_swa"}) {
      NG_RETURN_IF_ERROR(OptionalInt(name, only).status());
    }
    NG_ASSIGN_OR_RETURN(const auto turning, OptionalInt("rope.dimension_count", {0, head_dim}));
    const int64_t turns = turning.value_or(head_dim);
    return OptionalInt("rope.dimension_count_swa", {turns, turns}).status();
  }

  absl::StatusOr<int64_t> ReadHeads() {
    NG_ASSIGN_OR_RETURN(
        const JsonFields fields,
        JsonFields::Of(made_.fields, source_.path(), std::make_shared<ReadKeys>(), Key("")));
    return fields.Int("attention.head_count", kCount);
  }

  // The heads' own widths are in keys of their own where the file has one row of k for all.
  absl::Status MakeLatents() {
    NG_ASSIGN_OR_RETURN(const auto q_rank, OptionalInt("attention.q_lora_rank", {0, kSize.max}));
    Field("q_lora_rank") = q_rank.value_or(0) > 0 ? Json(*q_rank) : Json();
    NG_ASSIGN_OR_RETURN(Field("kv_lora_rank"), Int("attention.kv_lora_rank", kSize));
    NG_ASSIGN_OR_RETURN(int64_t head_dim, Int("attention.key_length", kCount));
    NG_ASSIGN_OR_RETURN(const int64_t v_dim, Int("attention.value_length", kCount));
    NG_ASSIGN_OR_RETURN(const auto own_dim, OptionalInt("attention.key_length_mla", kCount));
    NG_ASSIGN_OR_RETURN(const auto own_v_dim, OptionalInt("attention.value_length_mla", kCount));
    const bool own = own_dim && own_v_dim;
    head_dim = own ? *own_dim : head_dim;
    NG_ASSIGN_OR_RETURN(const int64_t turns, Int("rope.dimension_count", {1, head_dim - 1}));
    Field("qk_rope_head_dim") = turns;
    Field("qk_nope_head_dim") = head_dim - turns;
    Field("v_head_dim") = own ? *own_v_dim : v_dim;
    NG_ASSIGN_OR_RETURN(const int64_t n_heads, ReadHeads());
    return OptionalInt("attention.head_count_kv", {1, n_heads}).status();
  }

  absl::Status MakeScales() {
    if (row_.query_scalar > 0.0) {
      NG_ASSIGN_OR_RETURN(const int64_t n_heads, ReadHeads());
      NG_ASSIGN_OR_RETURN(const int64_t width, Int("embedding_length", kSize));
      const int64_t shared_out = std::max<int64_t>(width / n_heads, 1);
      NG_ASSIGN_OR_RETURN(const auto key_length, OptionalInt("attention.key_length", kCount));
      const bool by_width = n_layers_ == constants_.layers_scaled_by_width;
      Field("query_pre_attn_scalar") = by_width ? shared_out : key_length.value_or(shared_out);
    }
    // Without a cap of its own, an architecture takes 0 for none; and so it does for a clip.
    if (row_.logit_cap == 0.0) ZeroIsNone("final_logit_softcapping");
    if (!std::string_view(row_.clip).empty()) ZeroIsNone("attention.clamp_kqv");
    if (constants_.rope_alpha) NG_RETURN_IF_ERROR(RaiseRopeBase());
    if (constants_.one_rope_base && !Has("rope.freq_base_swa") && Has("rope.freq_base")) {
      Field("rope.freq_base_swa") = Field("rope.freq_base");
    }
    if (row_.rope_layers == RopeLayers::kIfTyped) {
      NG_ASSIGN_OR_RETURN(const auto turns, keys_.OptionalBool(Key("rope.scaling.finetuned")));
      Field("position_embedding_type") = turns.value_or(true) ? "rope" : "nope";
    }
    if (row_.alibi) {
      NG_RETURN_IF_ERROR(OptionalNumber("attention.max_alibi_bias", {8.0, 8.0}).status());
    }
    return absl::OkStatus();
  }

  absl::Status RaiseRopeBase() {
    NG_ASSIGN_OR_RETURN(const auto alpha, OptionalNumber("rope.scaling.alpha", {0.0, 1e9}));
    if (alpha.value_or(0.0) == 0.0) return absl::OkStatus();
    NG_ASSIGN_OR_RETURN(const int64_t head_dim, HeadWidth());
    NG_ASSIGN_OR_RETURN(const auto base, OptionalNumber("rope.freq_base", kTheta));
    const auto n_dims = static_cast<double>(head_dim);
    Field("rope.freq_base") = base.value_or(row_.theta) * std::pow(*alpha, n_dims / (n_dims - 2.0));
    return absl::OkStatus();
  }

  void ZeroIsNone(const char* name) {
    if (!Has(name) || Field(name) != 0.0) return;
    (void)keys_.Find(Key(name));
    Field(name) = Json();
  }

  // The width of the window, which 0 says there is none of, and who has it: each layer but every
  // n-th, or those that an array says.
  absl::Status MakeWindows() {
    if (constants_.chunk > 0) {
      // The layers that turn are those with chunks.
      NG_ASSIGN_OR_RETURN(const auto base, OptionalNumber("rope.freq_base_swa", kTheta));
      if (base.has_value()) Field("rope.freq_base") = *base;
      return OptionalInt(kGgufWindow, {constants_.chunk, constants_.chunk}).status();
    }
    // Where an absent key means a window, 0 does not mean that there is none.
    const int64_t least = row_.windows == WindowKeys::kTypes && row_.window > 0 ? 1 : 0;
    NG_ASSIGN_OR_RETURN(const auto window, OptionalInt(kGgufWindow, {least, kPositions.max}));
    if (window.value_or(0) > 0) Field(kGgufWindow) = *window;
    if (row_.windows != WindowKeys::kTypes || Has("layer_types")) return absl::OkStatus();
    const bool has_window = window.value_or(row_.window) > 0;
    const std::string pattern = Key(kGgufPattern);
    if (!has_window) {
      (void)keys_.Find(pattern);
      Field("layer_types") =
          std::vector<std::string>(static_cast<size_t>(n_layers_), "full_attention");
      return absl::OkStatus();
    }
    if (row_.rope_layers != RopeLayers::kByType) NG_RETURN_IF_ERROR(RequireOneRopeBase());
    if (!keys_.Has(pattern)) return absl::OkStatus();
    const Json& value = source_.metadata.Field(pattern);
    if (!value.is_object()) {
      const int64_t only = constants_.pattern;
      const Range<int64_t> may =
          only > 0 ? Range<int64_t>{only, only} : Range<int64_t>{0, kCount.max};
      NG_ASSIGN_OR_RETURN(const int64_t every, Int(kGgufPattern, may));
      if (every > 0) {
        Field(kGgufPattern) = every;
      } else {
        Field("layer_types") =
            std::vector<std::string>(static_cast<size_t>(n_layers_), "sliding_attention");
      }
      return absl::OkStatus();
    }
    NG_ASSIGN_OR_RETURN(const std::vector<bool> has, source_.metadata.Switches(pattern));
    if (std::ssize(has) != n_stored_layers_ && std::ssize(has) != n_layers_) {
      return source_.Refuse(
          kGgufPattern, absl::StrCat(" lists ", has.size(), " layers, ", Key("block_count"), " is ",
                                     n_stored_layers_));
    }
    Json types = Json::array();
    for (int64_t i = 0; i < n_layers_; ++i) {
      types.push_back(has[static_cast<size_t>(i)] ? "sliding_attention" : "full_attention");
    }
    Field("layer_types") = std::move(types);
    return absl::OkStatus();
  }

  // Layers with a window turn as the others do.
  absl::Status RequireOneRopeBase() const {
    NG_ASSIGN_OR_RETURN(const auto base, OptionalNumber("rope.freq_base", kTheta));
    const double only = base.value_or(row_.theta);
    return OptionalNumber("rope.freq_base_swa", {only, only}).status();
  }

  // As the format has it, a file with a factor and no type means linear.
  absl::Status MakeRopeScaling() {
    constexpr Range<double> kFactor = {0.0, 1e6};  // 0: none
    constexpr const char* kType = "rope.scaling.type";
    NG_ASSIGN_OR_RETURN(const std::optional<std::string> found, keys_.OptionalText(Key(kType)));
    const std::string type = found.value_or("linear");
    if (type != "none" && type != "linear" && type != "yarn" && type != "longrope") {
      return source_.Refuse(kType, absl::StrCat(" = ", JsonExcerpt(type),
                                                ", must be one of: none, linear, yarn, longrope"));
    }
    std::optional<double> factor;
    for (const char* name : {"rope.scaling.factor", "rope.scale_linear"}) {
      NG_ASSIGN_OR_RETURN(const std::optional<double> said, OptionalNumber(name, kFactor));
      if (!factor) factor = said;
    }
    if (factor.value_or(0.0) == 0.0 || type == "none") factor = 1.0;
    if (type == "yarn" || source_.tensors.Find(kShortFactors) != nullptr) {
      NG_ASSIGN_OR_RETURN(const auto original,
                          OptionalInt("rope.scaling.original_context_length", {0, kPositions.max}));
      made_.original_positions = original.value_or(0);
    }
    if (constants_.temperature) NG_RETURN_IF_ERROR(ReadTemperature());
    // Of q and k, whatever the type of scaling.
    NG_ASSIGN_OR_RETURN(const auto magnitude,
                        OptionalNumber("rope.scaling.attn_factor", {1e-6, kFactor.max}));
    made_.rope_magnitude = magnitude.value_or(1.0);
    if (row_.latent != nullptr && made_.rope_magnitude != 1.0) {
      return source_.Refuse("rope.scaling.attn_factor",
                            absl::StrCat(" = ", made_.rope_magnitude, ", can run only with 1"));
    }
    if (type == "yarn") return MakeYarn(*factor);
    if (type == "longrope" && *factor != 1.0) {
      return source_.Refuse(
          "rope.scaling.factor",
          absl::StrCat(" = ", *factor, ", can run only with 1 where the type is longrope"));
    }
    if (row_.latent != nullptr && *factor != 1.0) {
      return source_.Refuse(
          "rope.scaling.factor",
          absl::StrCat(" = ", *factor, ", can run only with 1 where the type is not yarn"));
    }
    if (*factor != 1.0) Field("rope_scaling") = {{"rope_type", "linear"}, {"factor", *factor}};
    return absl::OkStatus();
  }

  absl::Status ReadTemperature() {
    constexpr const char* kScale = "attention.temperature_scale";
    NG_ASSIGN_OR_RETURN(const auto scale, OptionalNumber(kScale, {0.0, 1e6}));
    if (scale.value_or(0.0) == 0.0) return absl::OkStatus();
    NG_ASSIGN_OR_RETURN(const int64_t length,
                        Int("rope.scaling.original_context_length", kPositions));
    made_.temperature = {.coefficient = *scale, .length = length, .offset = 0};
    return absl::OkStatus();
  }

  absl::Status MakeYarn(double factor) {
    Json& scaling = Field("rope_scaling");
    scaling = {{"rope_type", "yarn"},
               {"factor", factor},
               {"truncate", !constants_.yarn_cuts_between_pairs}};
    if (made_.original_positions > 0) {
      scaling["original_max_position_embeddings"] = made_.original_positions;
    }
    for (const char* name : {"beta_fast", "beta_slow"}) {
      NG_ASSIGN_OR_RETURN(const auto turns,
                          OptionalNumber(absl::StrCat("rope.scaling.yarn_", name), {1e-6, 1e6}));
      if (turns) scaling[name] = *turns;
    }
    if (row_.latent == nullptr && !constants_.yarn_weight) return absl::OkStatus();
    constexpr const char* kWeight = "rope.scaling.yarn_log_multiplier";
    NG_ASSIGN_OR_RETURN(const auto weight, OptionalNumber(kWeight, {0.0, 1e6}));
    if (row_.latent == nullptr) {
      if (weight.value_or(0.0) == 0.0) return absl::OkStatus();
      scaling["mscale"] = 1.0;
      scaling["mscale_all_dim"] = *weight;
      return absl::OkStatus();
    }
    // A tenth of it, of both.
    if (weight.value_or(0.0) == 0.0) {
      return source_.Refuse(kWeight,
                            " is missing, must be a number above 0 where the type is yarn");
    }
    scaling["mscale"] = scaling["mscale_all_dim"] = *weight * 10.0;
    return absl::OkStatus();
  }

  const GgufSource& source_;
  const LlamaRow& row_;
  const GgufConstants& constants_;
  JsonFields keys_;
  GgufConfig made_;
  int64_t n_stored_layers_ = 0;
  int64_t n_layers_ = 0;
};

}  // namespace

absl::StatusOr<GgufConfig> ReadGgufConfig(const GgufSource& source, const LlamaRow& row,
                                          const GgufConstants& constants) {
  return FieldsMaker(source, row, constants).Make();
}

}  // namespace ng
