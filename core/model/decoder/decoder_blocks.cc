// Decoder: its blocks but attention, and how what any block gives is added to the stream.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/model/decoder/decoder.h"
#include "core/model/ops/mixture.h"
#include "core/model/ops/state_block.h"
#include "core/model/rows/activation.h"

namespace ng {

absl::Status Decoder::RunBlock(const StepBatch& batch, int layer, const Block& block) {
  switch (block.spec.operation) {
    case Operation::kAttention:
      return AttentionBlock(batch, layer, block);
    case Operation::kFeedForward:
      return FeedForwardBlock(layer, block);
    case Operation::kMixture:
      return MixtureBlock(block);
    case Operation::kState:
      return StateBlock(layer, block);
    case Operation::kLayerInput:
      return FeedForwardBlock(layer, block);
  }
  return absl::OkStatus();
}

absl::Status Decoder::FeedForwardBlock(int layer, const Block& block) {
  const auto& [spec, w, input] = block;
  const FeedForwardSpec& feed_forward = spec_.FeedForwardOf(spec);
  const RankParts::FeedForward& part = ranks_.feed_forwards[static_cast<size_t>(spec.part)];
  const int64_t inner_width = feed_forward.width;
  const CutRows inner = {part.given, n_rows_, At(act_.activated, inner_width)};
  const bool rounded = GivesRounded(block, part.given, Point::kMlpAct);
  float* const own = rounded ? inner.whole : Own(inner);
  NG_ASSIGN_OR_RETURN(const MatmulInput normed, ShownInput(Point::kMlpIn, block));
  NG_RETURN_IF_ERROR(
      Matmul(Product(w.in, w.in_bias, normed), act_.strips, [&](const MatmulTile& tile) {
        ActivateTile(*parts_.kernels, part.spec, block.w, tile, own);
      }));
  if (rounded) {
    NG_ASSIGN_OR_RETURN(const MatmulInput x, GatherRounded(part.given, own, w.out));
    return AddProduct(block, x);
  }
  NG_RETURN_IF_ERROR(Gather(inner));
  if (spec.operation == Operation::kLayerInput) {
    const int64_t n = spec_.layer_input.width;
    NG_RETURN_IF_ERROR(ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
      const float* const x = At(act_.layer_inputs, spec_.LayerInputWidth()) +
                             row * spec_.LayerInputWidth() + layer * n;
      float* const activated = inner.whole + row * n;
      for (int64_t i = 0; i < n; ++i) activated[i] *= x[i];
    }));
  }
  NG_RETURN_IF_ERROR(NormRows({spec.inner, w.inner}, inner_width, inner.whole));
  NG_RETURN_IF_ERROR(LookAt(Point::kMlpAct, act_.activated, inner_width));
  NG_ASSIGN_OR_RETURN(const MatmulInput activated, Rounded(inner.whole, w.out.k(), w.out));
  return AddProduct(block, activated);
}

absl::Status Decoder::MixtureBlock(const Block& block) {
  const BlockSpec& spec = block.spec;
  const MixtureSpec& mixture = spec_.MixtureOf(spec);
  const int64_t width = spec_.width;
  const bool shown = Wants(Point::kMlpIn);
  if (shown) NG_RETURN_IF_ERROR(ShowNormed(Point::kMlpIn, block));
  for (int64_t first = 0; first < n_rows_; first += kMixtureRows) {
    const int64_t n_rows = std::min(kMixtureRows, n_rows_ - first);
    NG_RETURN_IF_ERROR(ForRows(n_rows, [&](int64_t row, int /*worker*/) {
      const float* const x = block.input + (first + row) * width;
      MixtureBuffers& to = act_.mixture;
      float* const normed = to.normed.data() + row * width;
      if (shown) {
        std::copy_n(act_.shown.data() + (first + row) * width, width, normed);
      } else {
        ApplyOrCopy({spec.before, block.w.before}, x, width, normed);
      }
      if (!mixture.norms_apart()) return;
      Apply({mixture.router_norm, block.w.router_norm}, x, width,
            to.router_rows.data() + row * width);
      Apply({mixture.shared_norm, block.w.shared_norm}, x, width,
            to.shared_rows.data() + row * width);
    }));
    MixtureCall call = {*parts_.kernels,
                        *parts_.executor,
                        mixture,
                        block.w,
                        ranks_.mixtures[static_cast<size_t>(spec.part)],
                        low_rank_,
                        SetsOf(first, n_rows),
                        parts_.link};
    if (Wants(Point::kRouter)) {
      call.look = [this, first](const TensorView<float, 2>& logits) {
        return Look({Point::kRouter, logits.data, logits.stride[0], 1, logits.extent[1], first,
                     logits.extent[0]});
      };
    }
    NG_RETURN_IF_ERROR(RunMixture(call, n_rows, act_.mixture, act_.added.data() + first * width));
  }
  return AddRows(block);
}

