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
  int expert = -1;

  const SelfAttentionSpec& attention() const { return model.AttentionOf(*block); }
  const MixtureSpec& mixture() const { return model.MixtureOf(*block); }
  const RouterSpec& router() const { return mixture().router; }
};

// Operations, as bits.
constexpr int Bit(Operation operation) { return 1 << static_cast<int>(operation); }
constexpr int kAttention = Bit(Operation::kAttention);
constexpr int kFeedForward = Bit(Operation::kFeedForward);
constexpr int kMixture = Bit(Operation::kMixture);
constexpr int kMlp = kFeedForward | kMixture;

// The block of a layer that does one of these; null where it has none.
Site SiteOf(const ModelSpec& model, int layer, int operations) {
  const LayerSpec& blocks = model.layers[static_cast<size_t>(layer)];
  const auto found = std::ranges::find_if(
      blocks, [&](const BlockSpec& block) { return (Bit(block.operation) & operations) != 0; });
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
Place Half(Place place, const FeedForwardSpec& feed_forward, bool up) {
  if (feed_forward.gated) place.order = RowOrder::kInterleaved;
  place.first = up && feed_forward.gated ? kBlockColumns : 0;
  return place;
}

// Parts of a block's first matrix, and its second matrix; or a matrix that is always f32.
constexpr int kIn0 = 1;
constexpr int kIn1 = 2;
constexpr int kIn2 = 4;
constexpr int kOut = 8;
constexpr int kF32 = 16;
// Of latents: q_up and kv_up.
constexpr int kQUpPart = 32;
constexpr int kKvUpPart = 64;

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

// A role in the block that does one of `operations`.
struct BlockRow {
  TensorRole role;
  int operations;
  std::string_view title;
  Shape (*shape)(const Site& at);
  Place (*place)(const Site& at, BlockWeights& w);
  int parts = 0;  // of the block's matrices
  bool of_expert = false;
};

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

Shape InnerWeight(const Site& at) {
  return If(at.block->inner.has_weight(), {at.model.InnerWidthOf(*at.block)});
}
Place InnerWeightPlace(const Site& at, BlockWeights& w) {
  return NormValues(at.block->inner, w.inner.weight, at.model.InnerWidthOf(*at.block));
}

bool HasLatents(const Site& at) { return at.attention().latent.is_there(); }
Shape KvRows(const Site& at) {
  return If(!HasLatents(at), {at.attention().kv_width(), at.model.width});
}
// The norm of a latent of q or of k and v, which is there where its rank is.
template <int64_t LatentSpec::*kRank>
Shape LatentNorm(const Site& at) {
  const LatentSpec& latent = at.attention().latent;
  return If(latent.norm.has_weight() && latent.*kRank > 0, {latent.*kRank});
}
template <int64_t LatentSpec::*kRank, NormWeights BlockWeights::*kNorm>
Place LatentNormPlace(const Site& at, BlockWeights& w) {
  const LatentSpec& latent = at.attention().latent;
  return NormValues(latent.norm, (w.*kNorm).weight, latent.*kRank);
}
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
  return Values(w.in_bias, at.attention().in_width(), first);
}
Place OutBias(const Site& at, BlockWeights& w) { return Values(w.out_bias, at.model.width); }

// The feed-forwards that there are: of a block, of all rows beside experts, of an expert.
struct Dense {
  static const FeedForwardSpec& Spec(const Site& at) { return at.model.FeedForwardOf(*at.block); }
  static InAndOut& Weights(const Site&, BlockWeights& w) { return w; }
};
struct Shared {
  static const FeedForwardSpec& Spec(const Site& at) { return at.mixture().shared; }
  static InAndOut& Weights(const Site&, BlockWeights& w) { return w; }
};
struct Expert {
  static const FeedForwardSpec& Spec(const Site& at) { return at.mixture().expert; }
  static InAndOut& Weights(const Site& at, BlockWeights& w) {
    return w.experts[static_cast<size_t>(at.expert)];
  }
};

