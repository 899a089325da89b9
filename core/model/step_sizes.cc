#include "core/model/step_sizes.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/kernels/matmul.h"

namespace ng {
namespace {

// What the second matrix of a block reads.
int64_t InnerWidthOf(const ModelSpec& spec, const BlockSpec& block) {
  return block.operation == Operation::kAttention ? spec.AttentionOf(block).q_width()
                                                  : spec.FeedForwardOf(block).width;
}

template <typename Predicate>
bool AnyBlock(const ModelSpec& spec, Predicate&& predicate) {
  return std::ranges::any_of(
      spec.layers, [&](const LayerSpec& blocks) { return std::ranges::any_of(blocks, predicate); });
}

}  // namespace

int64_t StepSizes::bytes() const {
  int64_t floats = 0;
  for (const int64_t size :
       {hidden, normed, kept, added, qkv, attended, activated, strips, logits}) {
    floats = SaturatingAdd(floats, size);
  }
  return SaturatingAdd(SaturatingMul(floats, sizeof(float)), input);
}

void Activations::Grow(const StepSizes& sizes) {
  GrowTo(hidden, sizes.hidden);
  GrowTo(normed, sizes.normed);
  GrowTo(kept, sizes.kept);
  GrowTo(added, sizes.added);
  GrowTo(qkv, sizes.qkv);
  GrowTo(attended, sizes.attended);
  GrowTo(activated, sizes.activated);
  GrowTo(strips, sizes.strips);
  GrowTo(logits, sizes.logits);
  GrowTo(input, sizes.input);
}

int64_t InputRowBytesOf(const KernelTable& kernels, const ModelSpec& spec,
                        const WeightTypes& types) {
  const auto row = [&](WeightType type, int64_t k) {
    return InputRowBytes(kernels.input[static_cast<size_t>(type)], k);
  };
  // What comes out of a block as f32 is read where it is if nothing has to be rounded.
  const auto rounded = [&](WeightType type, int64_t k) {
    return kernels.prepare[static_cast<size_t>(type)] == nullptr ? 0 : row(type, k);
  };
  int64_t widest = row(spec.head.tied ? types.embedding : types.head, spec.width);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    for (size_t b = 0; b < spec.layers[i].size(); ++b) {
      const BlockWeightTypes& block = types.layers[i][b];
      const int64_t inner = InnerWidthOf(spec, spec.layers[i][b]);
      widest = std::max({widest, row(block.in[0], spec.width), rounded(block.out, inner)});
    }
  }
  return widest;
}

StepSizes SizesOfStep(const ModelSpec& spec, int64_t input_row_bytes, const StepExtent& extent) {
  const auto rows = [&](int64_t width) { return SaturatingMul(extent.n_rows, width); };
  int64_t qkv = 0;
  int64_t attended = 0;
  int64_t activated = 0;
  for (const SelfAttentionSpec& attention : spec.attentions) {
    qkv = std::max(qkv, attention.qkv_width());
    attended = std::max(attended, attention.q_width());
  }
  for (const FeedForwardSpec& feed_forward : spec.feed_forwards) {
    activated = std::max(activated, feed_forward.width);
  }
  const bool parallel =
      AnyBlock(spec, [](const auto& block) { return block.input == BlockInput::kOfBlockBefore; });
  const bool adds = AnyBlock(spec, [](const auto& block) { return !block.adds_directly(); });
  return {.hidden = rows(spec.width),
          .normed = extent.threads * spec.width,
          .kept = parallel ? rows(spec.width) : 0,
          .added = adds ? rows(spec.width) : 0,
          .qkv = rows(qkv),
          .attended = rows(attended),
          .activated = rows(activated),
          .strips = MatmulScratchFloats(extent.threads, extent.n_rows),
          .logits = SaturatingMul(extent.n_logit_rows, spec.shape.vocab_size),
          .input = rows(input_row_bytes)};
}

int64_t RopeTableBytes(const ModelSpec& spec, int64_t n_positions) {
  const int64_t max = spec.shape.max_positions;
  const int64_t n = max > 0 ? std::min(n_positions, max) : n_positions;
  int64_t n_dims = 0;
  for (const RopeSpec& rope : spec.ropes) n_dims += rope.n_dims;
  return SaturatingMul(n, n_dims * int64_t{sizeof(float)});
}

}  // namespace ng
