#include "core/model/gguf/gguf_families.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/model/families/family_configs.h"
#include "core/model/gguf/gguf_fields.h"
#include "core/model/gguf/gguf_names.h"
#include "core/model/gguf/gguf_rows.h"
#include "core/model/spec/limits.h"

namespace ng {
namespace {

constexpr char kArchitecture[] = "general.architecture";

struct Architecture {
  const char* name;
  const LlamaRow& row;
  std::span<const RoleName> names = kGgufNames;
  std::span<const Renamed> renamed = {};
  // A model may have norms of q and k.
  bool may_norm_qk = false;
  bool gate_up_fused = false;
  // A head of q, then its gate, in one tensor; and what is called qkv is a state's.
  bool q_with_gate = false;
  bool biases_optional = true;  // each of a layer by itself
  GgufConstants constants = {};
  // An architecture whose models differ in more than keys say has a row for each form: the one
  // whose tensor the first layer has.
  const char* with_tensor = "";
};

constexpr const char* kSections[] = {"rope.dimension_sections"};
constexpr const char* kTemperature[] = {"attention.temperature_scale"};
constexpr const char* kDeepstack[] = {"deepstack_mapping"};
constexpr const char* kNarrowExperts[] = {"moe_latent_size"};
constexpr char kLayerNormEps[] = "attention.layer_norm_epsilon";
constexpr const char* kMiniCpmScales[] = {"embedding_scale", "residual_scale", "logit_scale"};
constexpr const char* kLogitScale[] = {"logit_scale"};
constexpr const char* kExpertWidth[] = {"expert_feed_forward_length"};
constexpr GgufConstants kGraniteConstants = {
    .with = kLogitScale, .without = kDeepstack, .only_with = "rope.scaling.finetuned"};

// Several of one name are told apart by their tensors and by whether they have experts.
constexpr Architecture kArchitectures[] = {
    {.name = "llama", .row = kGgufLlama, .names = kGgufPairedNames},
    {.name = "llama", .row = kGgufMixtral, .names = kGgufPairedNames},
    {.name = "qwen2", .row = kGgufQwen2},
    {.name = "qwen2moe", .row = kGgufQwen2Moe},
    {.name = "qwen3", .row = kGgufQwen3},
    {.name = "qwen3moe", .row = kGgufQwen3Moe},
    {.name = "gpt2", .row = kGgufStarcoder, .biases_optional = false},
    {.name = "gemma", .row = kGgufGemma},
    {.name = "gemma2", .row = kGgufGemma2, .constants = {.layers_scaled_by_width = 46}},
    {.name = "gemma3", .row = kGgufGemma3, .constants = {.layers_scaled_by_width = 62}},
    {.name = "gemma4", .row = kGgufGemma4, .constants = {.layers_apart = true}},
    {.name = "gemma4",
     .row = kGgufGemma4Moe,
     .renamed = kDenseIsShared,
     .constants = {.layers_apart = true}},
    {.name = "phi2", .row = kGgufPhi2, .renamed = kOneNormForBoth},
    {.name = "phi3", .row = kGgufPhi3, .gate_up_fused = true},
    {.name = "gpt-oss",
     .row = kGgufGptOss,
     .renamed = kMlpNormBehindAttention,
     .biases_optional = false,
     .constants = {.yarn_cuts_between_pairs = true}},
    {.name = "granite",
     .row = kGgufGranite,
     .names = kGgufPairedNames,
     .constants = kGraniteConstants},
    {.name = "granitemoe",
     .row = kGgufGraniteMoe,
     .names = kGgufPairedNames,
     .constants = kGraniteConstants},
    {.name = "minicpm",
     .row = kGgufMiniCpm,
     .names = kGgufPairedNames,
     .constants = {.with = kMiniCpmScales}},
    {.name = "olmo", .row = kGgufOlmo, .names = kGgufPairedNames},
    {.name = "olmo2", .row = kGgufOlmo2, .constants = {.one_rope_base = true}},
    {.name = "olmoe", .row = kGgufOlmoe},
    {.name = "smollm3", .row = kGgufSmolLm3, .names = kGgufPairedNames},
    {.name = "apertus", .row = kGgufApertus},
    {.name = "mistral3",
     .row = kGgufMistral3,
     .names = kGgufPairedNames,
     .constants = {.yarn_weight = true, .temperature = true}},
    {.name = "arcee", .row = kGgufArcee, .names = kGgufPairedNames},
    {.name = "internlm2", .row = kGgufLlama, .names = kGgufPairedNames},
    {.name = "chatglm", .row = kGgufGlm, .gate_up_fused = true},
    {.name = "glm4", .row = kGgufGlm4, .gate_up_fused = true, .constants = {.without = kSections}},
    {.name = "glm4moe",
     .row = kGgufGlm4Moe,
     .renamed = kMlpNormBehindAttention,
     .may_norm_qk = true,
     .constants = {.without = kSections}},
    {.name = "dots1", .row = kGgufDots1},
    {.name = "exaone4", .row = kGgufExaone4},
    {.name = "exaone-moe", .row = kGgufExaoneMoe},
    {.name = "starcoder", .row = kGgufStarcoder, .biases_optional = false},
    {.name = "starcoder2", .row = kGgufStarcoder2},
    {.name = "stablelm", .row = kGgufStableLm},
    {.name = "command-r", .row = kGgufCommandR, .renamed = kOneNormForBoth, .may_norm_qk = true},
    {.name = "cohere2", .row = kGgufCohere2, .renamed = kOneNormForBoth},
    {.name = "deepseek2", .row = kGgufDeepSeek, .constants = {.without = kTemperature}},
    {.name = "deepseek2", .row = kGgufDeepSeekDense, .constants = {.without = kTemperature}},
    {.name = "ernie4_5", .row = kGgufErnie, .constants = {.without = kSections}},
    {.name = "ernie4_5-moe",
     .row = kGgufErnieMoe,
     .constants = {.without = kSections, .steps_of_experts = true}},
    {.name = "hunyuan-dense", .row = kGgufHunYuan, .constants = {.rope_alpha = true}},
    {.name = "hunyuan-moe", .row = kGgufHunYuanMoe},
    {.name = "hy_v3", .row = kGgufHyV3, .renamed = kPlainSelectionBias},
    {.name = "llama4",
     .row = kGgufLlama4,
     .constants = {.with = kExpertWidth, .chunk = 8192, .steps_of_experts = true}},
    {.name = "bitnet", .row = kGgufBitNet},
    {.name = "seed_oss", .row = kGgufSeedOss, .renamed = kMlpNormBehindAttention},
    {.name = "nemotron", .row = kGgufNemotron},
    {.name = "jais2", .row = kGgufJais2},
    {.name = "gptneox", .row = kGgufGptNeoX},
    {.name = "falcon",
     .row = kGgufFalcon,
     .renamed = kSecondAttnNorm,
     .with_tensor = "blk.0.attn_norm_2.weight"},
    {.name = "falcon", .row = kGgufFalcon, .renamed = kOneNormForBoth},
    {.name = "bloom", .row = kGgufBloom},
    {.name = "mpt", .row = kGgufMpt},
    {.name = "minimax-m2", .row = kGgufMiniMax},
    {.name = "afmoe", .row = kGgufAfmoe, .constants = {.pattern = 4}},
    {.name = "bailingmoe", .row = kGgufBailing, .names = kGgufPairedNames},
    {.name = "lfm2",
     .row = kGgufLfm2,
     .renamed = kShortConvolution,
     .constants = {.states = &kGgufShortConv}},
    {.name = "lfm2moe",
     .row = kGgufLfm2Moe,
     .renamed = kShortConvolution,
     .constants = {.states = &kGgufShortConv}},
    {.name = "qwen3next",
     .row = kGgufQwenNext,
     .renamed = kMlpNormBehindAttention,
     .q_with_gate = true,
     .constants = {.states = &kGgufDeltaRule}},
    {.name = "qwen35",
     .row = kGgufQwen35,
     .renamed = kMlpNormBehindAttention,
     .q_with_gate = true,
     .constants = {.states = &kGgufDeltaRuleInTurn}},
    {.name = "qwen35moe",
     .row = kGgufQwen35Moe,
     .renamed = kMlpNormBehindAttention,
     .q_with_gate = true,
     .constants = {.states = &kGgufDeltaRuleInTurn}},
    {.name = "granitehybrid",
     .row = kGgufGraniteHybrid,
     .names = kGgufPairedNames,
     .constants = {.with = kLogitScale, .without = kDeepstack, .states = &kGgufGraniteMamba}},
    {.name = "granitehybrid",
     .row = kGgufGraniteHybridDense,
     .names = kGgufPairedNames,
     .constants = {.with = kLogitScale, .without = kDeepstack, .states = &kGgufGraniteMamba}},
    {.name = "nemotron_h",
     .row = kGgufNemotronHybridDense,
     .renamed = kOneNormForBoth,
     .constants = {.other_eps = kLayerNormEps, .states = &kGgufNemotronMamba}},
    {.name = "nemotron_h_moe",
     .row = kGgufNemotronHybrid,
     .renamed = kOneNormForBoth,
     .constants = {.without = kNarrowExperts,
                   .other_eps = kLayerNormEps,
                   .states = &kGgufNemotronMamba}},
};

// The architecture that the file is of. Errors: none that is known.
absl::StatusOr<const Architecture*> FindArchitecture(const JsonFields& metadata,
                                                     const TensorSource& tensors) {
  NG_ASSIGN_OR_RETURN(const std::string name, metadata.Text(kArchitecture));
  const std::string experts_key = name + ".expert_count";
  const bool experts = metadata.Has(experts_key) && *metadata.Find(experts_key) != 0;
  const Architecture* found = nullptr;
  std::vector<std::string> known;
  for (const Architecture& architecture : kArchitectures) {
    if (known.empty() || known.back() != architecture.name) known.push_back(architecture.name);
    if (name != architecture.name) continue;
    const std::string_view tensor = architecture.with_tensor;
    if (!tensor.empty() && tensors.Find(tensor) == nullptr) continue;
    if (found == nullptr || (architecture.row.experts != nullptr) == experts) {
      if (found == nullptr || (found->row.experts != nullptr) != experts) found = &architecture;
    }
  }
  if (found != nullptr) return found;
  return ModelFileError(absl::StrCat(tensors.path(), ": key \"", kArchitecture,
                                     "\" = ", JsonExcerpt(name),
                                     ", must be one of: ", absl::StrJoin(known, ", ")));
}

// What a model has by the names of its tensors.
class TensorParts {
 public:
  TensorParts(const TensorSource& tensors, GgufModel* model) : tensors_(tensors), model_(*model) {}

