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

// Where a role is looked for: in a model, or in one of its blocks.
struct Site {
  const ModelSpec& model;
  const BlockSpec* block = nullptr;
  size_t index = 0;  // of the block in its layer

  const SelfAttentionSpec& attention() const { return model.AttentionOf(*block); }
  const FeedForwardSpec& feed_forward() const { return model.FeedForwardOf(*block); }
};

// The block of a layer that does this; null where it has none.
Site SiteOf(const ModelSpec& model, int layer, Operation operation) {
  const LayerSpec& blocks = model.layers[static_cast<size_t>(layer)];
  const auto found = std::ranges::find(blocks, operation, &BlockSpec::operation);
  if (found == blocks.end()) return {model};
  return {model, &*found, static_cast<size_t>(found - blocks.begin())};
}

// Of what only some models have.
Shape If(bool has, const Shape& shape) { return has ? shape : Shape(); }

Place Rows(PackedMatrix& matrix, int64_t first = 0) { return {.matrix = &matrix, .first = first}; }
Place Values(std::vector<float>& vector, int64_t size, int64_t first = 0) {
  return {.vector = &vector, .first = first, .size = size};
}
Place NormValues(const NormSpec& norm, std::vector<float>& weight, int64_t size) {
  return {.vector = &weight, .size = size, .offset = norm.offset};
}

// The gate, or the up part when there is one.
Place Half(Place place, const Site& at, bool up) {
  const bool gated = at.feed_forward().gated;
  if (gated) place.order = RowOrder::kInterleaved;
  place.first = up && gated ? kBlockColumns : 0;
  return place;
}

// Parts of a block's first matrix, and its second matrix.
constexpr int kIn0 = 1;
constexpr int kIn1 = 2;
constexpr int kIn2 = 4;
constexpr int kOut = 8;

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

// A role in the block that does `operation`.
struct BlockRow {
  TensorRole role;
  Operation operation;
  std::string_view title;
  Shape (*shape)(const Site& at);
  Place (*place)(const Site& at, BlockWeights& w);
  int parts = 0;  // of the block's matrices
};

