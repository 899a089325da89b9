#include "core/model/weight_types.h"

#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

std::optional<WeightType> TypeNamed(std::string_view name) {
  if (name == "f32") return WeightType::kF32;
  if (name == "bf16") return WeightType::kBf16;
  if (name == "f16") return WeightType::kF16;
  if (name == "int8") return WeightType::kInt8;
  if (name == "int4") return WeightType::kInt4;
  return std::nullopt;
}

// The type that holds a tensor of this one as it is.
std::optional<WeightType> OwnType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return WeightType::kF32;
    case DType::kBf16:
      return WeightType::kBf16;
    case DType::kF16:
      return WeightType::kF16;
    case DType::kQ80:
      return WeightType::kInt8;
    case DType::kQ40:
      return WeightType::kInt4;
    default:
      return std::nullopt;
  }
}

// The narrowest type that holds both without loss: the grid of int8 has int4's values.
WeightType Common(WeightType a, WeightType b) {
  if (a == b) return a;
  const auto is_grid = [](WeightType type) {
    return type == WeightType::kInt8 || type == WeightType::kInt4;
  };
  return is_grid(a) && is_grid(b) ? WeightType::kInt8 : WeightType::kF32;
}

// Where the type of a role's matrix is; null for what is no matrix.
WeightType* SlotOf(const TensorBinding& binding, WeightTypes& types) {
  if (binding.role == TensorRole::kTokenEmbedding) return &types.embedding;
  if (binding.role == TensorRole::kHead) return &types.head;
  if (binding.layer < 0) return nullptr;
  LayerWeightTypes& layer = types.layers[static_cast<size_t>(binding.layer)];
  switch (binding.role) {
    case TensorRole::kQkv:
    case TensorRole::kQ:
    case TensorRole::kK:
    case TensorRole::kV:
      return &layer.qkv;
    case TensorRole::kAttnOut:
      return &layer.attn_out;
    case TensorRole::kMlpGate:
    case TensorRole::kMlpUp:
      return &layer.gate_up;
    case TensorRole::kMlpDown:
      return &layer.down;
    default:
      return nullptr;
  }
}

absl::StatusOr<WeightTypes> OwnTypes(const ModelFile& file) {
  WeightTypes types = UniformWeightTypes(file.spec, WeightType::kF32);
  std::set<const WeightType*> known;
  for (const TensorBinding& binding : file.bindings) {
    WeightType* const slot = SlotOf(binding, types);
    if (slot == nullptr) continue;
    const TensorInfo& tensor = *binding.tensor;
    const std::optional<WeightType> own = OwnType(tensor.dtype);
    if (!own) {
      return ModelFileError(absl::StrCat(
          file.source->path(), ": tensor \"", tensor.name, "\" is ", View(DTypeName(tensor.dtype)),
          ", which no kernel of this build reads as it is; model.weights = f32 keeps its values; "
          "bf16, f16, int8 and int4 round them"));
    }
    *slot = known.insert(slot).second ? *own : Common(*slot, *own);
  }
  if (file.spec.tied_head) types.head = types.embedding;
  return types;
}

}  // namespace

WeightTypes UniformWeightTypes(const ModelSpec& spec, WeightType type) {
  WeightTypes types;
  types.embedding = types.head = type == WeightType::kInt4 ? WeightType::kInt8 : type;
  types.layers.assign(static_cast<size_t>(spec.shape.n_layers), {type, type, type, type});
  return types;
}

absl::StatusOr<WeightTypes> WeightTypesFor(const ModelFile& file, std::string_view config_value) {
  if (config_value == "auto") return OwnTypes(file);
  const std::optional<WeightType> type = TypeNamed(config_value);
  if (type) return UniformWeightTypes(file.spec, *type);
  return PluginError(absl::StrCat("model.weights = ", View(config_value),
                                  ": no kernel of this build holds weights so; can run: auto, "
                                  "f32, bf16, f16, int8, int4"));
}

}  // namespace ng
