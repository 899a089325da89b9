#include "core/model/load/weight_memory.h"

#include <cmath>
#include <utility>

#include "core/model/weights/rank_split.h"
#include "core/model/weights/weight_sizes.h"

namespace ng {
namespace {

// Vaswani et al. 2017, as XGLM has it: all sines of a position, then all cosines. In f32, whose
// rounding of large angles is part of what the model was trained with.
std::vector<float> Sinusoids(int64_t n_rows, int64_t width) {
  std::vector<float> rows(static_cast<size_t>(n_rows * width), 0.0F);
  const int64_t half = width / 2;
  const auto step = static_cast<float>(std::log(10000.0) / static_cast<double>(half - 1));
  for (int64_t i = 0; i < half; ++i) {
    const float frequency = half == 1 ? 1.0F : std::exp(static_cast<float>(i) * -step);
    for (int64_t pos = 0; pos < n_rows; ++pos) {
      const float angle = static_cast<float>(pos) * frequency;
      float* const row = rows.data() + pos * width + i;
      row[0] = std::sin(angle);
      row[half] = std::cos(angle);
    }
  }
  return rows;
}

// The weights of a norm that has none in the file.
NormWeights OnesOf(const NormSpec& norm, int64_t width) {
  if (!norm.is_there() || norm.weight) return {};
  return {.weight = std::vector<float>(static_cast<size_t>(width), 1.0F), .bias = {}};
}

// Of the delta rule: q and k of each head are divided by their lengths, and q by the root of the
// dimensions too. As norms by the root of a mean.
void SetLengths(const StateSpec& state, BlockWeights* w) {
  if (state.kind != StateKind::kDeltaRule) return;
  const auto n = static_cast<size_t>(state.key_dim);
  const double dim = static_cast<double>(state.key_dim);
  w->q_norm.weight.assign(n, static_cast<float>(1.0 / dim));
  w->k_norm.weight.assign(n, static_cast<float>(1.0 / std::sqrt(dim)));
}

absl::Status Allocate(const MatrixPairShapes& shapes, WeightMemory& memory, MatrixPair* w) {
  const auto& [in, out] = shapes;
  if (in.n == 0) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(w->in, memory.Allocate(in.bands, in.n, in.k));
  NG_ASSIGN_OR_RETURN(w->out, memory.Allocate(out.bands, out.n, out.k));
  return absl::OkStatus();
}

void VisitNorm(NormWeights& norm, VectorVisitor visit) {
  visit(norm.weight);
  visit(norm.bias);
}

void VisitInAndOut(MatrixPair& w, VectorVisitor visit) {
  visit(w.in_bias);
  visit(w.out_bias);
  visit(w.xielu);
}

void VisitBlock(BlockWeights& w, VectorVisitor visit) {
  VisitInAndOut(w, visit);
  for (NormWeights* const norm :
       {&w.before, &w.inner, &w.after, &w.stream_norm, &w.q_norm, &w.k_norm, &w.v_norm,
        &w.router_norm, &w.shared_norm, &w.shared_after, &w.experts_after}) {
    VisitNorm(*norm, visit);
  }
  StateWeights& state = w.state;
  for (std::vector<float>* const vector :
       {&w.stream_factor, &w.sinks, &w.router_bias, &w.selection_bias, &w.expert_scales,
        &state.conv, &state.conv_bias, &state.decay_log, &state.step_bias, &state.skip,
        &state.norm}) {
    visit(*vector);
  }
  for (MatrixPair& head : w.heads) VisitInAndOut(head, visit);
  for (MatrixPair& expert : w.experts) VisitInAndOut(expert, visit);
}

}  // namespace

absl::StatusOr<ModelWeights> MakeWeights(const ModelSpec& spec, const WeightTypes& types,
                                         WeightMemory& memory) {
  ModelWeights model;
  model.types = types;
  const int64_t vocab_size = spec.shape.vocab_size;
  if (spec.has_embedding()) {
    NG_ASSIGN_OR_RETURN(model.embedding, memory.Allocate(types.embedding, vocab_size, spec.width));
  }
  if (!spec.head.tied && spec.has_head()) {
    NG_ASSIGN_OR_RETURN(
        model.head, memory.Allocate(types.head, ColumnsOf(vocab_size, spec.split).n, spec.width));
  }
  if (const int64_t n = spec.LayerInputWidth(); n > 0) {
    const auto& [projection, embedding] = *types.layer_input;
    NG_ASSIGN_OR_RETURN(model.layer_embedding,
                        memory.Allocate(embedding, spec.layer_input.vocab_size, n));
    NG_ASSIGN_OR_RETURN(model.layer_projection, memory.Allocate(projection[0], n, spec.width));
    model.layer_input_norm = OnesOf(spec.layer_input.norm, spec.layer_input.width);
  }
  model.embedding_norm = OnesOf(spec.embedding.norm, spec.width);
  model.final_norm = OnesOf(spec.head.norm, spec.width);
  if (spec.embedding.sinusoids && spec.layer_split.begins()) {
    model.positions =
        Sinusoids(spec.shape.max_positions + spec.embedding.position_offset, spec.width);
  }
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    std::vector<BlockWeights>& layer = model.layers.emplace_back();
    for (size_t b = 0; b < spec.layers[i].size(); ++b) {
      const BlockSpec& block = spec.layers[i][b];
      BlockWeights& w = layer.emplace_back();
      w.before = OnesOf(block.before, spec.width);
      w.inner = OnesOf(block.inner, spec.InnerWidthOf(block));
      w.after = OnesOf(block.after, spec.width);
      w.stream_norm = OnesOf(block.stream_norm, spec.width);
      if (block.operation == Operation::kAttention) {
        const SelfAttentionSpec& a = spec.AttentionOf(block);
        w.q_norm = OnesOf(a.qk_norm, a.qk_norm_values(a.n_heads));
        w.k_norm = OnesOf(a.qk_norm, a.qk_norm_values(a.n_kv_heads));
        w.v_norm = OnesOf(a.v_norm, a.value_dim());
      } else if (block.operation == Operation::kState) {
        SetLengths(spec.StateOf(block), &w);
      }
      const BlockMatrices matrices = MatricesOf(spec, block, types.layers[i][b]);
      w.experts.resize(static_cast<size_t>(matrices.n_experts));
      NG_RETURN_IF_ERROR(Allocate(matrices.own, memory, &w));
      if (const MatrixShape& q_up = matrices.q_up; q_up.n > 0) {
        NG_ASSIGN_OR_RETURN(w.q_up, memory.Allocate(q_up.bands, q_up.n, q_up.k));
      }
      w.heads.resize(static_cast<size_t>(matrices.n_heads));
      for (MatrixPair& head : w.heads) {
        NG_RETURN_IF_ERROR(Allocate(matrices.head, memory, &head));
      }
      for (MatrixPair& expert : w.experts) {
        NG_RETURN_IF_ERROR(Allocate(matrices.expert, memory, &expert));
      }
      if (matrices.router.n == 0) continue;
      NG_ASSIGN_OR_RETURN(
          w.router, memory.Allocate(matrices.router.bands, matrices.router.n, matrices.router.k));
    }
  }
  return model;
}

