// The roles in a block of attention, and the norms of a block in its place, in the order of
// TensorRole.
#ifndef NG_CORE_MODEL_WEIGHTS_ATTENTION_ROLES_H_
#define NG_CORE_MODEL_WEIGHTS_ATTENTION_ROLES_H_

#include "core/model/weights/role_row.h"

namespace ng::roles {

inline bool HasLatents(const Site& at) { return at.attention().latent.is_there(); }
template <int64_t (SelfAttentionSpec::*kWidth)() const>
Shape KvRows(const Site& at) {
  return If(!HasLatents(at) && at.attention().has_keys(),
            {(at.attention().*kWidth)(), at.model.width});
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
template <int64_t (SelfAttentionSpec::*kWidth)() const>
Shape KvBias(const Site& at) {
  return If(at.attention().qkv_bias && at.attention().has_keys(), {(at.attention().*kWidth)()});
}
// Of a norm of so many heads of q or of k.
inline Shape QkShape(const Site& at, int n_heads) {
  const SelfAttentionSpec& a = at.attention();
  if (a.qk_norm_kind == QkNormKind::kWidth) return {int64_t{n_heads} * a.head_dim};
  if (a.qk_norm_kind == QkNormKind::kEachHead) return {n_heads, a.head_dim};
  return {a.head_dim};
}
template <int SelfAttentionSpec::*kHeads>
bool HasHeads(const Site& at) {
  return kHeads == &SelfAttentionSpec::n_heads || at.attention().has_keys();
}
template <int SelfAttentionSpec::*kHeads>
Shape QkNorm(const Site& at) {
  return If(at.attention().qk_norm.has_weight() && HasHeads<kHeads>(at),
            QkShape(at, at.attention().*kHeads));
}
template <int SelfAttentionSpec::*kHeads>
Shape QkNormBias(const Site& at) {
  return If(at.attention().qk_norm.has_bias() && HasHeads<kHeads>(at),
            QkShape(at, at.attention().*kHeads));
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
inline constexpr auto kKWidth = &SelfAttentionSpec::k_width;
inline constexpr auto kVWidth = &SelfAttentionSpec::v_width;
inline constexpr auto kQHeads = &SelfAttentionSpec::n_heads;
inline constexpr auto kKHeads = &SelfAttentionSpec::n_kv_heads;
inline constexpr auto kOfQ = &BlockWeights::q_norm;
inline constexpr auto kOfK = &BlockWeights::k_norm;
// q, k or v in a bias of them all.
inline Place InBias(const Site& at, BlockWeights& w, int64_t first) {
  return Values(w.in_bias, at.attention().in_width(), first);
}
inline constexpr BlockRow kAttentionRows[] = {
    {kAttnNorm, kMixer, "attention norm", BeforeWeight, BeforeWeightPlace},
    {kAttnNormBias, kMixer, "attention norm bias", BeforeBias, BeforeBiasPlace},
    {kAttnPostNorm, kMixer, "norm after attention", PostWeight, PostWeightPlace},
    {kAttnPostNormBias, kMixer, "norm after attention bias", PostBias, PostBiasPlace},
    {kQkv, kAttention, "q, k, v",
     [](const Site& at) {
       return If(!HasLatents(at), {at.attention().qkv_width(), at.model.width});
     },
     [](const Site&, BlockWeights& w) { return Rows(w.in); }, kIn0 | kIn1 | kIn2},
    {kQ, kAttention, "q",
     [](const Site& at) {
       return If(at.attention().latent.q_rank == 0, {at.attention().own_q_width(), at.model.width});
     },
     [](const Site&, BlockWeights& w) { return Rows(w.in); }, kIn0},
    {kQAndGate, kAttention, "q and gate",
     [](const Site& at) {
       return If(at.attention().gate, {2 * at.attention().q_width(), at.model.width});
     },
     [](const Site& at, BlockWeights& w) {
       const int64_t head_dim = at.attention().head_dim;
       return Grouped(w.in, {{{head_dim, 0}, {head_dim, at.attention().qkv_width()}}});
     },
     kIn0},
    {kK, kAttention, "k", KvRows<kKWidth>,
     [](const Site& at, BlockWeights& w) { return Rows(w.in, at.attention().q_width()); }, kIn1},
    {kV, kAttention, "v",
     [](const Site& at) { return at.attention().v_is_k ? Shape() : KvRows<kVWidth>(at); },
     [](const Site& at, BlockWeights& w) {
       return Rows(w.in, at.attention().q_width() + at.attention().k_width());
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
       return If(rank > 0, {at.attention().own_q_width(), rank});
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
       const SelfAttentionSpec& a = at.attention();
       return If(HasLatents(at),
                 {int64_t{a.n_heads} * (a.nope_dim() + a.value_dim()), a.latent.kv_rank});
     },
     nullptr, kKUpPart | kVUpPart},
    {.role = kKUp,
     .operations = kAttention,
     .title = "k up",
     .shape =
         [](const Site& at) {
           const SelfAttentionSpec& a = at.attention();
           return If(HasLatents(at), {a.latent.kv_rank, a.nope_dim()});
         },
     .place = [](const Site& at,
                 BlockWeights& w) { return Rows(w.heads[static_cast<size_t>(at.expert)].in); },
     .parts = kKUpPart,
     .of_head = true},
    {.role = kVUp,
     .operations = kAttention,
     .title = "v up",
     .shape =
         [](const Site& at) {
           const SelfAttentionSpec& a = at.attention();
           return If(HasLatents(at), {a.value_dim(), a.latent.kv_rank});
         },
     .place = [](const Site& at,
                 BlockWeights& w) { return Rows(w.heads[static_cast<size_t>(at.expert)].out); },
     .parts = kVUpPart,
     .of_head = true},
    {kQkvBias, kAttention, "q, k, v bias",
     [](const Site& at) { return If(at.attention().qkv_bias, {at.attention().qkv_width()}); },
     [](const Site& at, BlockWeights& w) { return InBias(at, w, 0); }},
    {kQBias, kAttention, "q bias",
     [](const Site& at) { return If(at.attention().qkv_bias, {at.attention().q_width()}); },
     [](const Site& at, BlockWeights& w) { return InBias(at, w, 0); }},
    {kKBias, kAttention, "k bias", KvBias<kKWidth>,
     [](const Site& at, BlockWeights& w) { return InBias(at, w, at.attention().q_width()); }},
    {kVBias, kAttention, "v bias", KvBias<kVWidth>,
     [](const Site& at, BlockWeights& w) {
       return InBias(at, w, at.attention().q_width() + at.attention().k_width());
     }},
    {kQNorm, kAttention, "q norm", QkNorm<kQHeads>, QkNormPlace<kQHeads, kOfQ>},
    {kQNormBias, kAttention, "q norm bias", QkNormBias<kQHeads>, QkNormBiasPlace<kQHeads, kOfQ>},
    {kKNorm, kAttention, "k norm", QkNorm<kKHeads>, QkNormPlace<kKHeads, kOfK>},
    {kKNormBias, kAttention, "k norm bias", QkNormBias<kKHeads>, QkNormBiasPlace<kKHeads, kOfK>},
    {kAttnGate, kAttention, "attention gate",
     [](const Site& at) {
       return If(at.attention().gate, {at.attention().out_width(), at.model.width});
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
};

}  // namespace ng::roles

#endif  // NG_CORE_MODEL_WEIGHTS_ATTENTION_ROLES_H_
