#include "core/model/families/families.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/model/families/expert_rows.h"
#include "core/model/families/family_configs.h"
#include "core/model/families/family_names.h"
#include "core/model/families/layer_norm_rows.h"
#include "core/model/families/llama_rows.h"
#include "core/model/families/state_rows.h"

namespace ng {
namespace {

constexpr Family LlamaFamily(const char* model_type, decltype(Family::read_spec) read_spec,
                             std::span<const Renamed> renamed = {},
                             std::span<const TensorRole> without = kApart) {
  return {.model_type = model_type,
          .read_spec = read_spec,
          .layer_prefix = "model.layers.",
          .names = kLlamaNames,
          .optional_prefix = "model.",
          .unties_head = true,
          .renamed = renamed,
          .without = without};
}

constexpr Family With(Family family, const char* layer_prefix) {
  family.layer_prefix = layer_prefix;
  const std::string_view prefix = layer_prefix;
  family.optional_prefix = prefix.substr(0, prefix.find('.') + 1);
  return family;
}

// With q, k and v of each group of heads together in one tensor.
constexpr Family GroupedFamily(const char* model_type, decltype(Family::read_spec) read_spec,
                               const char* layer_prefix, std::span<const Renamed> renamed,
                               StoredOrder order = StoredOrder::kGroups) {
  Family family = With(LlamaFamily(model_type, read_spec, renamed, kQkvFused), layer_prefix);
  family.qkv_order = order;
  return family;
}

constexpr Family Stacked(Family family) {
  family.experts = ExpertTensors::kStacked;
  return family;
}

constexpr Family WithFurtherLayers(Family family) {
  family.n_further_layers = "num_nextn_predict_layers";
  return family;
}

// Granite's hybrids have experts or none.
template <bool kExperts>
constexpr Family WithExperts(Family family) {
  family.is_form = [](const JsonFields& config) {
    const nlohmann::json* const n = config.Find("num_local_experts");
    return kExperts == (n == nullptr || *n != 0);
  };
  return family;
}

template <bool kExperts>
constexpr Family Gemma4Family(Family family) {
  family.is_form = [](const JsonFields& config) { return Gemma4HasExperts(config) == kExperts; };
  return family;
}

template <FalconForm kForm>
constexpr Family FalconFamily(decltype(Family::read_spec) read_spec,
                              std::span<const Renamed> renamed) {
  Family family = GroupedFamily("falcon", read_spec, "transformer.h.", renamed);
  family.is_form = [](const JsonFields& config) { return FalconFormOf(config) == kForm; };
  return family;
}

// A nanoGPT that torch.compile has been over is saved with _orig_mod. before every name.
constexpr Family kFamilies[] = {
    {"niels-gpt", ReadNielsSpec, "blocks.", kNielsNames},
    LlamaFamily("llama", ReadLlamaRow<kLlamaRow>),
    LlamaFamily("mistral", ReadLlamaRow<kMistralRow>),
    LlamaFamily("ministral", ReadLlamaRow<kMinistralRow>),
    LlamaFamily("qwen2", ReadLlamaRow<kQwen2Row>),
    LlamaFamily("qwen3", ReadLlamaRow<kQwen3Row>),
    LlamaFamily("seed_oss", ReadLlamaRow<kSeedOssRow>),
    LlamaFamily("internlm3", ReadLlamaRow<kInternLm3Row>),
    LlamaFamily("helium", ReadLlamaRow<kHeliumRow>),
    LlamaFamily("ernie4_5", ReadLlamaRow<kErnie45Row>),
    LlamaFamily("cwm", ReadLlamaRow<kCwmRow>),
    LlamaFamily("olmo", ReadLlamaRow<kOlmoRow>),
    LlamaFamily("starcoder2", ReadLlamaRow<kStarcoder2Row>, kStarcoder2),
    LlamaFamily("arcee", ReadLlamaRow<kArceeRow>),
    LlamaFamily("hunyuan_v1_dense", ReadLlamaRow<kHunYuanRow>, kHunYuan),
    LlamaFamily("smollm3", ReadLlamaRow<kSmolLm3Row>),
    LlamaFamily("granite", ReadLlamaRow<kGraniteRow>),
    LlamaFamily("hyperclovax", ReadLlamaRow<kHyperClovaXRow>, kHyperClovaX),
    LlamaFamily("olmo2", ReadLlamaRow<kOlmo2Row>, kOlmo2),
    LlamaFamily("olmo3", ReadLlamaRow<kOlmo3Row>, kOlmo2),
    LlamaFamily("exaone4", ReadLlamaRow<kExaone4Row>, kOlmo2),
    LlamaFamily("glm", ReadLlamaRow<kGlmRow>, {}, kGateUpFused),
    LlamaFamily("glm4", ReadLlamaRow<kGlm4Row>, {}, kGateUpFused),
    LlamaFamily("gemma", ReadLlamaRow<kGemmaRow>),
    LlamaFamily("gemma2", ReadLlamaRow<kGemma2Row>, kGemma2),
    LlamaFamily("gemma3_text", ReadLlamaRow<kGemma3Row>, kGemma2),
    Gemma4Family<false>(LlamaFamily("gemma4_text", ReadGemma4Spec, kGemma2)),
    Gemma4Family<true>(Stacked(LlamaFamily("gemma4_text", ReadGemma4Spec, kGemma4Moe))),
    LlamaFamily("vaultgemma", ReadLlamaRow<kVaultGemmaRow>, kGemma2),
    LlamaFamily("phi3", ReadLlamaRow<kPhi3Row>, {}, kBothFused),
    LlamaFamily("cohere", ReadLlamaRow<kCohereRow>, kCohere),
    LlamaFamily("cohere2", ReadLlamaRow<kCohere2Row>, kCohere),
    LlamaFamily("stablelm", ReadLlamaRow<kStableLmRow>),
    LlamaFamily("nemotron", ReadLlamaRow<kNemotronRow>),
    LlamaFamily("jais2", ReadLlamaRow<kJais2Row>),
    LlamaFamily("phi", ReadLlamaRow<kPhiRow>, kPhi),
    GroupedFamily("persimmon", ReadLlamaRow<kPersimmonRow>, "model.layers.", kPersimmon),
    GroupedFamily("gpt_neox", ReadLlamaRow<kGptNeoXRow>, "gpt_neox.layers.", kGptNeoX),
    GroupedFamily("gpt_bigcode", ReadLlamaRow<kGptBigCodeRow>, "transformer.h.", kGptBigCode),
    GroupedFamily("bloom", ReadLlamaRow<kBloomRow>, "transformer.h.", kBloom),
    GroupedFamily("codegen", ReadLlamaRow<kCodeGenRow>, "transformer.h.", kGptJ,
                  StoredOrder::kQuarters),
    With(LlamaFamily("gptj", ReadLlamaRow<kGptJRow>, kGptJ), "transformer.h."),
    With(LlamaFamily("opt", ReadLlamaRow<kOptRow>, kOpt), "model.decoder.layers."),
    With(LlamaFamily("biogpt", ReadLlamaRow<kBioGptRow>, kBioGpt), "biogpt.layers."),
    With(LlamaFamily("gpt_neo", ReadLlamaRow<kGptNeoRow>, kGptNeo), "transformer.h."),
    LlamaFamily("xglm", ReadXglmSpec, kXglm),
    With(LlamaFamily("mpt", ReadMptSpec, kMpt, kQkvFused), "transformer.blocks."),
    FalconFamily<FalconForm::kOneNorm>(ReadLlamaRow<kFalconRow>, kFalconOneNorm),
    FalconFamily<FalconForm::kInTurn>(ReadLlamaRow<kFalconInTurnRow>, kFalcon),
    FalconFamily<FalconForm::kGroupedTwoNorms>(ReadLlamaRow<kFalconGroupedRow>, kFalconTwoNorms),
    FalconFamily<FalconForm::kGroupedOneNorm>(ReadLlamaRow<kFalconGroupedRow>, kFalconOneNorm),
    LlamaFamily("nanochat", ReadLlamaRow<kNanoChatRow>, kNanoChat),
    LlamaFamily("apertus", ReadLlamaRow<kApertusRow>, kApertus),
    LlamaFamily("bitnet", ReadLlamaRow<kBitNetRow>),
    LlamaFamily("ministral3", ReadMinistral3Spec),
    LlamaFamily("youtu", ReadLlamaRow<kYoutuRow>),
    WithFurtherLayers(LlamaFamily("deepseek_v3", ReadLlamaRow<kDeepSeekV3Row>)),
    LlamaFamily("deepseek_v2", ReadLlamaRow<kDeepSeekV2Row>),
    WithFurtherLayers(LlamaFamily("glm4_moe_lite", ReadLlamaRow<kGlm4LiteRow>)),
    LlamaFamily("mixtral", ReadLlamaRow<kMixtralRow>, kMixtral),
    LlamaFamily("qwen2_moe", ReadLlamaRow<kQwen2MoeRow>, kQwen2Moe),
    LlamaFamily("qwen3_moe", ReadLlamaRow<kQwen3MoeRow>),
    LlamaFamily("olmoe", ReadLlamaRow<kOlmoeRow>),
    LlamaFamily("flex_olmo", ReadLlamaRow<kFlexOlmoRow>, kOlmo2),
    WithFurtherLayers(LlamaFamily("glm4_moe", ReadLlamaRow<kGlm4MoeRow>)),
    LlamaFamily("dots1", ReadLlamaRow<kDots1Row>),
    LlamaFamily("solar_open", ReadLlamaRow<kSolarOpenRow>),
    LlamaFamily("exaone_moe", ReadLlamaRow<kExaoneMoeRow>, kExaoneMoe),
    LlamaFamily("ernie4_5_moe", ReadLlamaRow<kErnieMoeRow>, {}, kErnieMoeApart),
    LlamaFamily("hunyuan_v1_moe", ReadLlamaRow<kHunYuanMoeRow>, kHunYuanMoe),
    LlamaFamily("minimax_m2", ReadLlamaRow<kMiniMaxRow>, kMixtral),
    LlamaFamily("hy_v3", ReadLlamaRow<kHyV3Row>, kHyV3),
    LlamaFamily("afmoe", ReadLlamaRow<kAfmoeRow>, kAfmoe),
    Stacked(LlamaFamily("granitemoe", ReadLlamaRow<kGraniteMoeRow>, kGraniteMoe)),
    Stacked(LlamaFamily("granitemoeshared", ReadLlamaRow<kGraniteSharedRow>, kGraniteMoe,
                        kSharedFused)),
    LlamaFamily("lfm2", ReadLfm2Spec, kLfm2),
    LlamaFamily("lfm2_moe", ReadLlamaRow<kLfm2MoeRow>, kLfm2),
    LlamaFamily("qwen3_5_text", ReadLlamaRow<kQwen35Row>, {}, kQwen35Apart),
    LlamaFamily("qwen3_5_moe_text", ReadLlamaRow<kQwen35MoeRow>, kQwen2Moe, kQwen35Apart),
    LlamaFamily("qwen3_next", ReadLlamaRow<kQwenNextRow>, kQwen2Moe, kQwenNextFused),
    WithExperts<true>(Stacked(LlamaFamily("granitemoehybrid", ReadLlamaRow<kGraniteHybridRow>,
                                          kGraniteHybridNames, kSharedFused))),
    WithExperts<false>(LlamaFamily("granitemoehybrid", ReadLlamaRow<kGraniteHybridDenseRow>,
                                   kGraniteHybridNames, kGateUpFused)),
    With(LlamaFamily("nemotron_h", ReadLlamaRow<kNemotronHybridRow>, kNemotronNames),
         "backbone.layers."),
    {.model_type = "gpt_oss",
     .read_spec = ReadLlamaRow<kGptOssRow>,
     .layer_prefix = "model.layers.",
     .names = kGptOssNames,
     .optional_prefix = "model.",
     .unties_head = true,
     .renamed = kGptOss,
     .without = kApart,
     .experts = ExpertTensors::kStacked},
    {.model_type = "llama4_text",
     .read_spec = ReadLlama4Spec,
     .layer_prefix = "model.layers.",
     .names = kLlama4Names,
     .optional_prefix = "model.",
     .unties_head = true,
     .renamed = kLlama4,
     .without = kApart,
     .experts = ExpertTensors::kStacked},
    {.model_type = "openai-gpt",
     .read_spec = ReadLlamaRow<kOpenAiGptRow>,
     .layer_prefix = "transformer.h.",
     .names = kOpenAiGptNames,
     .optional_prefix = "transformer.",
     .unties_head = true,
     .renamed = kOpenAiGpt},
    {"nanogpt", ReadNanoGptSpec, "transformer.h.", kNanoGptNames, "_orig_mod."},
    {.model_type = "gpt2",
     .read_spec = ReadGpt2Spec,
     .layer_prefix = "transformer.h.",
     .names = kGpt2Names,
     .optional_prefix = "transformer.",
     .unties_head = true},
    {"postln", ReadPostLnSpec, "", kPostLnNames, "", ReadPostLnSizes},
};

}  // namespace

absl::StatusOr<const Family*> FindFamily(const JsonFields& config, const std::string& path) {
  NG_ASSIGN_OR_RETURN(const std::string model_type, config.Text("model_type"));
  std::vector<std::string> known;
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type && (family.is_form == nullptr || family.is_form(config))) {
      return &family;
    }
    if (known.empty() || known.back() != family.model_type) known.push_back(family.model_type);
  }
  return ModelFileError(absl::StrCat(path, ": key \"model_type\" = ", JsonExcerpt(model_type),
                                     ", must be one of: ", absl::StrJoin(known, ", ")));
}