namespace {

// What this rank holds of a block's rows or values that go to a place of its weights; empty: all.
std::vector<HeldRows> HeldOf(const ModelSpec& spec, const BlockSpec& block, BlockWeights& w,
                             const Place& place) {
  const auto is = [&](PackedMatrix& matrix, std::vector<float>& vector) {
    return place.matrix == &matrix || place.vector == &vector;
  };
  const RankSplit& split = spec.split;
  std::vector<HeldRows> of_stream = HeldOf(ColumnsOf(spec.width, split));
  if (block.operation == Operation::kMixture) {
    const MixtureSpec& mixture = spec.MixtureOf(block);
    if (!IsCut(mixture)) return {};
    if (is(w.in, w.in_bias)) return HeldOf(mixture.shared, split);
    if (is(w.out, w.out_bias)) return of_stream;
    for (MatrixPair& expert : w.experts) {
      if (is(expert.in, expert.in_bias)) return HeldOf(mixture.expert, split);
      if (is(expert.out, expert.out_bias)) return of_stream;
    }
    return {};
  }
  if (is(w.out, w.out_bias)) return of_stream;
  if (block.operation == Operation::kState) return {};
  if (block.operation != Operation::kAttention) {
    return is(w.in, w.in_bias) ? HeldOf(spec.FeedForwardOf(block), split) : std::vector<HeldRows>();
  }
  const SelfAttentionSpec& attention = spec.AttentionOf(block);
  if (is(w.in, w.in_bias)) return HeldOf(attention, split);
  const RankHeads heads = HeadsOf(attention, split);
  if (place.vector == &w.sinks && heads.cut) return {{heads.first, heads.first + heads.n, 0}};
  return {};
}

// The same of any place.
std::vector<HeldRows> HeldOf(const TensorBinding& binding, const ModelSpec& spec,
                             ModelWeights& model, const Place& place) {
  if (spec.split.ranks == 1) return {};
  if (place.matrix == &model.head || place.vector == &model.head_bias) {
    return HeldOf(ColumnsOf(spec.shape.vocab_size, spec.split));
  }
  if (binding.at.layer < 0) return {};
  const auto layer = static_cast<size_t>(binding.at.layer);
  for (size_t b = 0; b < spec.layers[layer].size(); ++b) {
    std::vector<HeldRows> held = HeldOf(spec, spec.layers[layer][b], model.layers[layer][b], place);
    if (!held.empty()) return held;
  }
  return {};
}

}  // namespace

