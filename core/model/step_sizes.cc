#include "core/model/step_sizes.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/kernels/matmul.h"

namespace ng {

int64_t StepSizes::bytes() const {
  int64_t floats = 0;
  for (const int64_t size : {hidden, normed, qkv, attended, activated, strips, logits}) {
    floats = SaturatingAdd(floats, size);
  }
  return SaturatingAdd(SaturatingMul(floats, sizeof(float)), input);
}

void Activations::Grow(const StepSizes& sizes) {
  GrowTo(hidden, sizes.hidden);
  GrowTo(normed, sizes.normed);
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
  int64_t widest = row(spec.tied_head ? types.embedding : types.head, spec.width);
  for (const LayerWeightTypes& layer : types.layers) {
    widest =
        std::max({widest, row(layer.q, spec.width), row(layer.gate, spec.width),
                  rounded(layer.attn_out, spec.q_width()), rounded(layer.down, spec.ffn_width)});
  }
  return widest;
}

StepSizes SizesOfStep(const ModelSpec& spec, int64_t input_row_bytes, const StepExtent& extent) {
  const auto rows = [&](int64_t width) { return SaturatingMul(extent.n_rows, width); };
  return {.hidden = rows(spec.width),
          .normed = extent.threads * spec.width,
          .qkv = rows(spec.qkv_width()),
          .attended = rows(spec.q_width()),
          .activated = rows(spec.ffn_width),
          .strips = MatmulScratchFloats(extent.threads, extent.n_rows),
          .logits = SaturatingMul(extent.n_logit_rows, spec.shape.vocab_size),
          .input = rows(input_row_bytes)};
}

int64_t RopeTableBytes(const ModelSpec& spec, int64_t n_positions) {
  if (spec.position != PositionKind::kRope) return 0;
  const int64_t max = spec.shape.max_positions;
  const int64_t n = max > 0 ? std::min(n_positions, max) : n_positions;
  return SaturatingMul(n, spec.shape.head_dim * int64_t{sizeof(float)});
}

}  // namespace ng
