// What the tables of tensor roles are made of: where a role is looked for, its row, and the shapes
// and places that several of them share. For tensor_roles.cc and its tables alone.
#ifndef NG_CORE_MODEL_WEIGHTS_ROLE_ROW_H_
#define NG_CORE_MODEL_WEIGHTS_ROLE_ROW_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/model/spec/model_spec.h"
#include "core/model/weights/place.h"
#include "core/model/weights/tensor_role.h"
#include "core/model/weights/weights.h"

namespace ng::roles {

using enum TensorRole;
using Shape = std::vector<int64_t>;

// Where a role is looked for: in a model, or in one of its blocks.
struct Site {
  const ModelSpec& model;
  const BlockSpec* block = nullptr;
  size_t index = 0;  // of the block in its layer
  int expert = -1;   // or a head

  const SelfAttentionSpec& attention() const { return model.AttentionOf(*block); }
  const MixtureSpec& mixture() const { return model.MixtureOf(*block); }
  const RouterSpec& router() const { return mixture().router; }
  const StateSpec& state() const { return model.StateOf(*block); }
};

// Operations, as bits.
inline constexpr int Bit(Operation operation) { return 1 << static_cast<int>(operation); }
inline constexpr int kAttention = Bit(Operation::kAttention);
inline constexpr int kFeedForward = Bit(Operation::kFeedForward);
inline constexpr int kMixture = Bit(Operation::kMixture);
inline constexpr int kState = Bit(Operation::kState);
inline constexpr int kLayerInput = Bit(Operation::kLayerInput);
inline constexpr int kMlp = kFeedForward | kMixture;
inline constexpr int kMixer = kAttention | kState;

// The block of a layer that does one of these; null where it has none.
inline Site SiteOf(const ModelSpec& model, int layer, int operations) {
  const LayerSpec& blocks = model.layers[static_cast<size_t>(layer)];
  const auto found = std::ranges::find_if(
      blocks, [&](const BlockSpec& block) { return (Bit(block.operation) & operations) != 0; });
  if (found == blocks.end()) return {model};
  return {model, &*found, static_cast<size_t>(found - blocks.begin())};
}

// Of what only some models have.
inline Shape If(bool has, const Shape& shape) { return has ? shape : Shape(); }

inline Place Rows(PackedMatrix& matrix, int64_t first = 0) {
  return {.matrix = &matrix, .first = first};
}
inline Place Values(std::vector<float>& vector, int64_t size, int64_t first = 0) {
  return {.vector = &vector, .first = first, .size = size};
}
inline Place NormValues(const NormSpec& norm, std::vector<float>& weight, int64_t size) {
  return {.vector = &weight, .size = size, .offset = norm.offset};
}

inline Place Grouped(PackedMatrix& matrix, const std::array<Segment, 4>& segments) {
  return {.matrix = &matrix, .order = RowOrder::kGroups, .segments = segments};
}

// Parts of a block's first matrix, and its second matrix; or a matrix that is always f32.
inline constexpr int kIn0 = 1;
inline constexpr int kIn1 = 2;
inline constexpr int kIn2 = 4;
inline constexpr int kOut = 8;
inline constexpr int kF32 = 16;
// Of latents: q_up, and of each head its matrices of k and of v.
inline constexpr int kQUpPart = 32;
inline constexpr int kKUpPart = 64;
inline constexpr int kVUpPart = 128;

// A role in the block that does one of `operations`.
struct BlockRow {
  TensorRole role;
  int operations;
  std::string_view title;
  Shape (*shape)(const Site& at);
  Place (*place)(const Site& at, BlockWeights& w);
  int parts = 0;  // of the block's matrices
  bool of_expert = false;
  bool of_head = false;
};

inline Shape BeforeWeight(const Site& at) {
  return If(at.block->before.has_weight(), {at.model.width});
}
inline Shape BeforeBias(const Site& at) {
  return If(at.block->before.has_bias(), {at.model.width});
}
inline Place BeforeWeightPlace(const Site& at, BlockWeights& w) {
  return NormValues(at.block->before, w.before.weight, at.model.width);
}
inline Place BeforeBiasPlace(const Site& at, BlockWeights& w) {
  return Values(w.before.bias, at.model.width);
}
// The norm behind the operation, of which a block has at most one with weights.
inline const NormSpec& PostNorm(const Site& at) {
  return at.block->after.is_there() ? at.block->after : at.block->stream_norm;
}
inline NormWeights& PostNormWeights(const Site& at, BlockWeights& w) {
  return at.block->after.is_there() ? w.after : w.stream_norm;
}
inline Shape PostWeight(const Site& at) { return If(PostNorm(at).has_weight(), {at.model.width}); }
inline Shape PostBias(const Site& at) { return If(PostNorm(at).has_bias(), {at.model.width}); }
inline Place PostWeightPlace(const Site& at, BlockWeights& w) {
  return NormValues(PostNorm(at), PostNormWeights(at, w).weight, at.model.width);
}
inline Place PostBiasPlace(const Site& at, BlockWeights& w) {
  return Values(PostNormWeights(at, w).bias, at.model.width);
}

inline Shape InnerWeight(const Site& at) {
  return If(at.block->inner.has_weight(), {at.model.InnerWidthOf(*at.block)});
}
inline Place InnerWeightPlace(const Site& at, BlockWeights& w) {
  return NormValues(at.block->inner, w.inner.weight, at.model.InnerWidthOf(*at.block));
}

inline Shape StreamFactor(const Site& at) { return If(at.block->stream_factor, {1}); }
inline Place StreamFactorPlace(const Site&, BlockWeights& w) { return Values(w.stream_factor, 1); }

inline Place OutBias(const Site& at, BlockWeights& w) { return Values(w.out_bias, at.model.width); }

}  // namespace ng::roles

#endif  // NG_CORE_MODEL_WEIGHTS_ROLE_ROW_H_
