#include "core/model/files/mlx_tensors.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include "core/model/weights/tensor_roles.h"

namespace ng {
namespace {

struct MlxEnding {
  std::string_view of_name;
  TensorRole role;
};
constexpr MlxEnding kExpertEndings[] = {
    {".gate_proj.weight", TensorRole::kExpertGate},
    {".gate_proj.bias", TensorRole::kExpertGateBias},
    {".up_proj.weight", TensorRole::kExpertUp},
    {".up_proj.bias", TensorRole::kExpertUpBias},
    {".down_proj.weight", TensorRole::kExpertDown},
    {".down_proj.bias", TensorRole::kExpertDownBias},
    // Of experts without a gate.
    {".fc1.weight", TensorRole::kExpertUp},
    {".fc2.weight", TensorRole::kExpertDown},
};
// What the names of experts' tensors have before their ending.
constexpr std::string_view kExpertParts[] = {".switch_mlp", ".experts"};
// Endings that are enough: of latents, and of LFM2's feed-forward.
constexpr MlxEnding kWholeEndings[] = {{".embed_q.weight", TensorRole::kKUp},
                                       {".unembed_out.weight", TensorRole::kVUp},
                                       {".feed_forward.gate_proj.weight", TensorRole::kMlpGate},
                                       {".feed_forward.up_proj.weight", TensorRole::kMlpUp},
                                       {".feed_forward.down_proj.weight", TensorRole::kMlpDown}};

std::optional<TensorRole> MlxRoleOf(std::string_view name) {
  for (const MlxEnding& ending : kWholeEndings) {
    if (name.ends_with(ending.of_name)) return ending.role;
  }
  for (const MlxEnding& ending : kExpertEndings) {
    if (!name.ends_with(ending.of_name)) continue;
    name.remove_suffix(ending.of_name.size());
    if (std::ranges::any_of(kExpertParts, [&](auto part) { return name.ends_with(part); })) {
      return ending.role;
    }
  }
  return std::nullopt;
}

bool HasRole(const ModelSpec& spec, TensorRole role, int layer) {
  return !RoleShape(role, spec, layer).empty() &&
         (!IsOfExpert(role) || CopiesOf(role, spec, layer) > 0);
}

}  // namespace

MlxTensors::MlxTensors(const TensorSource& source, const Family& family, const ModelSpec& spec) {
  for (const TensorInfo& tensor : source.tensors()) {
    const std::optional<TensorRole> role = MlxRoleOf(tensor.name);
    if (!role) continue;
    const std::optional<int64_t> found = family.LayerOf(tensor.name);
    if (!found || *found >= spec.shape.n_layers) continue;
    const auto layer = static_cast<int>(*found);
    if (!HasRole(spec, *role, layer)) continue;
    all_.insert({{layer, *role}, &tensor});
    has_experts_ = has_experts_ || IsOfExpert(*role);
  }
}

bool MlxTensors::Replace(TensorRole role, int layer) const {
  const auto has = [&](TensorRole part) { return all_.contains({layer, part}); };
  return role == TensorRole::kKvUp ? has(TensorRole::kKUp) && has(TensorRole::kVUp) : has(role);
}

std::vector<std::string> MlxTensors::Missing(const ModelSpec& spec) const {
  std::vector<std::string> missing;
  for (const auto& [at, tensor] : all_) {
    const auto& [layer, role] = at;
    if (role != TensorRole::kExpertDown) continue;
    const std::string& name = tensor->name;
    const std::string before = name.substr(0, name.rfind('.', name.rfind('.') - 1));
    for (const MlxEnding& ending : kExpertEndings) {
      const bool of_kind = ending.of_name.starts_with(".fc") == name.ends_with(".fc2.weight");
      if (!of_kind || !HasRole(spec, ending.role, layer) || Replace(ending.role, layer)) continue;
      missing.push_back(before + std::string(ending.of_name));
    }
  }
  return missing;
}

void UseMlxNorms(const TensorSource& source, ModelSpec* spec) {
  constexpr size_t kRank = 3;
  const bool turned = std::ranges::any_of(source.tensors(), [](const TensorInfo& tensor) {
    return tensor.name.ends_with("conv1d.weight") && tensor.shape.size() == kRank &&
           tensor.shape[1] != 1 && tensor.shape[2] == 1;
  });
  if (!turned) return;
  for (LayerSpec& layer : spec->layers) {
    for (BlockSpec& block : layer) block.before.offset = 0.0F;
  }
  for (SelfAttentionSpec& attention : spec->attentions) attention.qk_norm.offset = 0.0F;
  spec->head.norm.offset = 0.0F;
}

}  // namespace ng
