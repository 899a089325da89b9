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
  NG_RETURN_IF_ERROR(CheckPrompt("repetition_penalty", prompt_ids));
  return TokenHistoryStage::Open(slot, prompt_ids);
}

absl::Status RepetitionPenalty::Apply(int slot, const DrawKey& /*key*/, CandidateSet& candidates) {
  const auto penalise = [this](float& logit) {
    logit = logit > 0.0F ? logit / value_ : logit * value_;
  };
  const std::span<const int32_t> recent = Recent(slot, window_);
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
