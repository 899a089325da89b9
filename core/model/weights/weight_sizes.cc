#include "core/model/weights/weight_sizes.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "core/base/checked.h"
#include "core/model/weights/rank_split.h"

namespace ng {
namespace {

int64_t Blocks(int64_t n) { return (n + kBlockColumns - 1) / kBlockColumns; }

// Parts of n rows each, side by side; parts alike make one band.
using Bands = std::vector<WeightBand>;
Bands SideBySide(std::span<const std::pair<WeightType, int64_t>> parts) {
  const bool alike =
      std::ranges::all_of(parts, [&](const auto& part) { return part.first == parts[0].first; });
  int64_t n = 0;
  Bands bands;
  for (const auto& [type, rows] : parts) {
    n += rows;
    if (!alike) bands.push_back({type, Blocks(rows)});
  }
  if (alike) bands.push_back({parts[0].first, Blocks(n)});
  return bands;
}

// Gate and up take turns, a block each.
Bands InTurns(WeightType gate, WeightType up, int64_t n) {
  const int64_t n_blocks = Blocks(n);
  if (gate == up) return {{up, n_blocks}};
  Bands bands;
  for (int64_t i = 0; i < n_blocks; ++i) bands.push_back({i % 2 == 0 ? gate : up, 1});
  return bands;
}

int64_t NormValues(const NormSpec& norm, int64_t width) {
  return norm.is_there() ? (norm.bias ? 2 : 1) * width : 0;  // one without weights has ones
}

int64_t VectorValues(const ModelSpec& spec, const StateSpec& state) {
  const bool delta = state.kind == StateKind::kDeltaRule;
  const bool mamba = state.kind == StateKind::kMamba2;
  return (state.taps + (state.conv_bias ? 1 : 0)) * state.conv_width +
         (state.in_bias ? state.in_width() : 0) +
         (state.out_bias ? ColumnsOf(spec.width, spec.split).n : 0) +
         (delta ? 2 * state.key_dim + state.value_dim : 0) + (mamba ? state.out_width() : 0) +
         int64_t{state.n_heads} * (mamba ? 3 : 2);
}

// Biases, and what an activation has.
int64_t VectorValues(const ModelSpec& spec, const FeedForwardSpec& feed_forward,
                     const RankSplit& split) {
  return (feed_forward.bias
              ? PartOf(feed_forward, split).gate_up_width() + ColumnsOf(spec.width, split).n
              : 0) +
         (feed_forward.activation == Activation::kXielu ? kXieluValues : 0);
}

// Values of a block that are held as f32: norms, biases.
int64_t VectorValues(const ModelSpec& spec, const BlockSpec& block) {
  const RankSplit& split = spec.split;
  const int64_t norms = NormValues(block.before, spec.width) + NormValues(block.after, spec.width) +
                        NormValues(block.stream_norm, spec.width) +
                        NormValues(block.inner, spec.InnerWidthOf(block)) +
                        (block.stream_factor ? 1 : 0);
  if (block.operation == Operation::kAttention) {
    const SelfAttentionSpec& attention = spec.AttentionOf(block);
    return norms + NormValues(attention.qk_norm, attention.qk_norm_values(attention.n_heads)) +
           (attention.has_keys()
                ? NormValues(attention.qk_norm, attention.qk_norm_values(attention.n_kv_heads))
                : 0) +
           (attention.latent.is_there()
                ? NormValues(attention.latent.norm,
                             attention.latent.q_rank + attention.latent.kv_rank)
                : 0) +
           std::ssize(PartOf(attention, split).sinks) +
           (attention.qkv_bias ? PartOf(attention, split).in_width() : 0) +
           (attention.out_bias ? ColumnsOf(spec.width, split).n : 0) +
           NormValues(attention.v_norm, attention.value_dim());
  }
  if (block.operation == Operation::kState) return norms + VectorValues(spec, spec.StateOf(block));
  if (block.operation != Operation::kMixture) {
    return norms + VectorValues(spec, spec.FeedForwardOf(block), split);
  }
  const MixtureSpec& mixture = spec.MixtureOf(block);
  const auto values = [&](const FeedForwardSpec& feed_forward) {
    return VectorValues(spec, feed_forward, IsCut(mixture) ? split : RankSplit());
  };
  const RouterSpec& router = mixture.router;
  return norms + values(mixture.shared) + router.n_experts * values(mixture.expert) +
         (router.bias ? mixture.n_logits() : 0) + (router.selection_bias ? router.n_experts : 0) +
         (router.expert_scales ? router.n_experts : 0) +
         NormValues(mixture.router_norm, spec.width) + NormValues(mixture.shared_norm, spec.width) +
         NormValues(mixture.shared_after, spec.width) +
         NormValues(mixture.experts_after, spec.width);
}

// The same of the model: also positions and factors of RoPE.
int64_t VectorValues(const ModelSpec& spec) {
  int64_t values = NormValues(spec.layer_input.norm, spec.layer_input.width);
  if (spec.has_head()) {
    values += NormValues(spec.head.norm, spec.width);
    if (spec.head.bias) values += ColumnsOf(spec.shape.vocab_size, spec.split).n;
  }
  if (spec.layer_split.begins()) {
    values += NormValues(spec.embedding.norm, spec.width);
    if (spec.embedding.positions) {
      values += (spec.shape.max_positions + spec.embedding.position_offset) * spec.width;
    }
  }
  for (const RopeSpec& rope : spec.ropes) values += rope.factors ? rope.n_dims / 2 : 0;
  for (const LayerSpec& blocks : spec.layers) {
    for (const BlockSpec& block : blocks) values += VectorValues(spec, block);
  }
  return values;
}

// Calls with each matrix of the layers that there is, and that of their input, how many there are
// of it, and how many of these a row is multiplied by.
void ForEachMatrix(
    const ModelSpec& spec, const WeightTypes& types,
    absl::FunctionRef<void(const MatrixShape& matrix, int64_t n, int64_t n_used)> visit) {
  if (const int64_t n = spec.LayerInputWidth(); n > 0) {
    visit({{{types.layer_input->in[0], Blocks(n)}}, n, spec.width}, 1, 1);
  }
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    for (size_t b = 0; b < spec.layers[i].size(); ++b) {
      const auto& [own, expert, n_experts, n_used, q_up, head, n_heads, router] =
          MatricesOf(spec, spec.layers[i][b], types.layers[i][b]);
      for (const MatrixShape* matrix : {&own.in, &own.out, &router, &q_up}) {
        if (matrix->n > 0) visit(*matrix, 1, 1);
      }
      for (const MatrixShape* matrix : {&head.in, &head.out}) {
        if (n_heads > 0) visit(*matrix, n_heads, n_heads);
      }
      for (const MatrixShape* matrix : {&expert.in, &expert.out}) {
        if (n_experts > 0) visit(*matrix, n_experts, n_used);
      }
    }
  }
}

MatrixShape PlainMatrix(WeightType type, int64_t n, int64_t k) {
  return {{{type, Blocks(n)}}, n, k};
}

// The second matrix of a block, which gives columns of the stream.
MatrixShape OutMatrix(const ModelSpec& spec, WeightType type, int64_t k, const RankSplit& split) {
  return PlainMatrix(type, ColumnsOf(spec.width, split).n, k);
}

MatrixPairShapes FeedForwardShapes(const ModelSpec& spec, const FeedForwardSpec& feed_forward,
                                   const MatrixPairTypes& types, const RankSplit& split) {
  if (feed_forward.width == 0) return {};
  const int64_t n = PartOf(feed_forward, split).gate_up_width();
  return {{InTurns(types.in[0], types.in[1], n), n, spec.width},
          OutMatrix(spec, types.out, feed_forward.width, split)};
}

BlockMatrices LatentMatrices(const ModelSpec& spec, const SelfAttentionSpec& attention,
                             const BlockWeightTypes& types) {
  const LatentSpec& latent = attention.latent;
  const std::vector<std::pair<WeightType, int64_t>> parts = {
      {types.in[0], attention.q_in_width()}, {types.in[1], latent.kv_rank + latent.rope_dim}};
  BlockMatrices matrices = {
      .own = {{SideBySide(parts), attention.in_width(), spec.width},
              OutMatrix(spec, types.out, attention.out_width(), spec.split)},
      .head = {PlainMatrix(types.latent->in[1], latent.kv_rank, attention.nope_dim()),
               PlainMatrix(types.latent->out, attention.value_dim(), latent.kv_rank)},
      .n_heads = attention.n_heads};
  if (latent.q_rank > 0) {
    matrices.q_up = PlainMatrix(types.latent->in[0], attention.own_q_width(), latent.q_rank);
  }
  return matrices;
}

}  // namespace

