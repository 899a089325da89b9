#include "core/runtime/watch/row_recorder.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace ng {

RowRecorder::RowRecorder(const LanguageModel& model, const GenerateOptions& options)
    : options_(options),
      max_positions_(model.shape().max_positions),
      all_logits_(NeedLogits(options.capture_points) || NeedLogits(options.look_at)),
      asks_missed_(options.on_step && model.tells_missed()),
      heads_(options.trace_heads) {
  const ModelShape& shape = model.shape();
  if (heads_.empty()) {
    heads_.resize(static_cast<size_t>(shape.n_heads));
    std::iota(heads_.begin(), heads_.end(), 0);
  }
  captures_.resize(static_cast<size_t>(shape.n_layers));
}

bool RowRecorder::WantsNewest(const Completion& completion, const KeptRows& kept,
                              int64_t capacity) const {
  const int64_t n_ids = std::ssize(completion.ids);
  return every_query() && rows_on() && kept.n_queries < n_ids && n_ids <= capacity &&
         (max_positions_ == 0 || n_ids <= max_positions_);
}

void RowRecorder::BeginStep() {
  runs_.clear();
  held_.clear();
  missed_.clear();
  first_missed_.clear();
  for (std::vector<ProbabilityRow>& rows : captures_) rows.clear();
}

int64_t RowRecorder::FirstQuery(const FedTokens& fed, const KeptRows& kept) const {
  if (!rows_on()) return fed.end;
  if (every_query()) return std::max(fed.begin, kept.n_queries);
  return fed.newest ? fed.end - 1 : fed.end;
}

int64_t RowRecorder::Want(const FedTokens& fed, const Completion& completion,
                          const KeptRows& kept) {
  if (asks_missed_) {
    first_missed_.push_back(std::ssize(missed_));
    missed_.resize(missed_.size() + static_cast<size_t>(fed.end - fed.begin));
  }
  const int64_t first_pos = FirstQuery(fed, kept);
  if (first_pos < fed.end) runs_.push_back({fed.entry, first_pos, held_.size()});
  for (int64_t pos = first_pos; pos < fed.end; ++pos) {
    for (const int layer : options_.trace_layers) {
      for (const int head : heads_) {
        // The buffer keeps its place when held_ grows: moving a vector moves no element.
        AttentionRow row{layer, head, std::vector<float>(static_cast<size_t>(pos + 1))};
        captures_[static_cast<size_t>(layer)].push_back({fed.entry, pos, head, row.probs.data()});
        held_.push_back(std::move(row));
      }
    }
  }
  if (all_logits_ || kept.scoring || KeepsLogits(completion, kept)) return fed.end - fed.begin;
  return fed.newest && !fed.again ? 1 : 0;
}

std::span<const std::vector<ProbabilityRow>> RowRecorder::captures() const {
  if (runs_.empty()) return {};
  return captures_;
}

std::optional<MissedAttention> RowRecorder::MissedOf(const FedTokens& fed, int64_t row) const {
  if (!asks_missed_) return std::nullopt;
  const int64_t at = first_missed_[static_cast<size_t>(fed.entry)] + row;
  const MissedRow& of = missed_[static_cast<size_t>(at)];
  const double n = of.n == 0 ? 1.0 : static_cast<double>(of.n);
  return MissedAttention{
      .mean = of.sum / n, .most = double{of.most}, .layer = of.layer, .head = of.head};
}

void RowRecorder::Keep(const FedTokens& fed, const TensorView<const float, 2>& logits,
                       Completion* completion, KeptRows* kept) {
  CapturedTensors& captured = completion->captured;
  if (KeepsLogits(*completion, *kept)) {
    const int64_t n_floats = (fed.end - fed.begin) * logits.extent[1];
    captured.logits.insert(captured.logits.end(), logits.data, logits.data + n_floats);
    kept->n_logits = fed.end;
  }
  for (int64_t pos = FirstQuery(fed, *kept); pos < fed.end; ++pos) {
    std::vector<AttentionRow> rows = Take(fed.entry, pos);
    if (fed.newest && pos == fed.end - 1) kept->last_rows = rows;
    if (!every_query()) continue;
    kept->n_queries = pos + 1;
    if (options_.on_attn_rows) {
      const std::span<const int32_t> ids = completion->ids;
      options_.on_attn_rows(fed.index, {ids.first(static_cast<size_t>(pos + 1)), rows});
    }
    if (!options_.capture_attn_full) continue;
    std::move(rows.begin(), rows.end(), std::back_inserter(captured.attn_full));
  }
}

void RowRecorder::KeepChoice(std::span<const float> logits, Completion* completion) const {
  if (!options_.capture_decode_logits) return;
  std::vector<float>& kept = completion->captured.decode_logits;
  kept.insert(kept.end(), logits.begin(), logits.end());
}

std::vector<AttentionRow> RowRecorder::Take(int entry, int64_t pos) {
  const auto run = std::ranges::find(runs_, entry, &Run::entry);
  const size_t per_query = options_.trace_layers.size() * heads_.size();
  const auto begin = held_.begin() + static_cast<int64_t>(run->held_begin) +
                     (pos - run->first_pos) * static_cast<int64_t>(per_query);
  return {std::make_move_iterator(begin),
          std::make_move_iterator(begin + static_cast<int64_t>(per_query))};
}

}  // namespace ng