void ForEachTensor(
    const Family& family, const ModelSpec& spec, ExpertTensors experts,
    absl::FunctionRef<void(const RoleName& entry, const TensorSite& at, const std::string& name)>
        visit) {
  const auto visit_entry = [&](const RoleName& entry, const TensorSite& at) {
    visit(entry, at, family.NameOf(entry, at));
  };
  const auto visit_group = [&](int layer) {
    for (const RoleName& entry : family.names) {
      if (entry.per_layer() != (layer >= 0)) continue;
      if (std::ranges::count(family.without, entry.role) > 0) continue;
      if (RoleShape(entry.role, spec, layer).empty()) continue;
      if (!entry.IsIn(experts)) continue;
      const int n_copies = CopiesOf(entry.role, spec, layer);
      if (n_copies == 0) visit_entry(entry, {layer});
      for (int i = 0; i < n_copies; ++i) visit_entry(entry, {layer, i});
    }
  };
  for (int layer = -1; layer < spec.shape.n_layers; ++layer) visit_group(layer);
}

ExpertTensors ExpertTensorsIn(const TensorSource& tensors, const Family& family,
                              const ModelSpec& spec) {
  const auto any = [&](ExpertTensors experts) {
    bool found = false;
    ForEachTensor(family, spec, experts,
                  [&](const RoleName& entry, const TensorSite&, const std::string& name) {
                    const bool of_expert = IsOfExpert(entry.role) && IsMatrix(entry.role);
                    found = found || (of_expert && family.FindIn(tensors, name) != nullptr);
                  });
    return found;
  };
  for (const ExpertTensors experts :
       {family.experts, ExpertTensors::kEach, ExpertTensors::kStacked, ExpertTensors::kBlocks}) {
    if (any(experts)) return experts;
  }
  return family.experts;
}

}  // namespace ng
