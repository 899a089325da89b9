#include "core/model/weight_sizes.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "absl/functional/function_ref.h"
#include "core/base/checked.h"

namespace ng {
namespace {

int64_t Blocks(int64_t n) { return (n + kBlockColumns - 1) / kBlockColumns; }

// Parts of n rows each, side by side; parts alike make one band.
using Bands = std::vector<WeightBand>;
Bands SideBySide(std::initializer_list<std::pair<WeightType, int64_t>> parts) {
  const bool alike = std::ranges::all_of(
      parts, [&](const auto& part) { return part.first == parts.begin()->first; });
  int64_t n = 0;
  Bands bands;
  for (const auto& [type, rows] : parts) {
    n += rows;
    if (!alike) bands.push_back({type, Blocks(rows)});
  }
  if (alike) bands.push_back({parts.begin()->first, Blocks(n)});
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

// Values of a block that are held as f32: norms, biases.
int64_t VectorValues(const ModelSpec& spec, const BlockSpec& block) {
  const int64_t norms = NormValues(block.before, spec.width) + NormValues(block.after, spec.width) +
                        NormValues(block.stream_norm, spec.width);
  if (block.operation == Operation::kAttention) {
    const SelfAttentionSpec& attention = spec.AttentionOf(block);
    return norms + NormValues(attention.qk_norm, attention.qk_norm_values(attention.n_heads)) +
           NormValues(attention.qk_norm, attention.qk_norm_values(attention.n_kv_heads)) +
           (attention.qkv_bias ? attention.qkv_width() : 0) + (attention.out_bias ? spec.width : 0);
  }
  const FeedForwardSpec& feed_forward = spec.FeedForwardOf(block);
  return norms + (feed_forward.bias ? feed_forward.gate_up_width() + spec.width : 0);
}

// The same of the model: also positions and factors of RoPE.
int64_t VectorValues(const ModelSpec& spec) {
  int64_t values =
      NormValues(spec.head.norm, spec.width) + NormValues(spec.embedding.norm, spec.width);
  if (spec.head.bias) values += spec.shape.vocab_size;
  if (spec.embedding.positions) {
    values += (spec.shape.max_positions + spec.embedding.position_offset) * spec.width;
  }
  for (const RopeSpec& rope : spec.ropes) values += rope.factors ? rope.n_dims / 2 : 0;
  for (const LayerSpec& blocks : spec.layers) {
    for (const BlockSpec& block : blocks) values += VectorValues(spec, block);
  }
  return values;
}

// Calls with each matrix of the layers.
void ForEachMatrix(const ModelSpec& spec, const WeightTypes& types,
                   absl::FunctionRef<void(const MatrixShape& matrix)> visit) {
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    for (size_t b = 0; b < spec.layers[i].size(); ++b) {
      const BlockMatrices matrices = MatricesOf(spec, spec.layers[i][b], types.layers[i][b]);
      visit(matrices.in);
      visit(matrices.out);
    }
  }
}

}  // namespace

BlockMatrices MatricesOf(const ModelSpec& spec, const BlockSpec& block,
                         const BlockWeightTypes& types) {
  const Bands out = {{types.out, Blocks(spec.width)}};
  const auto& in = types.in;
  if (block.operation == Operation::kAttention) {
    const SelfAttentionSpec& attention = spec.AttentionOf(block);
    Bands qkv = SideBySide({{in[0], attention.q_width()},
                            {in[1], attention.kv_width()},
                            {in[2], attention.kv_width()}});
    return {{std::move(qkv), attention.qkv_width(), spec.width},
            {out, spec.width, attention.q_width()}};
  }
  const FeedForwardSpec& feed_forward = spec.FeedForwardOf(block);
  const int64_t n = feed_forward.gate_up_width();
  return {{InTurns(in[0], in[1], n), n, spec.width}, {out, spec.width, feed_forward.width}};
}

WeightSizes SizesOf(const ModelSpec& spec, const WeightTypes& types) {
  const int64_t vocab_size = spec.shape.vocab_size;
  WeightSizes sizes;
  sizes.embedding_bytes = PackedMatrix::PackedBytes(types.embedding, vocab_size, spec.width);
  if (!spec.head.tied) {
    sizes.head_bytes = PackedMatrix::PackedBytes(types.head, vocab_size, spec.width);
  }
  ForEachMatrix(spec, types, [&](const MatrixShape& matrix) {
    sizes.layer_bytes =
        SaturatingAdd(sizes.layer_bytes, PackedMatrix::PackedBytes(matrix.bands, matrix.k));
  });
  sizes.vector_bytes = VectorValues(spec) * int64_t{sizeof(float)};
  return sizes;
}

int64_t WeightSizes::matrix_bytes() const {
  return SaturatingAdd(SaturatingAdd(embedding_bytes, head_bytes), layer_bytes);
}

int64_t WeightSizes::bytes() const { return SaturatingAdd(matrix_bytes(), vector_bytes); }

int64_t RowsOf(const TensorBinding& binding) {
  const std::vector<int64_t>& shape = binding.tensor->shape;
  return binding.transposed ? shape.back() : *(shape.end() - 2);
}

int64_t BytesReadAtATime(const TensorBinding& binding, int threads) {
  if (!IsMatrix(binding.role) || binding.transposed) return binding.n_bytes();
  const int64_t n_rows = RowsOf(binding);
  return binding.n_bytes() / n_rows * std::min(n_rows, kRowsPackedAtATime) * threads;
}

int64_t LoadScratchBytes(const ModelFile& file, int threads) {
  int64_t raw = 0;        // kept from tensor to tensor
  int64_t converted = 0;  // given back after each
  for (const TensorBinding& binding : file.bindings) {
    raw = std::max(raw, BytesReadAtATime(binding, threads));
    int64_t values = binding.n_elements();
    if (IsMatrix(binding.role)) {
      values = std::min(values, values / RowsOf(binding) * kRowsPackedAtATime * threads);
    }
    converted = std::max(converted, SaturatingMul(values, sizeof(float)));
  }
  return SaturatingAdd(raw, converted);
}

StepCost CostOf(const ModelSpec& spec, const WeightTypes& types) {
  const WeightSizes sizes = SizesOf(spec, types);
  StepCost cost;
  cost.weight_bytes =
      SaturatingAdd(sizes.layer_bytes, spec.head.tied ? sizes.embedding_bytes : sizes.head_bytes);
  cost.logit_multiply_adds = spec.shape.vocab_size * spec.width;
  std::array<int64_t, kWeightTypes> by_type = {};
  ForEachMatrix(spec, types, [&](const MatrixShape& matrix) {
    cost.row_multiply_adds += matrix.n * matrix.k;
    for (const WeightBand& band : matrix.bands) {
      by_type[static_cast<size_t>(band.type)] += band.n_blocks * matrix.k;
    }
  });
  cost.weights =
      WeightTypeName(static_cast<WeightType>(std::ranges::max_element(by_type) - by_type.begin()));
  return cost;
}

}  // namespace ng
