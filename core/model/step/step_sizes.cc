#include "core/model/step/step_sizes.h"

#include <algorithm>
#include <initializer_list>

#include "core/base/checked.h"
#include "core/kernels/matmul.h"

namespace ng {
namespace {

template <typename Predicate>
bool AnyBlock(const ModelSpec& spec, Predicate&& predicate) {
  return std::ranges::any_of(
      spec.layers, [&](const LayerSpec& blocks) { return std::ranges::any_of(blocks, predicate); });
}

}  // namespace

int64_t StepSizes::bytes() const {
  int64_t floats = 0;
  for (const int64_t size : {hidden, normed, kept, added, qkv, latent, heads, layer_inputs,
                             layer_rows, attended, activated, strips, logits, gathered, staged}) {
    floats = SaturatingAdd(floats, size);
  }
  const int64_t others = calls * int64_t{sizeof(MatmulCall)} + mixture.bytes();
  return SaturatingAdd(SaturatingAdd(SaturatingMul(floats, sizeof(float)), input), others);
}

int64_t MixtureSizes::bytes() const {
  int64_t words = 0;
  for (const int64_t size : {normed, router_rows, shared_rows, logits, chosen, weights, ends,
                             activated, outputs, strips}) {
    words = SaturatingAdd(words, size);
  }
  const int64_t lists = parts * int64_t{sizeof(MixturePart) + sizeof(MatmulCall)};
  return SaturatingAdd(SaturatingAdd(SaturatingMul(words, sizeof(float)), input), lists);
}

void MixtureBuffers::Grow(const MixtureSizes& sizes) {
  GrowTo(normed, sizes.normed);
  GrowTo(router_rows, sizes.router_rows);
  GrowTo(shared_rows, sizes.shared_rows);
  GrowTo(logits, sizes.logits);
  GrowTo(chosen, sizes.chosen);
  GrowTo(weights, sizes.weights);
  GrowTo(ends, sizes.ends);
  GrowTo(activated, sizes.activated);
  GrowTo(outputs, sizes.outputs);
  GrowTo(strips, sizes.strips);
  GrowTo(input, sizes.input);
  parts.reserve(static_cast<size_t>(sizes.parts));
  calls.reserve(static_cast<size_t>(sizes.parts));
}

void Activations::Grow(const StepSizes& sizes) {
  GrowTo(hidden, sizes.hidden);
  GrowTo(normed, sizes.normed);
  GrowTo(kept, sizes.kept);
  GrowTo(added, sizes.added);
  GrowTo(qkv, sizes.qkv);
  GrowTo(latent, sizes.latent);
  GrowTo(heads, sizes.heads);
  GrowTo(layer_inputs, sizes.layer_inputs);
  GrowTo(layer_rows, sizes.layer_rows);
  GrowTo(attended, sizes.attended);
  GrowTo(activated, sizes.activated);
  GrowTo(strips, sizes.strips);
  GrowTo(logits, sizes.logits);
  GrowTo(input, sizes.input);
  GrowTo(gathered, sizes.gathered);
  calls.reserve(static_cast<size_t>(sizes.calls));
  mixture.Grow(sizes.mixture);
}

WidestRows WidestRowsOf(const KernelTable& kernels, const ModelSpec& spec,
                        const WeightTypes& types) {
  const auto row = [&](WeightType type, int64_t k) {
    return InputRowBytes(kernels.input[static_cast<size_t>(type)], k);
  };
  // What comes out of a block as f32 is read where it is if nothing has to be rounded.
  const auto rounded = [&](WeightType type, int64_t k) {
    return kernels.prepare[static_cast<size_t>(type)] == nullptr ? 0 : row(type, k);
  };
  const auto widen = [](int64_t* widest, std::initializer_list<int64_t> rows) {
    *widest = std::max(*widest, std::max(rows));
  };
  WidestRows widest = {.block = row(spec.head.tied ? types.embedding : types.head, spec.width)};
  if (types.layer_input) widen(&widest.block, {rounded(types.layer_input->in[0], spec.width)});
  const RankParts parts(spec);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    for (size_t b = 0; b < spec.layers[i].size(); ++b) {
      const BlockSpec& block = spec.layers[i][b];
      const BlockWeightTypes& held = types.layers[i][b];
      const bool mixes = block.operation == Operation::kMixture;
      widen(mixes ? &widest.given_mixture : &widest.given,
            {InnerFloats(spec, parts, block, held, kernels)});
      if (!mixes) {
        widen(&widest.block,
              {row(held.in[0], spec.width), rounded(held.out, spec.InnerWidthOf(block))});
        if (held.latent) {
          const SelfAttentionSpec& attention = spec.AttentionOf(block);
          const auto& [q_up_k_up, v_up] = *held.latent;
          widen(&widest.block, {rounded(q_up_k_up[0], attention.latent.q_rank),
                                attention.n_heads * rounded(q_up_k_up[1], attention.nope_dim()),
                                attention.n_heads * rounded(v_up, attention.latent.kv_rank)});
        }
        continue;
      }
      const MixtureSpec& mixture = spec.MixtureOf(block);
      widen(&widest.expert, {row(held.experts->in[0], spec.width),
                             rounded(held.experts->out, mixture.expert.width)});
      if (!mixture.has_shared()) continue;
      widen(&widest.shared,
            {rounded(held.in[0], spec.width), rounded(held.out, mixture.shared.width)});
    }
  }
  return widest;
}

