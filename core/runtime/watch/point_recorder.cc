#include "core/runtime/watch/point_recorder.h"

#include <algorithm>
#include <iterator>

namespace ng {

PointRecorder::PointRecorder(int n_layers, std::span<const PointAt> points)
    : points_(points.begin(), points.end()), wanted_(n_layers, points) {}

void PointRecorder::Add(SequenceId sequence, KeptPoints* kept, std::vector<CapturedPoint>* to) {
  to->resize(points_.size());
  fed_.push_back({sequence, kept, to, kept->end});
}

PointRecorder::FedSequence* PointRecorder::Find(SequenceId sequence) {
  const auto found = std::ranges::find(fed_, sequence, &FedSequence::sequence);
  return found == fed_.end() ? nullptr : &*found;
}

absl::Status PointRecorder::OnPoint(const PointRows& rows) {
  const auto point = std::ranges::find(points_, rows.at);
  const auto index = static_cast<size_t>(std::distance(points_.begin(), point));
  const int64_t n_values = rows.n_heads * rows.width;
  FedSequence* fed = nullptr;
  for (int64_t i = 0; i < rows.n_rows(); ++i) {
    const TokenRow& token = rows.tokens[static_cast<size_t>(i)];
    if (fed == nullptr || fed->sequence != token.sequence) fed = Find(token.sequence);
    if (fed == nullptr || token.pos < fed->kept->end) continue;
    CapturedPoint& captured = (*fed->to)[index];
    captured.at = rows.at;
    captured.n_values = n_values;
    captured.rows.insert(captured.rows.end(), rows.Row(i), rows.Row(i) + n_values);
    fed->end = std::max(fed->end, token.pos + 1);
  }
  return absl::OkStatus();
}

void PointRecorder::EndStep(bool ok) {
  for (const FedSequence& fed : fed_) {
    if (ok) {
      fed.kept->end = fed.end;
      continue;
    }
    const int64_t n_kept = fed.kept->end - fed.kept->begin;
    for (CapturedPoint& captured : *fed.to) {
      captured.rows.resize(static_cast<size_t>(n_kept * captured.n_values));
    }
  }
  fed_.clear();
}

}  // namespace ng
