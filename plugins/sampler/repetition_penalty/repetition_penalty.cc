#include "plugins/sampler/repetition_penalty/repetition_penalty.h"

#include <algorithm>

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
    : value_(static_cast<float>(options.value)),
      window_(options.window),
      max_positions_(model.max_positions),
      recent_(model.vocab_size) {}

// The slot's tokens, emptied, with room for `n_tokens` and for what may follow them: Accept does
// not allocate while the model's context is bounded, and rarely when it is not.
std::vector<int32_t>& RepetitionPenalty::Empty(int slot, int64_t n_tokens) {
  constexpr int64_t kHeadroom = 4096;
  if (slot >= static_cast<int>(tokens_.size())) tokens_.resize(slot + 1);
  std::vector<int32_t>& tokens = tokens_[slot];
  tokens.clear();
  // One more than the context: the last token generated is never fed back.
  tokens.reserve(max_positions_ > 0 ? std::max(n_tokens, max_positions_ + 1)
                                    : n_tokens + kHeadroom);
  return tokens;
}

absl::Status RepetitionPenalty::Open(int slot, std::span<const int32_t> prompt_ids) {
  for (const int32_t id : prompt_ids) {
    if (id >= 0 && id < static_cast<int64_t>(recent_.size())) continue;
    return UsageError(absl::StrCat("repetition_penalty: prompt token ", id, ", must be in [0, ",
                                   recent_.size(), ") (the vocabulary)"));
  }
  std::vector<int32_t>& tokens = Empty(slot, static_cast<int64_t>(prompt_ids.size()));
  tokens.assign(prompt_ids.begin(), prompt_ids.end());
  return absl::OkStatus();
}

absl::StatusOr<SequenceEnd> RepetitionPenalty::Accept(int slot, int32_t token) {
  tokens_[slot].push_back(token);
  return SequenceEnd::kNo;
}

absl::Status RepetitionPenalty::Fork(int from, int to) {
  std::vector<int32_t>& copy = Empty(to, static_cast<int64_t>(tokens_[from].size()));
  copy.assign(tokens_[from].begin(), tokens_[from].end());
  return absl::OkStatus();
}

absl::Status RepetitionPenalty::Truncate(int slot, int64_t n_tokens) {
  tokens_[slot].resize(n_tokens);
  return absl::OkStatus();
}

absl::Status RepetitionPenalty::Close(int slot) {
  tokens_[slot].clear();
  return absl::OkStatus();
}

std::span<const int32_t> RepetitionPenalty::Recent(int slot) const {
  const std::span<const int32_t> all = tokens_[slot];
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
