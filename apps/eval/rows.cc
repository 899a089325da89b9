#include "apps/eval/rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "apps/eval/evaluate.h"
#include "ng/config.h"

namespace ng::eval {
namespace {

bool AllFinite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

absl::StatusOr<int64_t> TokensGone(const Engine& engine) {
  NG_ASSIGN_OR_RETURN(const std::vector<Statistic> statistics, engine.CacheStatistics());
  return StatisticValue(statistics, "tokens_gone");
}

absl::StatusOr<double> ScoringSeconds(const Engine& engine) {
  constexpr double kMicro = 1e-6;
  NG_ASSIGN_OR_RETURN(const std::vector<Statistic> statistics, engine.CacheStatistics());
  return kMicro * static_cast<double>(StatisticValue(statistics, "scoring_microseconds"));
}

int64_t ChunkOf(const Config& config) {
  constexpr const char* kKey = "run.prefill_chunk";
  return config.IsDefault(kKey) ? kDefaultChunk : config.Int(kKey);
}

WindowRows::WindowRows(Engine& engine, const Window& window)
    : engine_(engine), window_(window), chunk_(static_cast<size_t>(ChunkOf(engine.config()))) {}

WindowRows::~WindowRows() {
  if (sequence_) engine_.CloseSequence(*sequence_);
}

absl::Status WindowRows::Open() {
  NG_ASSIGN_OR_RETURN(sequence_, engine_.OpenSequence(static_cast<int64_t>(window_.fed.size())));
  NG_ASSIGN_OR_RETURN(gone_at_open_, TokensGone(engine_));
  return absl::OkStatus();
}

absl::Status WindowRows::OpenBehind(int64_t n_context) {
  NG_RETURN_IF_ERROR(Open());
  NG_RETURN_IF_ERROR(engine_.SetContext(*sequence_, n_context));
  while (static_cast<int64_t>(fed_) < n_context - 1) {
    const auto left = static_cast<size_t>(n_context - 1) - fed_;
    const auto chunk = window_.fed.subspan(fed_, chunk_ == 0 ? left : std::min(chunk_, left));
    const std::vector<int32_t> tokens(chunk.begin(), chunk.end());
    NG_RETURN_IF_ERROR(engine_.Extend({&*sequence_, 1}, {&tokens, 1}).status());
    fed_ += chunk.size();
  }
  return absl::OkStatus();
}

absl::Status WindowRows::Fork(const WindowRows& other, const std::string& rule) {
  NG_ASSIGN_OR_RETURN(
      sequence_, engine_.ForkSequence(*other.sequence_, static_cast<int64_t>(window_.fed.size())));
  NG_ASSIGN_OR_RETURN(gone_at_open_, TokensGone(engine_));
  fed_ = other.fed_;
  return rule.empty() ? absl::OkStatus() : engine_.SetKeepRule(*sequence_, rule);
}

absl::StatusOr<std::span<const float>> WindowRows::Next() {
  if (row_ == logits_.extent[0]) NG_RETURN_IF_ERROR(Feed());
  const std::span<const float> row(logits_.Row(row_++), static_cast<size_t>(logits_.extent[1]));
  if (!AllFinite(row)) return NumericError("the logits are not finite");
  return row;
}

absl::Status WindowRows::Feed() {
  // Tokens leave behind a step, never within one.
  NG_ASSIGN_OR_RETURN(const int64_t gone, TokensGone(engine_));
  after_eviction_ = gone > gone_at_open_;
  const size_t left = window_.fed.size() - fed_;
  const auto most = static_cast<size_t>(engine_.MostLogitRows(*sequence_));
  const size_t n = std::min(chunk_ == 0 ? left : std::min(chunk_, left), most);
  const std::span<const int32_t> chunk = window_.fed.subspan(fed_, n);
  const std::vector<int32_t> tokens(chunk.begin(), chunk.end());
  NG_ASSIGN_OR_RETURN(const StepLogits step,
                      engine_.Extend({&*sequence_, 1}, {&tokens, 1}, LogitRows::kAll));
  logits_ = step.logits;
  row_ = 0;
  fed_ += n;
  return absl::OkStatus();
}

}  // namespace ng::eval