// Shapes and places in one of them.
template <class Which>
struct Mlp {
  static bool Gated(const Site& at) { return Which::Spec(at).gated; }
  static Shape GateUp(const Site& at) {
    const int64_t width = Which::Spec(at).width;
    return If(width > 0 && Gated(at), {2 * width, at.model.width});
  }
  static Place GateUpPlace(const Site& at, BlockWeights& w) {
    return {.matrix = &Which::Weights(at, w).in,
            .order = RowOrder::kHalves,
            .unit = Which::Spec(at).width};
  }
  static Shape GateUpBias(const Site& at) {
    return If(Which::Spec(at).bias && Gated(at), {2 * Which::Spec(at).width});
  }
  static Place GateUpBiasPlace(const Site& at, BlockWeights& w) {
    Place place = BiasValues(at, w);
    place.order = RowOrder::kHalves;
    place.unit = Which::Spec(at).width;
    return place;
  }
  static Shape Gate(const Site& at) { return If(Gated(at), Up(at)); }
  static Place GatePlace(const Site& at, BlockWeights& w) {
    return Half(Rows(Which::Weights(at, w).in), Which::Spec(at), false);
  }
  static Shape GateBias(const Site& at) { return If(Gated(at), UpBias(at)); }
  static Place GateBiasPlace(const Site& at, BlockWeights& w) {
    return Half(BiasValues(at, w), Which::Spec(at), false);
  }
  static Shape Up(const Site& at) {
    const int64_t width = Which::Spec(at).width;
    return If(width > 0, {width, at.model.width});
  }
  static Place UpPlace(const Site& at, BlockWeights& w) {
    return Half(Rows(Which::Weights(at, w).in), Which::Spec(at), true);
  }
  static Shape UpBias(const Site& at) { return If(Which::Spec(at).bias, {Which::Spec(at).width}); }
  static Place UpBiasPlace(const Site& at, BlockWeights& w) {
    return Half(BiasValues(at, w), Which::Spec(at), true);
  }
  static Shape Down(const Site& at) {
    const int64_t width = Which::Spec(at).width;
    return If(width > 0, {at.model.width, width});
  }
  static Place DownPlace(const Site& at, BlockWeights& w) {
    return Rows(Which::Weights(at, w).out);
  }
  static Shape DownBias(const Site& at) { return If(Which::Spec(at).bias, {at.model.width}); }
  static Place DownBiasPlace(const Site& at, BlockWeights& w) {
    return Values(Which::Weights(at, w).out_bias, at.model.width);
  }

 private:
  static Place BiasValues(const Site& at, BlockWeights& w) {
    return Values(Which::Weights(at, w).in_bias, Which::Spec(at).gate_up_width());
  }
};

Shape XieluValue(const Site& at) {
  return If(Dense::Spec(at).activation == Activation::kXielu, {1});
}
template <int kIndex>
Place XieluPlace(const Site&, BlockWeights& w) {
  return Values(w.xielu, kXieluValues, kIndex);
}

Place SelectionBiasPlace(const Site& at, BlockWeights& w) {
  return Values(w.selection_bias, at.router().n_experts);
}