namespace {

// What all mixtures of a model need, each by itself.
MixtureSizes SizesOfMixtures(const ModelSpec& spec, const WidestRows& input_rows,
                             const StepExtent& extent) {
  MixtureSizes sizes;
  const int64_t n_rows = std::min(extent.n_rows, kMixtureRows);
  const auto widen = [&](int64_t* size, int64_t n, int64_t width) {
    *size = std::max(*size, SaturatingMul(n, width));
  };
  for (const MixtureSpec& mixture : spec.mixtures) {
    const int64_t n_experts = mixture.router.n_experts;
    const int64_t n_routed = n_rows * mixture.router.n_used;
    const int64_t n_shared = mixture.has_shared() ? n_rows : 0;
    widen(&sizes.normed, n_rows, spec.width);
    widen(&sizes.router_rows, mixture.norms_apart() ? n_rows : 0, spec.width);
    widen(&sizes.shared_rows, mixture.norms_apart() ? n_rows : 0, spec.width);
    widen(&sizes.logits, n_rows, mixture.n_logits() + n_experts);
    widen(&sizes.chosen, n_routed, 1);
    widen(&sizes.weights, n_routed + n_shared, 1);
    widen(&sizes.ends, n_experts, 1);
    widen(&sizes.activated, 1,
          SaturatingAdd(SaturatingMul(n_routed, mixture.expert.width),
                        SaturatingMul(n_shared, mixture.shared.width)));
    widen(&sizes.outputs, n_routed + n_shared, spec.width);
    widen(&sizes.strips, 1, MatmulScratchFloats(extent.threads, n_rows));
    widen(&sizes.input, 1,
          SaturatingAdd(SaturatingMul(n_routed, input_rows.expert),
                        SaturatingMul(n_shared, input_rows.shared)));
    widen(&sizes.parts, n_experts + 1, 1);
  }
  return sizes;
}

// The largest rows that are gathered at a time, where nobody looks at them.
int64_t StagedFloats(const ModelSpec& spec, const WidestRows& rows, const StepExtent& extent) {
  const int64_t widest = StagedRowFloats(spec, rows);
  const int64_t n_mixed = std::min(extent.n_rows, kMixtureRows);
  return std::max({SaturatingMul(extent.n_rows, widest), SaturatingMul(n_mixed, rows.given_mixture),
                   SaturatingMul(extent.n_logit_rows, spec.shape.vocab_size)});
}

}  // namespace

StepSizes SizesOfStep(const ModelSpec& spec, const RankParts& parts, const WidestRows& input_rows,
                      const StepExtent& extent) {
  const auto rows = [&](int64_t width) { return SaturatingMul(extent.n_rows, width); };
  int64_t qkv = 0;
  int64_t latent = 0;
  int64_t heads = 0;
  int64_t calls = 0;
  int64_t attended = 0;
  int64_t activated = 0;
  const bool ranks = spec.split.ranks > 1;
  int64_t gathered = 0;
  for (const RankParts::Attention& part : parts.attentions) {
    qkv = std::max(qkv, part.spec.row_width());
  }
  for (const SelfAttentionSpec& attention : spec.attentions) {
    if (ranks && attention.qk_norm_kind == QkNormKind::kWidth) {
      gathered = std::max(gathered, attention.q_width() + attention.k_width());
    }
    if (attention.latent.is_there()) {
      latent = std::max(latent, attention.in_width());
      heads = std::max({heads, attention.own_q_width(), attention.out_width()});
      calls = std::max<int64_t>(calls, attention.n_heads);
    }
    attended = std::max(attended, attention.attended_width());
  }
  for (const StateSpec& state : spec.states) {
    qkv = std::max(qkv, state.in_width());
    attended = std::max(attended, state.out_width());
  }
  for (const FeedForwardSpec& feed_forward : spec.feed_forwards) {
    activated = std::max(activated, feed_forward.width);
  }
  const bool parallel =
      AnyBlock(spec, [](const auto& block) { return block.input == BlockInput::kOfBlockBefore; });
  const bool adds = AnyBlock(spec, [](const auto& block) {
    return block.operation == Operation::kMixture || !block.adds_directly();
  });
  return {.hidden = rows(spec.width),
          .normed = extent.threads * spec.width,
          .kept = parallel ? rows(spec.width) : 0,
          .added = adds || ranks ? rows(spec.width) : 0,
          .qkv = rows(qkv),
          .latent = rows(latent),
          .heads = rows(heads),
          .layer_inputs = rows(spec.LayerInputWidth()),
          .layer_rows = extent.threads * spec.LayerInputWidth(),
          .attended = rows(attended),
          .activated = rows(activated),
          .strips = MatmulScratchFloats(extent.threads, extent.n_rows),
          .logits = SaturatingMul(extent.n_logit_rows, spec.shape.vocab_size),
          .input = rows(input_rows.block),
          .calls = calls,
          .gathered = rows(gathered),
          .staged = ranks ? StagedFloats(spec, input_rows, extent) : 0,
          .mixture = SizesOfMixtures(spec, input_rows, extent)};
}

int64_t StagedRowFloats(const ModelSpec& spec, const WidestRows& input_rows) {
  int64_t widest = std::max<int64_t>(spec.width, input_rows.given);
  for (const SelfAttentionSpec& attention : spec.attentions) {
    const bool of_width = attention.qk_norm_kind == QkNormKind::kWidth;
    widest = std::max(widest, of_width ? attention.q_width() + attention.k_width() : 0);
  }
  return widest;
}

int64_t RopeTableBytes(const ModelSpec& spec, int64_t n_positions) {
  const int64_t max = spec.shape.max_positions;
  const int64_t n = max > 0 ? std::min(n_positions, max) : n_positions;
  int64_t n_dims = 0;
  for (const RopeSpec& rope : spec.ropes) n_dims += rope.n_dims;
  return SaturatingMul(n, n_dims * int64_t{sizeof(float)});
}

}  // namespace ng
