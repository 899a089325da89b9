#include "core/model/load/file_types.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/formats/ggml_blocks.h"
#include "core/model/weights/tensor_roles.h"

namespace ng {
namespace {

std::optional<WeightType> TypeNamed(std::string_view name) {
  if (name == "f32") return WeightType::kF32;
  if (name == "bf16") return WeightType::kBf16;
  if (name == "f16") return WeightType::kF16;
  if (name == "int8") return WeightType::kInt8;
  if (name == "int4") return WeightType::kInt4;
  return std::nullopt;
}

// The type that holds a tensor as it is. Products with MXFP4 round their inputs to bytes; BF16 has
// all its values too. What is computed of codes and is no type of its own is held as BF16, nearly.
// Blocks
// that are read the other way round are blocks no more: f32 has all their values.
WeightType OwnType(const TensorBinding& binding, bool packs_mxfp4) {
  const DType dtype = binding.tensor->dtype;
  if (dtype == DType::kMxfp4 && !packs_mxfp4) return WeightType::kBf16;
  if (IsBlockType(dtype)) return binding.transposed ? WeightType::kF32 : BlockGrid(dtype);
  if (dtype == DType::kBf16 || dtype == DType::kComputed) return WeightType::kBf16;
  return dtype == DType::kF16 ? WeightType::kF16 : WeightType::kF32;
}

// Whether parts of these types, the later ones beginning at these rows, can share a matrix.
bool CanShare(std::initializer_list<WeightType> parts, std::initializer_list<int64_t> begins) {
  const WeightType first = *parts.begin();
  if (std::ranges::all_of(parts, [&](WeightType type) { return type == first; })) return true;
  return std::ranges::all_of(parts, IsIntegers) &&
         std::ranges::all_of(begins, [](int64_t row) { return row % kBlockColumns == 0; });
}

void ShareGateUp(const FeedForwardSpec& feed_forward, std::array<WeightType, 3>* in) {
  auto& [gate, up, third] = *in;
  if (!feed_forward.gated) gate = up;
  if (!CanShare({gate, up}, {})) gate = up = WeightType::kF32;
  third = up;
}

WeightTypes OwnTypes(const ModelFile& file, bool packs_mxfp4) {
  const ModelSpec& spec = file.spec;
  WeightTypes types = UniformWeightTypes(spec, WeightType::kF32);
  for (const TensorBinding& binding : file.bindings) {
    SetRoleType(binding.role, spec, binding.at, OwnType(binding, packs_mxfp4), types);
  }
  for (size_t i = 0; i < types.layers.size(); ++i) {
    for (size_t b = 0; b < types.layers[i].size(); ++b) {
      const BlockSpec& block = spec.layers[i][b];
      BlockWeightTypes& held = types.layers[i][b];
      if (block.operation == Operation::kAttention) {
        auto& in = held.in;
        const SelfAttentionSpec& attention = spec.AttentionOf(block);
        if (!attention.has_keys()) in[1] = in[2] = in[0];
        if (attention.v_is_k) in[2] = in[1];
        if (attention.latent.is_there()) {
          auto& [q_up, k_up, none] = held.latent->in;
          if (attention.latent.q_rank == 0) q_up = k_up;
          none = k_up;
          in[2] = in[1];
        }
        const int64_t k_begin = attention.q_in_width();
        const int64_t v_begin = attention.latent.is_there() ? 0 : k_begin + attention.k_width();
        const int64_t gate_begin = attention.gate ? attention.qkv_width() : 0;
        if (!CanShare({in[0], in[1], in[2]}, {k_begin, v_begin, gate_begin})) in = {};
      } else if (block.operation == Operation::kState) {
        auto& in = held.in;
        const StateSpec& state = spec.StateOf(block);
        if (state.head_values() == 0) in[1] = in[2] = in[0];
        const int64_t gate = state.conv_width;
        if (!CanShare({in[0], in[1], in[2]}, {gate, gate + state.out_width()})) in = {};
      } else if (block.operation != Operation::kMixture) {
        ShareGateUp(spec.FeedForwardOf(block), &held.in);
      } else {
        ShareGateUp(spec.MixtureOf(block).shared, &held.in);
        ShareGateUp(spec.MixtureOf(block).expert, &held.experts->in);
        if (!spec.MixtureOf(block).has_shared()) {
          static_cast<MatrixPairTypes&>(held) = *held.experts;
        }
      }
    }
  }
  if (spec.head.tied) types.head = types.embedding;
  return types;
}

}  // namespace

absl::StatusOr<WeightTypes> WeightTypesFor(const ModelFile& file, std::string_view config_value) {
  if (config_value == "auto") return OwnTypes(file, file.of_gguf);
  if (config_value == "mxfp4") {
    const auto is_mxfp4 = [](const TensorBinding& at) { return at.tensor->dtype == DType::kMxfp4; };
    if (std::ranges::any_of(file.bindings, is_mxfp4)) return OwnTypes(file, true);
    return PluginError(absl::StrCat("model.weights = mxfp4: no tensor of ", file.source->path(),
                                    " is MXFP4; can run: auto, f32, bf16, f16, int8, int4"));
  }
  const std::optional<WeightType> type = TypeNamed(config_value);
  if (type) return UniformWeightTypes(file.spec, *type);
  return PluginError(absl::StrCat("model.weights = ", View(config_value),
                                  ": no kernel of this build holds weights so; can run: auto, "
                                  "f32, bf16, f16, int8, int4, mxfp4"));
}

}  // namespace ng
