#include "core/model/weight_sizes.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

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

// One of a layer's four.
struct Matrix {
  Bands bands;
  int64_t n = 0;  // outputs
  int64_t k = 0;  // inputs
};

std::array<Matrix, 4> LayerMatrices(const ModelSpec& spec, const LayerWeightTypes& types) {
  const auto whole = [](WeightType type, int64_t n, int64_t k) {
    return Matrix{{{type, Blocks(n)}}, n, k};
  };
  return {Matrix{BandsOfQkv(spec, types), spec.qkv_width(), spec.width},
          whole(types.attn_out, spec.width, spec.q_width()),
          Matrix{BandsOfGateUp(spec, types), spec.gate_up_width(), spec.width},
          whole(types.down, spec.width, spec.ffn_width)};
}

// Values that are held as f32: norms, biases, positions, factors of RoPE.
int64_t VectorValues(const ModelSpec& spec) {
  const int64_t norm = spec.norm_bias ? 2 * spec.width : spec.width;
  const int64_t layer = 2 * norm + (spec.qkv_bias ? spec.qkv_width() : 0) +
                        (spec.qk_norm ? 2 * spec.shape.head_dim : 0) +
                        (spec.attn_out_bias ? spec.width : 0) +
                        (spec.mlp_bias ? spec.gate_up_width() + spec.width : 0);
  const int64_t n_positions =
      spec.position == PositionKind::kLearned ? spec.shape.max_positions : 0;
  const int64_t final_norm = spec.norm_placement == NormPlacement::kPre ? norm : 0;
  const int64_t rope_factors = spec.rope_factors ? spec.shape.head_dim / 2 : 0;
  return final_norm + rope_factors + n_positions * spec.width + spec.shape.n_layers * layer;
}

bool IsMatrix(const TensorBinding& binding) {
  return binding.tensor->shape.size() > 1 && binding.role != TensorRole::kPositions;
}

}  // namespace

std::vector<WeightBand> BandsOfQkv(const ModelSpec& spec, const LayerWeightTypes& types) {
  return SideBySide(
      {{types.q, spec.q_width()}, {types.k, spec.kv_width()}, {types.v, spec.kv_width()}});
}

// Gate and up take turns, a block each.
std::vector<WeightBand> BandsOfGateUp(const ModelSpec& spec, const LayerWeightTypes& types) {
  const int64_t n_blocks = Blocks(spec.gate_up_width());
  if (types.gate == types.up) return {{types.up, n_blocks}};
  Bands bands;
  for (int64_t i = 0; i < n_blocks; ++i) bands.push_back({i % 2 == 0 ? types.gate : types.up, 1});
  return bands;
}

WeightSizes SizesOf(const ModelSpec& spec, const WeightTypes& types) {
  const int64_t vocab_size = spec.shape.vocab_size;
  WeightSizes sizes;
  sizes.embedding_bytes = PackedMatrix::PackedBytes(types.embedding, vocab_size, spec.width);
  if (!spec.tied_head) {
    sizes.head_bytes = PackedMatrix::PackedBytes(types.head, vocab_size, spec.width);
  }
  for (const LayerWeightTypes& layer : types.layers) {
    for (const Matrix& matrix : LayerMatrices(spec, layer)) {
      sizes.layer_bytes =
          SaturatingAdd(sizes.layer_bytes, PackedMatrix::PackedBytes(matrix.bands, matrix.k));
    }
  }
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
  if (!IsMatrix(binding) || binding.transposed) return binding.n_bytes();
  const int64_t n_rows = RowsOf(binding);
  return binding.n_bytes() / n_rows * std::min(n_rows, kRowsPackedAtATime) * threads;
}

int64_t LoadScratchBytes(const ModelFile& file, int threads) {
  int64_t raw = 0;        // kept from tensor to tensor
  int64_t converted = 0;  // given back after each
  for (const TensorBinding& binding : file.bindings) {
    raw = std::max(raw, BytesReadAtATime(binding, threads));
    int64_t values = binding.n_elements();
    if (IsMatrix(binding)) {
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
      SaturatingAdd(sizes.layer_bytes, spec.tied_head ? sizes.embedding_bytes : sizes.head_bytes);
  cost.logit_multiply_adds = spec.shape.vocab_size * spec.width;
  std::array<int64_t, kWeightTypes> by_type = {};
  for (const LayerWeightTypes& layer : types.layers) {
    for (const Matrix& matrix : LayerMatrices(spec, layer)) {
      cost.row_multiply_adds += matrix.n * matrix.k;
      for (const WeightBand& band : matrix.bands) {
        by_type[static_cast<size_t>(band.type)] += band.n_blocks * matrix.k;
      }
    }
  }
  cost.weights =
      WeightTypeName(static_cast<WeightType>(std::ranges::max_element(by_type) - by_type.begin()));
  return cost;
}

}  // namespace ng