Place PlaceOf(const TensorBinding& binding, const ModelSpec& spec, ModelWeights& model) {
  Place place = RolePlace(binding.role, spec, binding.at, model);
  if (binding.order == StoredOrder::kPaired) {
    place.order = RowOrder::kPaired;
    place.unit = spec.shape.head_dim;
    if (binding.role == TensorRole::kQkv || binding.role == TensorRole::kQkvBias) {
      place.n_paired = int64_t{spec.shape.n_heads + spec.shape.n_kv_heads} * place.unit;
    }
  } else if (binding.order == StoredOrder::kTurns) {
    place.order = RowOrder::kTurns;
  } else if (binding.order != StoredOrder::kPlain) {
    const SelfAttentionSpec& attention =
        spec.AttentionOf(*spec.Find(static_cast<size_t>(binding.at.layer), Operation::kAttention));
    // CodeGen's four groups hold a quarter of q, of v and of k.
    const bool quarters = binding.order == StoredOrder::kQuarters;
    const int n_groups = quarters ? 4 : attention.n_kv_heads;
    const Segment q = {attention.q_width() / n_groups, 0};
    const Segment k = {attention.k_width() / n_groups, attention.q_width()};
    const Segment v = {attention.v_width() / n_groups, k.begin + attention.k_width()};
    place.order = RowOrder::kGroups;
    place.segments = {q, quarters ? v : k, quarters ? k : v};
  }
  place.held = HeldOf(binding, spec, model, place);
  return place;
}

void ForEachVector(ModelWeights& weights, VectorVisitor visit) {
  for (std::vector<float>* const vector :
       {&weights.positions, &weights.rope_factors, &weights.head_bias}) {
    visit(*vector);
  }
  for (NormWeights* const norm :
       {&weights.embedding_norm, &weights.layer_input_norm, &weights.final_norm}) {
    VisitNorm(*norm, visit);
  }
  for (std::vector<BlockWeights>& layer : weights.layers) {
    for (BlockWeights& block : layer) VisitBlock(block, visit);
  }
}

}  // namespace ng