BlockMatrices MatricesOf(const ModelSpec& spec, const BlockSpec& block,
                         const BlockWeightTypes& types) {
  const auto& in = types.in;
  if (block.operation == Operation::kAttention) {
    const SelfAttentionSpec& whole = spec.AttentionOf(block);
    if (whole.latent.is_there()) return LatentMatrices(spec, whole, types);
    const SelfAttentionSpec attention = PartOf(whole, spec.split);
    std::vector<std::pair<WeightType, int64_t>> parts = {{in[0], attention.q_width()}};
    if (attention.has_keys()) {
      parts.emplace_back(in[1], attention.k_width());
      if (!attention.v_is_k) parts.emplace_back(in[2], attention.v_width());
    }
    if (attention.gate) parts.emplace_back(in[0], attention.out_width());
    return {.own = {{SideBySide(parts), attention.in_width(), spec.width},
                    OutMatrix(spec, types.out, whole.out_width(), spec.split)}};
  }
  if (block.operation == Operation::kFeedForward || block.operation == Operation::kLayerInput) {
    return {.own = FeedForwardShapes(spec, spec.FeedForwardOf(block), types, spec.split)};
  }
  if (block.operation == Operation::kState) {
    const StateSpec& state = spec.StateOf(block);
    std::vector<std::pair<WeightType, int64_t>> parts = {{in[0], state.in_width()}};
    if (state.head_values() > 0) {
      parts = {{in[0], state.conv_width}, {in[1], state.out_width()}, {in[2], state.head_values()}};
    }
    return {.own = {{SideBySide(parts), state.in_width(), spec.width},
                    OutMatrix(spec, types.out, state.out_width(), spec.split)}};
  }
  const MixtureSpec& mixture = spec.MixtureOf(block);
  const int64_t n_logits = mixture.n_logits();
  const RankSplit split = IsCut(mixture) ? spec.split : RankSplit();
  return {.own = FeedForwardShapes(spec, mixture.shared, types, split),
          .expert = FeedForwardShapes(spec, mixture.expert, *types.experts, split),
          .n_experts = mixture.router.n_experts,
          .n_used = mixture.router.n_used,
          .router = {{{WeightType::kF32, Blocks(n_logits)}}, n_logits, spec.width}};
}