  // One tensor for several roles or one for each, and where RoPE's factors are.
  void ChooseNames(const Architecture& of) {
    using enum TensorRole;
    std::vector<TensorRole>& without = model_.without;
    const auto leave_out = [&](std::initializer_list<TensorRole> roles) {
      without.insert(without.end(), roles);
    };
    of.q_with_gate ? leave_out({kQ, kAttnGate}) : leave_out({kQAndGate});
    if (Has({kQkv}) && !of.q_with_gate) {
      leave_out({kQ, kK, kV});
      // Biases may be apart all the same.
      Has({kQkvBias}) || !Has({kQBias, kKBias, kVBias}) ? leave_out({kQBias, kKBias, kVBias})
                                                        : leave_out({kQkvBias});
    } else {
      leave_out({kQkv, kQkvBias});
    }
    of.gate_up_fused ? leave_out({kMlpGate, kMlpUp}) : leave_out({kMlpGateUp});
    Has({kExpertGateUp}) ? leave_out({kExpertGate, kExpertUp}) : leave_out({kExpertGateUp});
    leave_out({kExpertGateUpBias});
    // The matrix of k of each head as it is used, or both as they came.
    Has({kKUp}) ? leave_out({kKvUp}) : leave_out({kKUp, kVUp});
    Has({kStateValues}) ? leave_out({kStateWrite, kStateStep}) : leave_out({kStateValues});
    Has({kStateConvIn}) ? leave_out({kStateGroups}) : leave_out({kStateConvIn, kStateGate});
    if (tensors_.Find(kShortFactors) != nullptr && !Has({kRopeFactors})) {
      model_.renamed.push_back({"rope_freqs", "rope_factors_short"});
      short_factors_ = true;
    }
    model_.family.renamed = model_.renamed;
    model_.family.without = without;
  }