absl::Status Decoder::StateBlock(int layer, const Block& block) {
  const auto& [spec, w, input] = block;
  const StateSpec& state = spec_.StateOf(spec);
  NG_ASSIGN_OR_RETURN(const MatmulInput normed, ShownInput(Point::kAttnIn, block));
  NG_RETURN_IF_ERROR(Matmul(Product(w.in, w.in_bias, normed), Rows(act_.qkv, state.in_width())));
  NG_RETURN_IF_ERROR(Together([&] {
    return RunState({*parts_.kernels, *parts_.executor, state, block.w, *parts_.states,
                     static_cast<size_t>(numbers_[static_cast<size_t>(layer)])},
                    rows_, act_.qkv.data(), act_.attended.data());
  }));
  const int64_t n_heads = std::max(1, state.n_heads);
  NG_RETURN_IF_ERROR(Look({Point::kAttnHead, act_.attended.data(), state.out_width(), n_heads,
                           state.out_width() / n_heads}));
  float* const attended = At(act_.attended, state.out_width());
  NG_ASSIGN_OR_RETURN(const MatmulInput read, Rounded(attended, w.out.k(), w.out));
  return AddProduct(block, read);
}

bool Decoder::GivesRounded(const Block& block, std::span<const int64_t> given, Point point) const {
  const InputType input = parts_.kernels->input[static_cast<size_t>(block.w.out.type())];
  // Adapters read the rows as they are.
  if (low_rank_.AddsTo(block.w.out)) return false;
  return !given.empty() && !Wants(point) && GivenAs(block.spec, input, given) != InputType::kF32;
}

absl::StatusOr<MatmulInput> Decoder::GatherRounded(std::span<const int64_t> given, const float* own,
                                                   const PackedMatrix& w) {
  const MatmulInput input = InputRows(n_rows_, w);
  const auto rank = static_cast<size_t>(spec_.split.rank);
  std::byte* const room = InputRoom();
  const CutRows rows = {given, n_rows_, reinterpret_cast<float*>(room),
                        parts_.kernels->input[static_cast<size_t>(w.type())]};
  float* const sent = Own(rows);
  NG_RETURN_IF_ERROR(ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    RoundSent(*parts_.kernels, w.type(), own + row * given[rank], given[rank],
              room + row * input.row_bytes,
              reinterpret_cast<std::byte*>(sent + row * rows.Floats(rank)));
  }));
  NG_RETURN_IF_ERROR(Gather(rows));
  return input;
}

absl::Status Decoder::AddProduct(const Block& block, const MatmulInput& x) {
  const auto& [spec, w, input] = block;
  const int64_t width = spec_.width;
  const KernelTable& kernels = *parts_.kernels;
  const MatmulCall product = Product(w.out, w.out_bias, x);
  const Point point = spec.mixes() ? Point::kAttnOut : Point::kMlpOut;
  const bool cut = !ranks_.given_stream.empty();
  float* const hidden = At(act_.hidden, width);
  if (spec.adds_directly() && !Wants(point) && !cut) {
    return Matmul(product, act_.strips, [&](const MatmulTile& tile) {
      for (int64_t row = tile.row; row < tile.row + tile.n_rows; ++row) {
        kernels.add(tile.Row(row), tile.n_columns, hidden + row * width + tile.column);
      }
    });
  }
  GrowTo(act_.added, n_rows_ * width);
  const CutRows added = {ranks_.given_stream, n_rows_, At(act_.added, width)};
  NG_RETURN_IF_ERROR(Matmul(product, {Own(added), {n_rows_, w.out.n()}}));
  NG_RETURN_IF_ERROR(Gather(added));
  return AddRows(block);
}

absl::Status Decoder::AddRows(const Block& block) {
  const int64_t width = spec_.width;
  const Point point = block.spec.mixes() ? Point::kAttnOut : Point::kMlpOut;
  const bool shown = Wants(point);
  float* const all_added = At(act_.added, width);
  float* const hidden = At(act_.hidden, width);
  const auto finish = [&](float* added) {
    if (block.spec.after.is_there()) Apply({block.spec.after, block.w.after}, added, width, added);
    if (block.spec.scale == 1.0F) return;
    for (int64_t i = 0; i < width; ++i) added[i] *= block.spec.scale;
  };
  if (shown) {
    NG_RETURN_IF_ERROR(
        ForRows(n_rows_, [&](int64_t row, int /*worker*/) { finish(all_added + row * width); }));
    NG_RETURN_IF_ERROR(LookAt(point, act_.added, width));
  }
  return ForRows(n_rows_, [&](int64_t row, int /*worker*/) {
    float* const added = all_added + row * width;
    if (!shown) finish(added);
    parts_.kernels->add(added, width, hidden + row * width);
  });
}

}  // namespace ng