WeightSizes SizesOf(const ModelSpec& spec, const WeightTypes& types) {
  const int64_t vocab_size = spec.shape.vocab_size;
  WeightSizes sizes;
  if (spec.has_embedding()) {
    sizes.embedding_bytes = PackedMatrix::PackedBytes(types.embedding, vocab_size, spec.width);
  }
  if (spec.layer_input.is_there()) {
    sizes.embedding_bytes =
        SaturatingAdd(sizes.embedding_bytes,
                      PackedMatrix::PackedBytes(types.layer_input->out, spec.layer_input.vocab_size,
                                                spec.LayerInputWidth()));
  }
  if (!spec.head.tied && spec.has_head()) {
    sizes.head_bytes =
        PackedMatrix::PackedBytes(types.head, ColumnsOf(vocab_size, spec.split).n, spec.width);
  }
  ForEachMatrix(spec, types, [&](const MatrixShape& matrix, int64_t n, int64_t /*n_used*/) {
    sizes.layer_bytes = SaturatingAdd(
        sizes.layer_bytes, SaturatingMul(n, PackedMatrix::PackedBytes(matrix.bands, matrix.k)));
  });
  sizes.vector_bytes = VectorValues(spec) * int64_t{sizeof(float)};
  return sizes;
}

int64_t WeightSizes::matrix_bytes() const {
  return SaturatingAdd(SaturatingAdd(embedding_bytes, head_bytes), layer_bytes);
}

int64_t WeightSizes::bytes() const { return SaturatingAdd(matrix_bytes(), vector_bytes); }

StepCost CostOf(const ModelSpec& spec, const WeightTypes& types) {
  StepCost cost;
  if (spec.has_head()) {
    const int64_t n_logits = ColumnsOf(spec.shape.vocab_size, spec.split).n;
    cost.weight_bytes = PackedMatrix::PackedBytes(types.head, n_logits, spec.width);
    cost.logit_multiply_adds = n_logits * spec.width;
  }
  std::array<int64_t, kWeightTypes> by_type = {};
  ForEachMatrix(spec, types, [&](const MatrixShape& matrix, int64_t n, int64_t n_used) {
    const int64_t bytes = PackedMatrix::PackedBytes(matrix.bands, matrix.k);
    cost.weight_bytes = SaturatingAdd(cost.weight_bytes, SaturatingMul(n_used, bytes));
    cost.row_multiply_adds = SaturatingAdd(
        cost.row_multiply_adds, SaturatingMul(n_used, SaturatingMul(matrix.n, matrix.k)));
    for (const WeightBand& band : matrix.bands) {
      int64_t& weights = by_type[static_cast<size_t>(band.type)];
      weights = SaturatingAdd(weights, SaturatingMul(n, SaturatingMul(band.n_blocks, matrix.k)));
    }
  });
  for (const int layer : spec.LayersWith(Operation::kAttention)) {
    const SelfAttentionSpec attention =
        PartOf(spec.AttentionOf(*spec.Find(static_cast<size_t>(layer), Operation::kAttention)),
               spec.split);
    cost.key_multiply_adds =
        SaturatingAdd(cost.key_multiply_adds, attention.q_width() + attention.attended_width());
  }
  for (const int layer : spec.LayersWith(Operation::kState)) {
    const StateSpec& state =
        spec.StateOf(*spec.Find(static_cast<size_t>(layer), Operation::kState));
    cost.state_bytes =
        SaturatingAdd(cost.state_bytes, state.state_floats() * int64_t{sizeof(float)});
    // It fades and is written, is read, and with the delta rule was asked for the key.
    const int64_t passes = state.kind == StateKind::kDeltaRule ? 3 : 2;
    const int64_t matrices = int64_t{state.n_heads} * state.key_dim * state.value_dim;
    cost.row_multiply_adds = SaturatingAdd(
        cost.row_multiply_adds,
        SaturatingAdd(SaturatingMul(passes, matrices), state.taps * state.conv_width));
  }
  cost.weights =
      WeightTypeName(static_cast<WeightType>(std::ranges::max_element(by_type) - by_type.begin()));
  return cost;
}

}  // namespace ng
