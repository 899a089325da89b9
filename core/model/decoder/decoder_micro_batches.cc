// Decoder: a step of many rows in pieces, of which one is computed while other processes send what
// they have of another one.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>

#include "core/model/decoder/decoder.h"
#include "core/model/ranks/micro_batches.h"

namespace ng {
namespace {

// A piece has so many rows or more: each reads the weights again.
constexpr int64_t kTurnRows = 32;
constexpr int64_t kPieces = 4;
// Pieces gain time where a layer waits for more than this share of its time: four of 128 rows take
// 1.1 times as long to compute as 512 rows at once.
constexpr float kWaitShare = 0.2F;

}  // namespace

int64_t Decoder::MostPieces(const StepBatch& batch) const {
  const int64_t most = parts_.pieces > 0 ? parts_.pieces : kPieces;
  const int64_t n_pieces = std::min(n_rows_ / kTurnRows, most);
  // Experts would be read again for the few rows that each has of a piece.
  if (n_pieces <= 1 || spec_.split.ranks == 1 || !ranks_.mixtures.empty()) return 1;
  // Who looks into the step sees all rows of a point.
  return IsSeen(batch) ? 1 : n_pieces;
}

absl::Status Decoder::RunLayersInTurns(const StepBatch& batch) {
  const int n_layers = spec_.shape.n_layers;
  const int64_t n_pieces = MostPieces(batch);
  if (n_pieces == 1) return RunLayers(batch, 0, n_layers);
  if (parts_.pieces > 0) return RunPieces(batch, 0, n_pieces);
  // The first layer tells. Who is faster than the others waits for them too: what counts is the
  // rank that waits least, and all ranks do the same.
  using Clock = std::chrono::steady_clock;
  parts_.link->TakeWaited();
  const Clock::time_point start = Clock::now();
  NG_RETURN_IF_ERROR(RunLayers(batch, 0, 1));
  const double layer_s = std::chrono::duration<double>(Clock::now() - start).count();
  const auto share = static_cast<float>(parts_.link->TakeWaited() / layer_s);
  NG_ASSIGN_OR_RETURN(const float least, parts_.link->Least(share));
  return least > kWaitShare ? RunPieces(batch, 1, n_pieces) : RunLayers(batch, 1, n_layers);
}

absl::Status Decoder::RunPieces(const StepBatch& batch, int first, int64_t n_pieces) {
  const int64_t n_rows = n_rows_;
  const int64_t widest = StagedRowFloats(spec_, input_rows_);
  const auto begin = [&](int64_t piece) {
    first_row_ = n_rows * piece / n_pieces;
    n_rows_ = n_rows * (piece + 1) / n_pieces - first_row_;
    parts_.link->PlaceStage(first_row_ * widest, n_rows * widest);
  };
  begin(0);  // grows the stage
  MicroBatches turns(static_cast<int>(n_pieces));
  turns_ = &turns;
  absl::Status status =
      turns.Run(begin, [&] { return RunLayers(batch, first, spec_.shape.n_layers); });
  turns_ = nullptr;
  first_row_ = 0;
  n_rows_ = n_rows;
  parts_.link->PlaceStage(0, 0);
  return status;
}

absl::Status Decoder::Together(absl::FunctionRef<absl::Status()> all) {
  if (turns_ == nullptr) return all();
  return turns_->Together([&] {
    first_row_ = 0;
    n_rows_ = static_cast<int64_t>(row_pos_.size());
    return all();
  });
}

absl::Status Decoder::Gather(std::span<const CutRows> rows) {
  if (turns_ == nullptr) return GatherCut(parts_.link, rows);
  if (std::ranges::all_of(rows, [](const CutRows& one) { return one.counts.empty(); })) {
    return absl::OkStatus();
  }
  const int64_t first = parts_.link->stage_first();
  NG_RETURN_IF_ERROR(turns_->Send([&] { return parts_.link->Send(rows, first); }));
  parts_.link->Land(rows);
  return absl::OkStatus();
}

}  // namespace ng
