#include "core/model/tensor_roles.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "core/model/row_packer.h"
#include "core/model/weight_types.h"
#include "core/model/weights.h"

namespace ng {
namespace {

using enum TensorRole;
using Shape = std::vector<int64_t>;
using Types = LayerWeightTypes;

// Of what only some models have.
Shape If(bool has, const Shape& shape) { return has ? shape : Shape(); }

Shape Vocabulary(const ModelSpec& s) { return {s.shape.vocab_size, s.width}; }
Shape NormWeight(const ModelSpec& s) { return If(s.norm_affine, {s.width}); }
Shape NormBias(const ModelSpec& s) { return If(s.norm_bias, {s.width}); }
Shape FinalNormWeight(const ModelSpec& s) {
  return If(s.norm_affine && s.norm_placement == NormPlacement::kPre, {s.width});
}
Shape HeadNorm(const ModelSpec& s) { return If(s.qk_norm, {s.shape.head_dim}); }
Shape KvRows(const ModelSpec& s) { return {s.kv_width(), s.width}; }
Shape KvBias(const ModelSpec& s) { return If(s.qkv_bias, {s.kv_width()}); }

Place Rows(PackedMatrix& matrix, int64_t first = 0) { return {.matrix = &matrix, .first = first}; }
Place Values(std::vector<float>& vector, int64_t size, int64_t first = 0) {
  return {.vector = &vector, .first = first, .size = size};
}

// The gate, or the up part when there is one.
Place Half(Place place, const ModelSpec& spec, bool up) {
  place.interleaved = spec.gated();
  place.first = up && spec.gated() ? kBlockColumns : 0;
  return place;
}

struct RoleRow {
  TensorRole role;
  std::string_view title;
  Shape (*shape)(const ModelSpec& s);
  // One of the two: in the model, or in a layer.
  Place (*in_model)(const ModelSpec& s, ModelWeights& m);
  Place (*in_layer)(const ModelSpec& s, LayerWeights& w);
  std::array<WeightType Types::*, 3> types = {};  // of its matrix, in a layer
};

// In the order of TensorRole.
constexpr RoleRow kRows[] = {
    {kTokenEmbedding, "token embedding", Vocabulary,
     [](const ModelSpec&, ModelWeights& m) { return Rows(m.embedding); }, nullptr},
    {kPositions, "position embedding",
     [](const ModelSpec& s) {
       return If(s.position == PositionKind::kLearned, {s.shape.max_positions, s.width});
     },
     [](const ModelSpec& s, ModelWeights& m) {
       return Values(m.positions, s.shape.max_positions * s.width);
     },
     nullptr},
    {kHead, "head", Vocabulary, [](const ModelSpec&, ModelWeights& m) { return Rows(m.head); },
     nullptr},
    {kRopeFactors, "rope factors",
     [](const ModelSpec& s) { return If(s.rope_factors, {s.shape.head_dim / 2}); },
     [](const ModelSpec& s, ModelWeights& m) {
       return Values(m.rope_factors, s.shape.head_dim / 2);
     },
     nullptr},
    {kFinalNorm, "final norm", FinalNormWeight,
     [](const ModelSpec& s, ModelWeights& m) { return Values(m.final_norm.weight, s.width); },
     nullptr},
    {kFinalNormBias, "final norm bias", NormBias,
     [](const ModelSpec& s, ModelWeights& m) { return Values(m.final_norm.bias, s.width); },
     nullptr},
    {kAttnNorm, "attention norm", NormWeight, nullptr,
     [](const ModelSpec& s, LayerWeights& w) { return Values(w.attn_norm.weight, s.width); }},
    {kAttnNormBias, "attention norm bias", NormBias, nullptr,
     [](const ModelSpec& s, LayerWeights& w) { return Values(w.attn_norm.bias, s.width); }},
    {kQkv,
     "q, k, v",
     [](const ModelSpec& s) {
       return Shape{s.qkv_width(), s.width};
     },
     nullptr,
     [](const ModelSpec&, LayerWeights& w) { return Rows(w.qkv); },
     {&Types::q, &Types::k, &Types::v}},
    {kQ,
     "q",
     [](const ModelSpec& s) {
       return Shape{s.q_width(), s.width};
     },
     nullptr,
     [](const ModelSpec&, LayerWeights& w) { return Rows(w.qkv); },
     {&Types::q}},
    {kK,
     "k",
     KvRows,
     nullptr,
     [](const ModelSpec& s, LayerWeights& w) { return Rows(w.qkv, s.q_width()); },
     {&Types::k}},
    {kV,
     "v",
     KvRows,
     nullptr,
     [](const ModelSpec& s, LayerWeights& w) { return Rows(w.qkv, s.q_width() + s.kv_width()); },
     {&Types::v}},
    {kQkvBias, "q, k, v bias", [](const ModelSpec& s) { return If(s.qkv_bias, {s.qkv_width()}); },
     nullptr,
     [](const ModelSpec& s, LayerWeights& w) { return Values(w.qkv_bias, s.qkv_width()); }},
    {kQBias, "q bias", [](const ModelSpec& s) { return If(s.qkv_bias, {s.q_width()}); }, nullptr,
     [](const ModelSpec& s, LayerWeights& w) { return Values(w.qkv_bias, s.qkv_width()); }},
    {kKBias, "k bias", KvBias, nullptr,
     [](const ModelSpec& s, LayerWeights& w) {
       return Values(w.qkv_bias, s.qkv_width(), s.q_width());
     }},
    {kVBias, "v bias", KvBias, nullptr,
     [](const ModelSpec& s, LayerWeights& w) {
       return Values(w.qkv_bias, s.qkv_width(), s.q_width() + s.kv_width());
     }},
    {kQNorm, "q norm", HeadNorm, nullptr,
     [](const ModelSpec& s, LayerWeights& w) { return Values(w.q_norm, s.shape.head_dim); }},
    {kKNorm, "k norm", HeadNorm, nullptr,
     [](const ModelSpec& s, LayerWeights& w) { return Values(w.k_norm, s.shape.head_dim); }},
    {kAttnOut,
     "attention output",
     [](const ModelSpec& s) {
       return Shape{s.width, s.q_width()};
     },
     nullptr,
     [](const ModelSpec&, LayerWeights& w) { return Rows(w.attn_out); },
     {&Types::attn_out}},
    {kAttnOutBias, "attention output bias",
     [](const ModelSpec& s) { return If(s.attn_out_bias, {s.width}); }, nullptr,
     [](const ModelSpec& s, LayerWeights& w) { return Values(w.attn_out_bias, s.width); }},
    {kMlpNorm, "mlp norm", NormWeight, nullptr,
     [](const ModelSpec& s, LayerWeights& w) { return Values(w.mlp_norm.weight, s.width); }},
    {kMlpNormBias, "mlp norm bias", NormBias, nullptr,
     [](const ModelSpec& s, LayerWeights& w) { return Values(w.mlp_norm.bias, s.width); }},
    {kMlpGate,
     "mlp gate",
     [](const ModelSpec& s) {
       return If(s.gated(), {s.ffn_width, s.width});
     },
     nullptr,
     [](const ModelSpec& s, LayerWeights& w) { return Half(Rows(w.gate_up), s, false); },
     {&Types::gate}},
    {kMlpGateBias, "mlp gate bias",
     [](const ModelSpec& s) { return If(s.gated() && s.mlp_bias, {s.ffn_width}); }, nullptr,
     [](const ModelSpec& s, LayerWeights& w) {
       return Half(Values(w.gate_up_bias, s.gate_up_width()), s, false);
     }},
    {kMlpUp,
     "mlp up",
     [](const ModelSpec& s) {
       return Shape{s.ffn_width, s.width};
     },
     nullptr,
     [](const ModelSpec& s, LayerWeights& w) { return Half(Rows(w.gate_up), s, true); },
     {&Types::up}},
    {kMlpUpBias, "mlp up bias", [](const ModelSpec& s) { return If(s.mlp_bias, {s.ffn_width}); },
     nullptr,
     [](const ModelSpec& s, LayerWeights& w) {
       return Half(Values(w.gate_up_bias, s.gate_up_width()), s, true);
     }},
    {kMlpDown,
     "mlp down",
     [](const ModelSpec& s) {
       return Shape{s.width, s.ffn_width};
     },
     nullptr,
     [](const ModelSpec&, LayerWeights& w) { return Rows(w.down); },
     {&Types::down}},
    {kMlpDownBias, "mlp down bias", [](const ModelSpec& s) { return If(s.mlp_bias, {s.width}); },
     nullptr, [](const ModelSpec& s, LayerWeights& w) { return Values(w.down_bias, s.width); }},
};

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<size_t>(kRows[i].role) != i) return false;
  }
  return static_cast<size_t>(kMlpDownBias) + 1 == std::size(kRows);
}
static_assert(InOrder());

const RoleRow& RowOf(TensorRole role) { return kRows[static_cast<size_t>(role)]; }

}  // namespace

std::string_view RoleTitle(TensorRole role) { return RowOf(role).title; }

Shape RoleShape(TensorRole role, const ModelSpec& spec) { return RowOf(role).shape(spec); }

Place RolePlace(TensorRole role, const ModelSpec& spec, int layer, ModelWeights& weights) {
  const RoleRow& row = RowOf(role);
  if (row.in_layer == nullptr) return row.in_model(spec, weights);
  return row.in_layer(spec, weights.layers[static_cast<size_t>(layer)]);
}

void SetRoleType(TensorRole role, WeightType type, LayerWeightTypes& types) {
  for (const auto member : RowOf(role).types) {
    if (member != nullptr) types.*member = type;
  }
}

}  // namespace ng