constexpr ModelRow kModelRows[] = {
    {kTokenEmbedding, "token embedding",
     [](const ModelSpec& s) {
       return Shape{s.shape.vocab_size, s.width};
     },
     [](const ModelSpec&, ModelWeights& m) { return Rows(m.embedding); }},
    {kPositions, "position embedding",
     [](const ModelSpec& s) {
       return If(s.embedding.positions, {PositionRows(s), s.width});
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
     [](const ModelSpec& s) {
       return !s.ropes.empty() && s.ropes[0].factors ? Shape{s.ropes[0].n_dims / 2} : Shape();
     },
     [](const ModelSpec& s, ModelWeights& m) {
       return Values(m.rope_factors, s.ropes[0].n_dims / 2);
     }},
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
};

constexpr Operation kAttention = Operation::kAttention;
constexpr Operation kFeedForward = Operation::kFeedForward;

Shape BeforeWeight(const Site& at) { return If(at.block->before.has_weight(), {at.model.width}); }
Shape BeforeBias(const Site& at) { return If(at.block->before.has_bias(), {at.model.width}); }
Place BeforeWeightPlace(const Site& at, BlockWeights& w) {
  return NormValues(at.block->before, w.before.weight, at.model.width);
}
Place BeforeBiasPlace(const Site& at, BlockWeights& w) {
  return Values(w.before.bias, at.model.width);
}
// The norm behind the operation, of which a block has at most one with weights.
const NormSpec& PostNorm(const Site& at) {
  return at.block->after.is_there() ? at.block->after : at.block->stream_norm;
}
NormWeights& PostNormWeights(const Site& at, BlockWeights& w) {
  return at.block->after.is_there() ? w.after : w.stream_norm;
}
Shape PostWeight(const Site& at) { return If(PostNorm(at).has_weight(), {at.model.width}); }
Shape PostBias(const Site& at) { return If(PostNorm(at).has_bias(), {at.model.width}); }
Place PostWeightPlace(const Site& at, BlockWeights& w) {
  return NormValues(PostNorm(at), PostNormWeights(at, w).weight, at.model.width);
}
Place PostBiasPlace(const Site& at, BlockWeights& w) {
  return Values(PostNormWeights(at, w).bias, at.model.width);
}

Shape KvRows(const Site& at) { return {at.attention().kv_width(), at.model.width}; }
Shape KvBias(const Site& at) { return If(at.attention().qkv_bias, {at.attention().kv_width()}); }
// Of a norm of so many heads of q or of k.
Shape QkShape(const Site& at, int n_heads) {
  const SelfAttentionSpec& a = at.attention();
  if (a.qk_norm_kind == QkNormKind::kWidth) return {int64_t{n_heads} * a.head_dim};
  if (a.qk_norm_kind == QkNormKind::kEachHead) return {n_heads, a.head_dim};
  return {a.head_dim};
}
template <int SelfAttentionSpec::*kHeads>
Shape QkNorm(const Site& at) {
  return If(at.attention().qk_norm.has_weight(), QkShape(at, at.attention().*kHeads));
}
template <int SelfAttentionSpec::*kHeads>
Shape QkNormBias(const Site& at) {
  return If(at.attention().qk_norm.has_bias(), QkShape(at, at.attention().*kHeads));
}
template <int SelfAttentionSpec::*kHeads, NormWeights BlockWeights::*kNorm>
Place QkNormPlace(const Site& at, BlockWeights& w) {
  const SelfAttentionSpec& a = at.attention();
  return NormValues(a.qk_norm, (w.*kNorm).weight, a.qk_norm_values(a.*kHeads));
}
template <int SelfAttentionSpec::*kHeads, NormWeights BlockWeights::*kNorm>
Place QkNormBiasPlace(const Site& at, BlockWeights& w) {
  return Values((w.*kNorm).bias, at.attention().qk_norm_values(at.attention().*kHeads));
}
constexpr auto kQHeads = &SelfAttentionSpec::n_heads;
constexpr auto kKHeads = &SelfAttentionSpec::n_kv_heads;
constexpr auto kOfQ = &BlockWeights::q_norm;
constexpr auto kOfK = &BlockWeights::k_norm;
// q, k or v in a bias of them all.
Place InBias(const Site& at, BlockWeights& w, int64_t first) {
  return Values(w.in_bias, at.attention().qkv_width(), first);
}
Place OutBias(const Site& at, BlockWeights& w) { return Values(w.out_bias, at.model.width); }

constexpr BlockRow kBlockRows[] = {
    {kAttnNorm, kAttention, "attention norm", BeforeWeight, BeforeWeightPlace},
    {kAttnNormBias, kAttention, "attention norm bias", BeforeBias, BeforeBiasPlace},
    {kAttnPostNorm, kAttention, "norm after attention", PostWeight, PostWeightPlace},
    {kAttnPostNormBias, kAttention, "norm after attention bias", PostBias, PostBiasPlace},
    {kQkv, kAttention, "q, k, v",
     [](const Site& at) {
       return Shape{at.attention().qkv_width(), at.model.width};
     },
     [](const Site&, BlockWeights& w) { return Rows(w.in); }, kIn0 | kIn1 | kIn2},
    {kQ, kAttention, "q",
     [](const Site& at) {
       return Shape{at.attention().q_width(), at.model.width};
     },
     [](const Site&, BlockWeights& w) { return Rows(w.in); }, kIn0},
    {kK, kAttention, "k", KvRows,
     [](const Site& at, BlockWeights& w) { return Rows(w.in, at.attention().q_width()); }, kIn1},
    {kV, kAttention, "v", KvRows,
     [](const Site& at, BlockWeights& w) {
       return Rows(w.in, at.attention().q_width() + at.attention().kv_width());
     },
     kIn2},
    {kQkvBias, kAttention, "q, k, v bias",
     [](const Site& at) { return If(at.attention().qkv_bias, {at.attention().qkv_width()}); },
     [](const Site& at, BlockWeights& w) { return InBias(at, w, 0); }},
    {kQBias, kAttention, "q bias",
     [](const Site& at) { return If(at.attention().qkv_bias, {at.attention().q_width()}); },
     [](const Site& at, BlockWeights& w) { return InBias(at, w, 0); }},
    {kKBias, kAttention, "k bias", KvBias,
     [](const Site& at, BlockWeights& w) { return InBias(at, w, at.attention().q_width()); }},
    {kVBias, kAttention, "v bias", KvBias,
     [](const Site& at, BlockWeights& w) {
       return InBias(at, w, at.attention().q_width() + at.attention().kv_width());
     }},
    {kQNorm, kAttention, "q norm", QkNorm<kQHeads>, QkNormPlace<kQHeads, kOfQ>},
    {kQNormBias, kAttention, "q norm bias", QkNormBias<kQHeads>, QkNormBiasPlace<kQHeads, kOfQ>},
    {kKNorm, kAttention, "k norm", QkNorm<kKHeads>, QkNormPlace<kKHeads, kOfK>},
    {kKNormBias, kAttention, "k norm bias", QkNormBias<kKHeads>, QkNormBiasPlace<kKHeads, kOfK>},
    {kAttnOut, kAttention, "attention output",
     [](const Site& at) {
       return Shape{at.model.width, at.attention().q_width()};
     },
     [](const Site&, BlockWeights& w) { return Rows(w.out); }, kOut},
    {kAttnOutBias, kAttention, "attention output bias",
     [](const Site& at) { return If(at.attention().out_bias, {at.model.width}); }, OutBias},

    {kMlpNorm, kFeedForward, "mlp norm", BeforeWeight, BeforeWeightPlace},
    {kMlpNormBias, kFeedForward, "mlp norm bias", BeforeBias, BeforeBiasPlace},
    {kMlpPostNorm, kFeedForward, "norm after mlp", PostWeight, PostWeightPlace},
    {kMlpPostNormBias, kFeedForward, "norm after mlp bias", PostBias, PostBiasPlace},
    {kMlpGateUp, kFeedForward, "mlp gate and up",
     [](const Site& at) {
       return If(at.feed_forward().gated, {2 * at.feed_forward().width, at.model.width});
     },
     [](const Site& at, BlockWeights& w) {
       return Place{.matrix = &w.in, .order = RowOrder::kHalves, .unit = at.feed_forward().width};
     },
     kIn0 | kIn1},
    {kMlpGate, kFeedForward, "mlp gate",
     [](const Site& at) {
       return If(at.feed_forward().gated, {at.feed_forward().width, at.model.width});
     },
     [](const Site& at, BlockWeights& w) { return Half(Rows(w.in), at, false); }, kIn0},
    {kMlpGateBias, kFeedForward, "mlp gate bias",
     [](const Site& at) {
       return If(at.feed_forward().gated && at.feed_forward().bias, {at.feed_forward().width});
     },
     [](const Site& at, BlockWeights& w) {
       return Half(Values(w.in_bias, at.feed_forward().gate_up_width()), at, false);
     }},
    {kMlpUp, kFeedForward, "mlp up",
     [](const Site& at) {
       return Shape{at.feed_forward().width, at.model.width};
     },
     [](const Site& at, BlockWeights& w) { return Half(Rows(w.in), at, true); }, kIn1},
    {kMlpUpBias, kFeedForward, "mlp up bias",
     [](const Site& at) { return If(at.feed_forward().bias, {at.feed_forward().width}); },
     [](const Site& at, BlockWeights& w) {
       return Half(Values(w.in_bias, at.feed_forward().gate_up_width()), at, true);
     }},
    {kMlpDown, kFeedForward, "mlp down",
     [](const Site& at) {
       return Shape{at.model.width, at.feed_forward().width};
     },
     [](const Site&, BlockWeights& w) { return Rows(w.out); }, kOut},
    {kMlpDownBias, kFeedForward, "mlp down bias",
     [](const Site& at) { return If(at.feed_forward().bias, {at.model.width}); }, OutBias},
};

// The rows are in the order of TensorRole, those of the model first.
constexpr bool InOrder() {
  size_t i = 0;
  for (const ModelRow& row : kModelRows) {
    if (static_cast<size_t>(row.role) != i++) return false;
  }
  for (const BlockRow& row : kBlockRows) {
    if (static_cast<size_t>(row.role) != i++) return false;
  }
  return static_cast<size_t>(kMlpDownBias) + 1 == i;
}
static_assert(InOrder());

bool IsInModel(TensorRole role) { return static_cast<size_t>(role) < std::size(kModelRows); }
const ModelRow& ModelRowOf(TensorRole role) { return kModelRows[static_cast<size_t>(role)]; }
const BlockRow& BlockRowOf(TensorRole role) {
  return kBlockRows[static_cast<size_t>(role) - std::size(kModelRows)];
}

}  // namespace