constexpr BlockRow kBlockRows[] = {
    {kAttnNorm, kAttention, "attention norm", BeforeWeight, BeforeWeightPlace},
    {kAttnNormBias, kAttention, "attention norm bias", BeforeBias, BeforeBiasPlace},
    {kAttnPostNorm, kAttention, "norm after attention", PostWeight, PostWeightPlace},
    {kAttnPostNormBias, kAttention, "norm after attention bias", PostBias, PostBiasPlace},
    {kQkv, kAttention, "q, k, v",
     [](const Site& at) {
       return If(!HasLatents(at), {at.attention().qkv_width(), at.model.width});
     },
     [](const Site&, BlockWeights& w) { return Rows(w.in); }, kIn0 | kIn1 | kIn2},
    {kQ, kAttention, "q",
     [](const Site& at) {
       return If(at.attention().latent.q_rank == 0, {at.attention().q_width(), at.model.width});
     },
     [](const Site&, BlockWeights& w) { return Rows(w.in); }, kIn0},
    {kK, kAttention, "k", KvRows,
     [](const Site& at, BlockWeights& w) { return Rows(w.in, at.attention().q_width()); }, kIn1},
    {kV, kAttention, "v", KvRows,
     [](const Site& at, BlockWeights& w) {
       return Rows(w.in, at.attention().q_width() + at.attention().kv_width());
     },
     kIn2},
    {kQDown, kAttention, "q down",
     [](const Site& at) {
       const int64_t rank = at.attention().latent.q_rank;
       return If(rank > 0, {rank, at.model.width});
     },
     [](const Site&, BlockWeights& w) { return Rows(w.in); }, kIn0},
    {kQDownNorm, kAttention, "norm of q down", LatentNorm<&LatentSpec::q_rank>,
     LatentNormPlace<&LatentSpec::q_rank, kOfQ>},
    {kQUp, kAttention, "q up",
     [](const Site& at) {
       const int64_t rank = at.attention().latent.q_rank;
       return If(rank > 0, {at.attention().q_width(), rank});
     },
     [](const Site&, BlockWeights& w) { return Rows(w.q_up); }, kQUpPart},
    {kKvDown, kAttention, "k and v down",
     [](const Site& at) {
       const LatentSpec& latent = at.attention().latent;
       return If(HasLatents(at), {latent.kv_rank + latent.rope_dim, at.model.width});
     },
     [](const Site& at, BlockWeights& w) { return Rows(w.in, at.attention().q_in_width()); }, kIn1},
    {kKvDownNorm, kAttention, "norm of k and v down", LatentNorm<&LatentSpec::kv_rank>,
     LatentNormPlace<&LatentSpec::kv_rank, kOfK>},
    {kKvUp, kAttention, "k and v up",
     [](const Site& at) {
       return If(HasLatents(at), {at.attention().kv_up_width(), at.attention().latent.kv_rank});
     },
     [](const Site&, BlockWeights& w) { return Rows(w.kv_up); }, kKvUpPart},
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
    {kAttnGate, kAttention, "attention gate",
     [](const Site& at) {
       return If(at.attention().gate, {at.attention().q_width(), at.model.width});
     },
     [](const Site& at, BlockWeights& w) { return Rows(w.in, at.attention().qkv_width()); }, kIn0},
    {kAttnInnerNorm, kAttention, "norm before attention output", InnerWeight, InnerWeightPlace},
    {kAttnOut, kAttention, "attention output",
     [](const Site& at) {
       return Shape{at.model.width, at.attention().out_width()};
     },
     [](const Site&, BlockWeights& w) { return Rows(w.out); }, kOut},
    {kAttnOutBias, kAttention, "attention output bias",
     [](const Site& at) { return If(at.attention().out_bias, {at.model.width}); }, OutBias},
    {kSinks, kAttention, "attention sinks",
     [](const Site& at) { return If(!at.attention().sinks.empty(), {at.attention().n_heads}); },
     [](const Site& at, BlockWeights& w) { return Values(w.sinks, at.attention().n_heads); }},

    {kMlpNorm, kMlp, "mlp norm", BeforeWeight, BeforeWeightPlace},
    {kMlpNormBias, kMlp, "mlp norm bias", BeforeBias, BeforeBiasPlace},
    {kMlpPostNorm, kMlp, "norm after mlp", PostWeight, PostWeightPlace},
    {kMlpPostNormBias, kMlp, "norm after mlp bias", PostBias, PostBiasPlace},
    {kMlpGateUp, kFeedForward, "mlp gate and up", Mlp<Dense>::GateUp, Mlp<Dense>::GateUpPlace,
     kIn0 | kIn1},
    {kMlpGate, kFeedForward, "mlp gate", Mlp<Dense>::Gate, Mlp<Dense>::GatePlace, kIn0},
    {kMlpGateBias, kFeedForward, "mlp gate bias", Mlp<Dense>::GateBias, Mlp<Dense>::GateBiasPlace},
    {kMlpUp, kFeedForward, "mlp up", Mlp<Dense>::Up, Mlp<Dense>::UpPlace, kIn1},
    {kMlpUpBias, kFeedForward, "mlp up bias", Mlp<Dense>::UpBias, Mlp<Dense>::UpBiasPlace},
    {kMlpInnerNorm, kFeedForward, "norm before mlp down", InnerWeight, InnerWeightPlace},
    {kMlpAlphaP, kFeedForward, "mlp alpha_p", XieluValue, XieluPlace<0>},
    {kMlpAlphaN, kFeedForward, "mlp alpha_n", XieluValue, XieluPlace<1>},
    {kMlpBeta, kFeedForward, "mlp beta", XieluValue, XieluPlace<2>},
    {kMlpEps, kFeedForward, "mlp eps", XieluValue, XieluPlace<3>},
    {kMlpDown, kFeedForward, "mlp down", Mlp<Dense>::Down, Mlp<Dense>::DownPlace, kOut},
    {kMlpDownBias, kFeedForward, "mlp down bias", Mlp<Dense>::DownBias, OutBias},

    {kRouter, kMixture, "router",
     [](const Site& at) {
       return Shape{at.router().n_experts, at.model.width};
     },
     [](const Site&, BlockWeights& w) { return Rows(w.router); }, kF32},
    {kRouterBias, kMixture, "router bias",
     [](const Site& at) { return If(at.router().bias, {at.router().n_experts}); },
     [](const Site& at, BlockWeights& w) {
       return Values(w.router_bias, at.mixture().n_logits());
     }},
    {kSelectionBias, kMixture, "selection bias",
     [](const Site& at) { return If(at.router().selection_bias, {at.router().n_experts}); },
     SelectionBiasPlace},
    {kSelectionBiasRow, kMixture, "selection bias",
     [](const Site& at) {
       return If(at.router().selection_bias, {1, at.router().n_experts});
     },
     SelectionBiasPlace},
    {kSharedGateUp, kMixture, "shared gate and up", Mlp<Shared>::GateUp, Mlp<Shared>::GateUpPlace,
     kIn0 | kIn1},
    {kSharedGate, kMixture, "shared gate", Mlp<Shared>::Gate, Mlp<Shared>::GatePlace, kIn0},
    {kSharedUp, kMixture, "shared up", Mlp<Shared>::Up, Mlp<Shared>::UpPlace, kIn1},
    {kSharedDown, kMixture, "shared down", Mlp<Shared>::Down, Mlp<Shared>::DownPlace, kOut},
    {kSharedRouter, kMixture, "weight of the shared expert",
     [](const Site& at) {
       return If(at.mixture().shared_gate, {1, at.model.width});
     },
     [](const Site& at, BlockWeights& w) { return Rows(w.router, at.router().n_experts); }, kF32},
    {kExpertGateUp, kMixture, "expert gate and up", Mlp<Expert>::GateUp, Mlp<Expert>::GateUpPlace,
     kIn0 | kIn1, true},
    {kExpertGateUpBias, kMixture, "expert gate and up bias", Mlp<Expert>::GateUpBias,
     Mlp<Expert>::GateUpBiasPlace, 0, true},
    {kExpertGate, kMixture, "expert gate", Mlp<Expert>::Gate, Mlp<Expert>::GatePlace, kIn0, true},
    {kExpertUp, kMixture, "expert up", Mlp<Expert>::Up, Mlp<Expert>::UpPlace, kIn1, true},
    {kExpertDown, kMixture, "expert down", Mlp<Expert>::Down, Mlp<Expert>::DownPlace, kOut, true},
    {kExpertDownBias, kMixture, "expert down bias", Mlp<Expert>::DownBias,
     Mlp<Expert>::DownBiasPlace, 0, true},
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
  return static_cast<size_t>(kExpertDownBias) + 1 == i;
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
  const Site at = SiteOf(spec, layer, row.operations);
  return at.block == nullptr ? Shape() : row.shape(at);
}