  Gemma4Form FormOfLayers() const {
    using enum TensorRole;
    return {.last_is_full = false,
            .rope_factors = Has({kRopeFactors}),
            .stream_factors = Has({kMlpFactor}),
            .expert_scales = Has({kExpertScales})};
  }

  // No key says whether a model has these.
  void SetParts(const Architecture& of) {
    using enum TensorRole;
    ModelSpec& spec = model_.spec;
    spec.head.tied = !Has({kHead});
    for (RopeSpec& rope : spec.ropes) {
      if (!of.constants.layers_apart) rope.factors = Has({kRopeFactors});
    }
    // Each bias by itself: what is missing is zero.
    const bool qkv_bias = Has({kQkvBias, kQBias, kKBias, kVBias});
    const bool mlp_bias = Has({kMlpGateBias, kMlpUpBias, kMlpDownBias});
    const bool expert_bias = Has({kExpertGateBias, kExpertUpBias, kExpertDownBias});
    const bool qk_norm = of.may_norm_qk && Has({kQNorm});
    for (SelfAttentionSpec& attention : spec.attentions) {
      attention.qkv_bias |= qkv_bias;
      attention.out_bias |= Has({kAttnOutBias});
      attention.latent.norm.eps = spec.head.norm.eps;  // one key is of all norms
      if (!qk_norm) continue;
      attention.qk_norm = spec.head.norm;
      attention.qk_norm.bias = false;
      attention.qk_norm_kind = of.row.qk_norm_kind;
    }
    for (FeedForwardSpec& feed_forward : spec.feed_forwards) feed_forward.bias |= mlp_bias;
    for (MixtureSpec& mixture : spec.mixtures) {
      mixture.expert.bias |= expert_bias;
      mixture.router.selection_bias |= Has({kSelectionBias});
    }
  }
  bool short_factors() const { return short_factors_; }