std::string_view RoleTitle(TensorRole role) {
  return IsInModel(role) ? ModelRowOf(role).title : BlockRowOf(role).title;
}

bool IsMatrix(TensorRole role) {
  if (IsInModel(role)) return role == kTokenEmbedding || role == kHead;
  return BlockRowOf(role).parts != 0;
}

Shape RoleShape(TensorRole role, const ModelSpec& spec, int layer) {
  if (IsInModel(role)) return ModelRowOf(role).shape(spec);
  const BlockRow& row = BlockRowOf(role);
  const Site at = SiteOf(spec, layer, row.operation);
  return at.block == nullptr ? Shape() : row.shape(at);
}

Place RolePlace(TensorRole role, const ModelSpec& spec, int layer, ModelWeights& weights) {
  if (IsInModel(role)) return ModelRowOf(role).place(spec, weights);
  const BlockRow& row = BlockRowOf(role);
  const Site at = SiteOf(spec, layer, row.operation);
  return row.place(at, weights.layers[static_cast<size_t>(layer)][at.index]);
}

void SetRoleType(TensorRole role, const ModelSpec& spec, int layer, WeightType type,
                 WeightTypes& types) {
  if (role == kTokenEmbedding) types.embedding = type;
  if (role == kHead) types.head = type;
  if (IsInModel(role)) return;
  const BlockRow& row = BlockRowOf(role);
  const Site at = SiteOf(spec, layer, row.operation);
  BlockWeightTypes& block = types.layers[static_cast<size_t>(layer)][at.index];
  for (size_t part = 0; part < block.in.size(); ++part) {
    if ((row.parts >> part & 1) != 0) block.in[part] = type;
  }
  if ((row.parts & kOut) != 0) block.out = type;
}

}  // namespace ng