int ExpertsOf(const ModelSpec& spec, int layer) {
  if (layer < 0) return 0;
  const Site at = SiteOf(spec, layer, kMixture);
  return at.block == nullptr ? 0 : at.router().n_experts;
}

bool IsOfExpert(TensorRole role) { return !IsInModel(role) && BlockRowOf(role).of_expert; }

Place RolePlace(TensorRole role, const ModelSpec& spec, const TensorSite& where,
                ModelWeights& weights) {
  if (IsInModel(role)) return ModelRowOf(role).place(spec, weights);
  const BlockRow& row = BlockRowOf(role);
  Site at = SiteOf(spec, where.layer, row.operations);
  at.expert = where.expert;
  return row.place(at, weights.layers[static_cast<size_t>(where.layer)][at.index]);
}

void SetRoleType(TensorRole role, const ModelSpec& spec, const TensorSite& where, WeightType type,
                 WeightTypes& types) {
  if (role == kTokenEmbedding) types.embedding = type;
  if (role == kHead) types.head = type;
  if (IsInModel(role)) return;
  const BlockRow& row = BlockRowOf(role);
  const Site at = SiteOf(spec, where.layer, row.operations);
  BlockWeightTypes& block = types.layers[static_cast<size_t>(where.layer)][at.index];
  InAndOutTypes& matrices = row.of_expert ? *block.experts : block;
  // One that shares its type with another that was there before.
  const bool shares = where.expert > 0 || role == kAttnGate;
  const auto set = [&](WeightType& part) {
    part = shares && part != type ? WeightType::kF32 : type;
  };
  for (size_t part = 0; part < matrices.in.size(); ++part) {
    if ((row.parts >> part & 1) != 0) set(matrices.in[part]);
  }
  if ((row.parts & kOut) != 0) set(matrices.out);
  if ((row.parts & kQUpPart) != 0) block.latent->in[0] = type;
  if ((row.parts & kKvUpPart) != 0) block.latent->out = type;
}

}  // namespace ng
