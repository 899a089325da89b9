#include "core/model/weights/tensor_roles.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "core/model/weights/attention_roles.h"
#include "core/model/weights/mlp_roles.h"
#include "core/model/weights/state_roles.h"
#include "core/model/weights/weight_types.h"

namespace ng {
namespace roles {
namespace {

int64_t PositionRows(const ModelSpec& s) {
  return s.shape.max_positions + s.embedding.position_offset;
}

// A role that occurs once.
struct ModelRow {
  TensorRole role;
  std::string_view title;
  Shape (*shape)(const ModelSpec& s);
  Place (*place)(const ModelSpec& s, ModelWeights& m);
};

// One tensor has those of all tables; 0: no table has any.
int64_t NumRopeFactors(const ModelSpec& spec) {
  const auto with = std::ranges::find_if(spec.ropes, &RopeSpec::factors);
  return with == spec.ropes.end() ? 0 : with->n_dims / 2;
}

constexpr ModelRow kModelRows[] = {
    {kTokenEmbedding, "token embedding",
     [](const ModelSpec& s) {
       return Shape{s.shape.vocab_size, s.width};
     },
     [](const ModelSpec&, ModelWeights& m) { return Rows(m.embedding); }},
    {kPositions, "position embedding",
     [](const ModelSpec& s) {
       return If(s.embedding.positions && !s.embedding.sinusoids, {PositionRows(s), s.width});
     },
     [](const ModelSpec& s, ModelWeights& m) {
       return Values(m.positions, PositionRows(s) * s.width);
     }},
    {kHead, "head",
     [](const ModelSpec& s) {
       return Shape{s.shape.vocab_size, s.width};
     },
     [](const ModelSpec&, ModelWeights& m) { return Rows(m.head); }},
    {kRopeFactors, "rope factors",
     [](const ModelSpec& s) { return If(NumRopeFactors(s) > 0, {NumRopeFactors(s)}); },
     [](const ModelSpec& s, ModelWeights& m) { return Values(m.rope_factors, NumRopeFactors(s)); }},
    {kFinalNorm, "final norm",
     [](const ModelSpec& s) { return If(s.head.norm.has_weight(), {s.width}); },
     [](const ModelSpec& s, ModelWeights& m) {
       return NormValues(s.head.norm, m.final_norm.weight, s.width);
     }},
    {kFinalNormBias, "final norm bias",
     [](const ModelSpec& s) { return If(s.head.norm.has_bias(), {s.width}); },
     [](const ModelSpec& s, ModelWeights& m) { return Values(m.final_norm.bias, s.width); }},
    {kEmbeddingNorm, "embedding norm",
     [](const ModelSpec& s) { return If(s.embedding.norm.has_weight(), {s.width}); },
     [](const ModelSpec& s, ModelWeights& m) {
       return NormValues(s.embedding.norm, m.embedding_norm.weight, s.width);
     }},
    {kEmbeddingNormBias, "embedding norm bias",
     [](const ModelSpec& s) { return If(s.embedding.norm.has_bias(), {s.width}); },
     [](const ModelSpec& s, ModelWeights& m) { return Values(m.embedding_norm.bias, s.width); }},
    {kHeadBias, "head bias",
     [](const ModelSpec& s) { return If(s.head.bias, {s.shape.vocab_size}); },
     [](const ModelSpec& s, ModelWeights& m) { return Values(m.head_bias, s.shape.vocab_size); }},
    {kLayerEmbedding, "embedding of the layers' input",
     [](const ModelSpec& s) {
       return If(s.layer_input.is_there(), {s.layer_input.vocab_size, s.LayerInputWidth()});
     },
     [](const ModelSpec&, ModelWeights& m) { return Rows(m.layer_embedding); }},
    {kLayerProjection, "projection of the layers' input",
     [](const ModelSpec& s) {
       return If(s.layer_input.is_there(), {s.LayerInputWidth(), s.width});
     },
     [](const ModelSpec&, ModelWeights& m) { return Rows(m.layer_projection); }},
    {kLayerInputNorm, "norm of the layers' input",
     [](const ModelSpec& s) { return If(s.layer_input.norm.has_weight(), {s.layer_input.width}); },
     [](const ModelSpec& s, ModelWeights& m) {
       return NormValues(s.layer_input.norm, m.layer_input_norm.weight, s.layer_input.width);
     }},
};

constexpr std::span<const BlockRow> kBlockRows[] = {kAttentionRows, kStateRows, kMlpRows};

// The rows are in the order of TensorRole, those of the model first.
constexpr bool InOrder() {
  size_t i = 0;
  for (const ModelRow& row : kModelRows) {
    if (static_cast<size_t>(row.role) != i++) return false;
  }
  for (const std::span<const BlockRow> rows : kBlockRows) {
    for (const BlockRow& row : rows) {
      if (static_cast<size_t>(row.role) != i++) return false;
    }
  }
  return static_cast<size_t>(kLayerInputFactor) + 1 == i;
}
static_assert(InOrder());

bool IsInModel(TensorRole role) { return static_cast<size_t>(role) < std::size(kModelRows); }
const ModelRow& ModelRowOf(TensorRole role) { return kModelRows[static_cast<size_t>(role)]; }
const BlockRow& BlockRowOf(TensorRole role) {
  size_t i = static_cast<size_t>(role) - std::size(kModelRows);
  const auto* table = std::begin(kBlockRows);
  for (; i >= table->size(); ++table) i -= table->size();
  return (*table)[i];
}

}  // namespace
}  // namespace roles

std::string_view RoleTitle(TensorRole role) {
  return roles::IsInModel(role) ? roles::ModelRowOf(role).title : roles::BlockRowOf(role).title;
}

bool IsMatrix(TensorRole role) {
  const bool in_model = role == TensorRole::kTokenEmbedding || role == TensorRole::kHead ||
                        role == TensorRole::kLayerEmbedding || role == TensorRole::kLayerProjection;
  if (roles::IsInModel(role)) return in_model;
  return roles::BlockRowOf(role).parts != 0;
}

bool IsAddedBias(TensorRole role) {
  using enum TensorRole;
  constexpr TensorRole kBiases[] = {kHeadBias,
                                    kQkvBias,
                                    kQBias,
                                    kKBias,
                                    kVBias,
                                    kAttnOutBias,
                                    kStateInBias,
                                    kStateOutBias,
                                    kMlpGateBias,
                                    kMlpUpBias,
                                    kMlpDownBias,
                                    kRouterBias,
                                    kSelectionBias,
                                    kSelectionBiasRow,
                                    kExpertGateUpBias,
                                    kExpertGateBias,
                                    kExpertUpBias,
                                    kExpertDownBias};
  return std::ranges::find(kBiases, role) != std::end(kBiases);
}

std::vector<int64_t> RoleShape(TensorRole role, const ModelSpec& spec, int layer) {
  if (roles::IsInModel(role)) return roles::ModelRowOf(role).shape(spec);
  const roles::BlockRow& row = roles::BlockRowOf(role);
  const roles::Site at = roles::SiteOf(spec, layer, row.operations);
  return at.block == nullptr ? std::vector<int64_t>() : row.shape(at);
}

int ExpertsOf(const ModelSpec& spec, int layer) {
  if (layer < 0) return 0;
  const roles::Site at = roles::SiteOf(spec, layer, roles::kMixture);
  return at.block == nullptr ? 0 : at.router().n_experts;
}

bool IsOfExpert(TensorRole role) {
  return !roles::IsInModel(role) && roles::BlockRowOf(role).of_expert;
}

int CopiesOf(TensorRole role, const ModelSpec& spec, int layer) {
  if (IsOfExpert(role)) return ExpertsOf(spec, layer);
  if (roles::IsInModel(role) || !roles::BlockRowOf(role).of_head) return 0;
  const roles::Site at = roles::SiteOf(spec, layer, roles::kAttention);
  return at.block == nullptr ? 0 : at.attention().n_heads;
}

Place RolePlace(TensorRole role, const ModelSpec& spec, const TensorSite& where,
                ModelWeights& weights) {
  if (roles::IsInModel(role)) return roles::ModelRowOf(role).place(spec, weights);
  const roles::BlockRow& row = roles::BlockRowOf(role);
  roles::Site at = roles::SiteOf(spec, where.layer, row.operations);
  at.expert = where.expert;
  return row.place(at, weights.layers[static_cast<size_t>(where.layer)][at.index]);
}

void SetRoleType(TensorRole role, const ModelSpec& spec, const TensorSite& where, WeightType type,
                 WeightTypes& types) {
  if (role == TensorRole::kTokenEmbedding) types.embedding = type;
  if (role == TensorRole::kHead) types.head = type;
  if (role == TensorRole::kLayerEmbedding) types.layer_input->out = type;
  if (role == TensorRole::kLayerProjection) types.layer_input->in[0] = type;
  if (roles::IsInModel(role)) return;
  const roles::BlockRow& row = roles::BlockRowOf(role);
  const roles::Site at = roles::SiteOf(spec, where.layer, row.operations);
  BlockWeightTypes& block = types.layers[static_cast<size_t>(where.layer)][at.index];
  MatrixPairTypes& matrices = row.of_expert ? *block.experts : block;
  // One that shares its type with another that was there before.
  const bool shares =
      where.expert > 0 || role == TensorRole::kAttnGate || role == TensorRole::kStateStep;
  const auto set = [&](WeightType& part) {
    part = shares && part != type ? WeightType::kF32 : type;
  };
  for (size_t part = 0; part < matrices.in.size(); ++part) {
    if ((row.parts >> part & 1) != 0) set(matrices.in[part]);
  }
  if ((row.parts & roles::kOut) != 0) set(matrices.out);
  if ((row.parts & roles::kQUpPart) != 0) block.latent->in[0] = type;
  if ((row.parts & roles::kKUpPart) != 0) block.latent->in[1] = type;
  if ((row.parts & roles::kVUpPart) != 0) block.latent->out = type;
}

}  // namespace ng