 private:
  bool Has(std::initializer_list<TensorRole> roles) const {
    const Family& family = model_.family;
    return std::ranges::any_of(family.names, [&](const RoleName& entry) {
      if (std::ranges::count(roles, entry.role) == 0) return false;
      for (int layer = 0; layer < (entry.per_layer() ? n_layers_there() : 1); ++layer) {
        if (tensors_.Find(family.NameOf(entry, {layer, 0})) != nullptr) return true;
      }
      return false;
    });
  }
  // A file may claim to have more layers than tensors, and is then refused further on.
  int n_layers_there() const {
    const auto n_tensors = static_cast<int>(tensors_.tensors().size());
    return std::min(model_.spec.shape.n_layers, n_tensors);
  }

  const TensorSource& tensors_;
  GgufModel& model_;
  bool short_factors_ = false;
};

// A model may have been trained on fewer positions: RoPE has other factors for runs beyond them,
// and no position may change while a run gets longer.
void KeepWithinFactors(int64_t original_positions, bool far_factors, ModelSpec* spec) {
  int64_t& positions = spec->shape.max_positions;
  if (original_positions == 0 || positions <= original_positions) return;
  if (far_factors) spec->far_positions = positions;
  positions = original_positions;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GgufModel>> ReadGgufModel(const GgufMetadata& metadata,
                                                         const TensorSource& tensors) {
  NG_ASSIGN_OR_RETURN(const Architecture* found, FindArchitecture(metadata.fields(), tensors));
  const GgufSource source = {metadata, tensors, found->name};
  NG_ASSIGN_OR_RETURN(const GgufConfig config,
                      ReadGgufConfig(source, found->row, found->constants));
  auto model = std::make_unique<GgufModel>();
  const JsonFields fields = metadata.FieldsOf(config.fields, source.Key(""));
  const auto read = found->constants.chunk > 0 ? ReadLlama4Like : ReadLlamaLike;
  NG_ASSIGN_OR_RETURN(model->spec, read(fields, tensors.path(), found->row));
  model->spec.family = found->name;
  model->n_further_layers = config.n_further_layers;
  model->family = {.model_type = found->name,
                   .read_spec = nullptr,
                   .layer_prefix = "blk.",
                   .names = found->names,
                   .biases_optional = found->biases_optional,
                   .experts = ExpertTensors::kStacked};
  model->renamed.assign(found->renamed.begin(), found->renamed.end());
  model->family.renamed = model->renamed;
  TensorParts parts(tensors, model.get());
  parts.ChooseNames(*found);
  if (found->constants.layers_apart) {
    NG_ASSIGN_OR_RETURN(model->spec, EditGemma4Layers(fields, tensors.path(), parts.FormOfLayers(),
                                                      std::move(model->spec)));
  }
  parts.SetParts(*found);
  const GgufStates* const states = found->constants.states;
  for (StateSpec& state : model->spec.states) state.heads_in_turn = states->heads_in_turn;
  if (parts.short_factors()) {
    KeepWithinFactors(config.original_positions, tensors.Find(kLongFactors) != nullptr,
                      &model->spec);
  }
  if (config.temperature.coefficient != 0.0) {
    for (SelfAttentionSpec& mine : model->spec.attentions) mine.temperature = config.temperature;
  }
  for (RopeSpec& rope : model->spec.ropes) rope.scaling.magnitude *= config.rope_magnitude;
  for (const MixtureSpec& mixture : model->spec.mixtures) {
    // The first programs that ran them chose groups by their best expert, others by their best two.
    if (mixture.router.n_groups == 1 || mixture.router.sigmoid) continue;
    return ModelFileError(absl::StrCat(tensors.path(), ": key \"", source.Key("expert_group_count"),
                                       "\" = ", mixture.router.n_groups,
                                       ", can run only with 1 where the scores are no sigmoids"));
  }
  return model;
}

bool IsUnaskedGgufTensor(std::string_view name) {
  return name == kLongFactors || name.ends_with(".attn_kv_b.weight");
}

}  // namespace ng
