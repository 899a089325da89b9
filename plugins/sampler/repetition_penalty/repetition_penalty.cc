#include "plugins/sampler/repetition_penalty/repetition_penalty.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {

absl::StatusOr<std::unique_ptr<SamplerStage>> RepetitionPenalty::Create(
    const RepetitionPenaltyOptions& options, const ModelShape& model) {
  if (!(options.value > 0.0 && options.value <= 100.0)) {
    return UsageError(absl::StrCat("sampler.repetition_penalty.value = ", options.value,
                                   ", must be in (0, 100]"));
  }
  if (options.window < 0) {
    return UsageError(absl::StrCat("sampler.repetition_penalty.window = ", options.window,
                                   ", must be at least 0 (0: all tokens)"));
  }
  return absl::WrapUnique(new RepetitionPenalty(options, model));
}

RepetitionPenalty::RepetitionPenalty(const RepetitionPenaltyOptions& options,
                                     const ModelShape& model)
    : TokenHistoryStage(model),
      value_(static_cast<float>(options.value)),
      window_(options.window),
      recent_(model.vocab_size) {}

absl::Status RepetitionPenalty::Open(int slot, std::span<const int32_t> prompt_ids) {
  for (const int32_t id : prompt_ids) {
    if (id >= 0 && id < static_cast<int64_t>(recent_.size())) continue;
    return UsageError(absl::StrCat("repetition_penalty: prompt token ", id, ", must be in [0, ",
                                   recent_.size(), ") (the vocabulary)"));
  }
  return TokenHistoryStage::Open(slot, prompt_ids);
}

std::span<const int32_t> RepetitionPenalty::Recent(int slot) const {
  const std::span<const int32_t> all = History(slot);
  const bool whole = window_ == 0 || window_ >= static_cast<int64_t>(all.size());
  return whole ? all : all.last(window_);
}

absl::Status RepetitionPenalty::Apply(int slot, const DrawKey& /*key*/, CandidateSet& candidates) {
  const auto penalise = [this](float& logit) {
    logit = logit > 0.0F ? logit / value_ : logit * value_;
  };
  const std::span<const int32_t> recent = Recent(slot);
  if (candidates.dense()) {
    for (const int32_t id : recent) {
      if (recent_[id] == 0) penalise(candidates.LogitOf(id));
      recent_[id] = 1;
    }
  } else {
    for (const int32_t id : recent) recent_[id] = 1;
    for (Candidate& candidate : candidates.items()) {
      if (recent_[candidate.id] != 0) penalise(candidate.logit);
    }
  }
  for (const int32_t id : recent) recent_[id] = 0;

  absl::Status status = candidates.MaxLogit().status();
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat("after sampler.repetition_penalty.value = ", value_, ": "));
}

}  // namespace ng
