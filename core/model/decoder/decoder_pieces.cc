// Decoder: a step of which this process computes some layers, piece by piece, while the processes
// before and behind it compute other pieces.
#include <algorithm>
#include <cstdint>
#include <span>

#include "core/model/decoder/decoder.h"

namespace ng {

absl::Status Decoder::ForwardInPieces(const StepBatch& batch) {
  const LayerSplit& split = spec_.layer_split;
  const CachePlan cache = parts_.cache->plan();
  // A store that drops tokens does so by its steps.
  CutStep(batch.sequences, split.ranks, cache.holes || cache.attended, &pieces_);
  const bool seen = IsSeen(batch);
  int64_t n_logit_rows = 0;
  for (const StepSequence& entry : batch.sequences) n_logit_rows += entry.n_logit_rows;
  const int64_t n_logits = n_logit_rows * spec_.shape.vocab_size;
  GrowTo(act_.logits, n_logits);
  absl::Status own;
  bool well = true;
  first_logit_row_ = 0;
  std::span<const StepSequence> left = pieces_.sequences;
  for (const int64_t n : pieces_.n_sequences) {
    StepBatch piece = batch;
    piece.sequences = left.first(static_cast<size_t>(n));
    left = left.subspan(static_cast<size_t>(n));
    if (seen) KeepCapturesOf(batch, &piece);
    Begin(piece);
    own.Update(seen ? ForwardSeenPiece(piece, &well) : ForwardPiece(piece, &well));
    first_logit_row_ += n_logit_rows_;
  }
  first_logit_row_ = 0;
  n_logit_rows_ = n_logit_rows;
  // One that has failed has told those behind it alone.
  NG_RETURN_IF_ERROR(parts_.link->Agree(own));
  const std::span<float> logits(act_.logits.data(), static_cast<size_t>(n_logits));
  return parts_.link->ShareBytes(std::as_writable_bytes(logits), split.ranks - 1);
}

absl::Status Decoder::ForwardPiece(const StepBatch& piece, bool* well) {
  const LayerSplit& split = spec_.layer_split;
  // The rows, and whether they are any.
  const int64_t n = n_rows_ * spec_.width;
  GrowTo(act_.hidden, n + 1);
  const std::span<float> rows(act_.hidden.data(), static_cast<size_t>(n + 1));
  absl::Status own;
  if (split.begins()) {
    Embed(piece);
    if (*well) own = LookAt(Point::kEmbed, act_.hidden, spec_.width);
  } else {
    NG_RETURN_IF_ERROR(parts_.link->ReceiveRows(split.rank - 1, rows));
    *well = *well && rows.back() != 0.0F;
  }
  if (*well && own.ok()) own = RunStack(piece);
  *well = *well && own.ok();
  if (!split.ends()) {
    rows.back() = *well ? 1.0F : 0.0F;
    own.Update(parts_.link->SendRows(split.rank + 1, rows));
  }
  return own;
}

}  // namespace ng
