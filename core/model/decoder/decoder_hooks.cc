// Decoder: what there is to see in a step. Of a step of which this process has some layers every
// process shows the same points and attention rows to its observers as one that has all layers.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "core/model/decoder/decoder.h"

namespace ng {

// What comes next. Of a point its rows follow, [n, n_heads * width]; of attention rows those of the
// layer, one behind the other.
struct Decoder::HookHeader {
  HookMessage message = HookMessage::kEnd;
  int layer = -1;
  Point point = Point::kEmbed;
  int64_t n_heads = 0;
  int64_t width = 0;
  int64_t first = 0;  // of the rows of tokens
  int64_t n = 0;

  int64_t n_floats() const { return n * n_heads * width; }
};

namespace {

int64_t FloatsOf(std::span<const ProbabilityRow> rows) {
  return std::accumulate(rows.begin(), rows.end(), int64_t{0},
                         [](int64_t sum, const auto& row) { return sum + row.pos + 1; });
}

}  // namespace

void Decoder::AddMissed(const StepBatch& batch, int layer, const TensorView<float, 2>& missed) {
  for (int64_t row = 0; row < missed.extent[0]; ++row) {
    MissedRow& sum = batch.missed[static_cast<size_t>(row)];
    for (int head = 0; head < missed.extent[1]; ++head) {
      const float share = missed.Row(row)[head];
      sum.sum += double{share};
      ++sum.n;
      if (!(share > sum.most)) continue;
      sum.most = share;
      sum.layer = layer;
      sum.head = head;
    }
  }
}

void Decoder::KeepCapturesOf(const StepBatch& step, StepBatch* piece) {
  seen_rows_.resize(step.captures.size());
  for (size_t layer = 0; layer < step.captures.size(); ++layer) {
    seen_rows_[layer].clear();
    for (ProbabilityRow row : step.captures[layer]) {
      const SequenceId sequence = step.sequences[static_cast<size_t>(row.sequence)].sequence;
      const auto found = std::ranges::find(piece->sequences, sequence, &StepSequence::sequence);
      if (found == piece->sequences.end() || row.pos < found->start_pos ||
          row.pos >= found->start_pos + std::ssize(found->tokens)) {
        continue;
      }
      row.sequence = static_cast<int32_t>(found - piece->sequences.begin());
      seen_rows_[layer].push_back(row);
    }
  }
  piece->captures = seen_rows_;
}

absl::Status Decoder::ForwardSeenPiece(const StepBatch& piece, bool* well) {
  const LayerSplit& split = spec_.layer_split;
  absl::Status own;
  for (int rank = 0; rank < split.ranks; ++rank) {
    if (rank != split.rank) {
      own.Update(FollowHooks(piece, rank));
    } else {
      own.Update(ForwardPiece(piece, well));
      if (*well && own.ok()) own.Update(TellAttentionRows(piece));
      HookHeader end;
      own.Update(ShareHook(rank, &end));
    }
    *well = *well && own.ok();
  }
  return own;
}

absl::Status Decoder::TellPoint(const Looked& rows) {
  const int64_t n_values = rows.n_heads * rows.width;
  const int64_t n = rows.n < 0 ? std::ssize(token_rows_) - rows.first : rows.n;
  HookHeader header = {HookMessage::kPoint, layer_,     rows.point, rows.n_heads,
                       rows.width,          rows.first, n};
  GrowTo(act_.gathered, n * n_values);
  for (int64_t row = 0; row < n; ++row) {
    std::copy_n(rows.data + row * rows.stride, n_values, act_.gathered.data() + row * n_values);
  }
  return ShareHook(spec_.layer_split.rank, &header);
}

absl::Status Decoder::TellAttentionRows(const StepBatch& piece) {
  for (size_t layer = 0; layer < piece.captures.size(); ++layer) {
    const std::vector<ProbabilityRow>& rows = piece.captures[layer];
    if (rows.empty() || !spec_.layer_split.Has(static_cast<int>(layer))) continue;
    HookHeader header = {.message = HookMessage::kAttentionRows,
                         .layer = static_cast<int>(layer),
                         .n_heads = 1,
                         .width = 1,
                         .n = FloatsOf(rows)};
    GrowTo(act_.gathered, header.n);
    float* to = act_.gathered.data();
    for (const ProbabilityRow& row : rows) to = std::copy_n(row.out, row.pos + 1, to);
    NG_RETURN_IF_ERROR(ShareHook(spec_.layer_split.rank, &header));
  }
  return absl::OkStatus();
}

absl::Status Decoder::ShareHook(int rank, HookHeader* header) {
  NG_RETURN_IF_ERROR(parts_.link->ShareBytes(std::as_writable_bytes(std::span(header, 1)), rank));
  if (header->message == HookMessage::kEnd) return absl::OkStatus();
  GrowTo(act_.gathered, header->n_floats());
  const std::span<float> floats(act_.gathered.data(), static_cast<size_t>(header->n_floats()));
  return parts_.link->ShareBytes(std::as_writable_bytes(floats), rank);
}

absl::Status Decoder::FollowHooks(const StepBatch& piece, int rank) {
  absl::Status shown;  // what an observer finds wrong ends the step, not what is sent
  bool behind_layers = false;
  for (;;) {
    HookHeader header;
    NG_RETURN_IF_ERROR(ShareHook(rank, &header));
    if (header.message == HookMessage::kEnd) return shown;
    if (header.message == HookMessage::kAttentionRows) {
      const std::vector<ProbabilityRow>& rows = piece.captures[static_cast<size_t>(header.layer)];
      const float* from = act_.gathered.data();
      for (const ProbabilityRow& row : rows) {
        std::copy_n(from, row.pos + 1, row.out);
        from += row.pos + 1;
      }
      continue;
    }
    WantOf(piece, header.layer);
    if (NeedsLogits(header.point) && !behind_layers) {
      FindLogitRows(piece);
      behind_layers = true;
    }
    if (!shown.ok()) continue;
    shown = Show({header.point, act_.gathered.data(), header.n_heads * header.width, header.n_heads,
                  header.width, header.first, header.n});
  }
}

}  // namespace ng
