#include "core/runtime/recorder.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ng {

Recorder::Recorder(const ModelShape& shape, std::span<const int> layers, std::span<const int> heads)
    : layers_(layers.begin(), layers.end()), heads_(heads.begin(), heads.end()) {
  if (heads_.empty()) {
    heads_.resize(static_cast<size_t>(shape.n_heads));
    std::iota(heads_.begin(), heads_.end(), 0);
  }
  captures_.resize(static_cast<size_t>(shape.n_layers));
}

void Recorder::BeginStep() {
  runs_.clear();
  held_.clear();
  for (std::vector<ProbabilityRow>& rows : captures_) rows.clear();
}

void Recorder::Want(int sequence, int64_t first_pos, int64_t end_pos) {
  if (!on() || first_pos >= end_pos) return;
  runs_.push_back({sequence, first_pos, held_.size()});
  for (int64_t pos = first_pos; pos < end_pos; ++pos) {
    for (const int layer : layers_) {
      for (const int head : heads_) {
        // The buffer keeps its place when held_ grows: moving a vector moves no element.
        AttentionRow row{layer, head, std::vector<float>(static_cast<size_t>(pos + 1))};
        captures_[static_cast<size_t>(layer)].push_back({sequence, pos, head, row.probs.data()});
        held_.push_back(std::move(row));
      }
    }
  }
}

std::span<const std::vector<ProbabilityRow>> Recorder::captures() const {
  if (runs_.empty()) return {};
  return captures_;
}

std::vector<AttentionRow> Recorder::Take(int sequence, int64_t pos) {
  const auto run = std::find_if(runs_.begin(), runs_.end(),
                                [&](const Run& r) { return r.sequence == sequence; });
  const size_t per_query = layers_.size() * heads_.size();
  const auto begin = held_.begin() + static_cast<int64_t>(run->held_begin) +
                     (pos - run->first_pos) * static_cast<int64_t>(per_query);
  return {std::make_move_iterator(begin),
          std::make_move_iterator(begin + static_cast<int64_t>(per_query))};
}

}  // namespace ng
