#include "plugins/sampler/banned_tokens/banned_tokens.h"

#include <limits>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {

absl::StatusOr<std::unique_ptr<SamplerStage>> BannedTokens::Create(std::span<const int64_t> ids,
                                                                   int64_t vocab_size) {
  auto stage = absl::WrapUnique(new BannedTokens(vocab_size));
  for (const int64_t id : ids) {
    if (id < 0 || id >= vocab_size) {
      return UsageError(absl::StrCat("sampler.banned_tokens.ids has ", id, ", must be in [0, ",
                                     vocab_size, ") (the vocabulary)"));
    }
    stage->ids_.push_back(static_cast<int32_t>(id));
    stage->banned_[id] = 1;
  }
  return stage;
}

absl::Status BannedTokens::Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  // Added, not assigned: a NaN must not be hidden.
  if (candidates.dense()) {
    for (const int32_t id : ids_) candidates.LogitOf(id) += kNever;
  } else {
    for (Candidate& candidate : candidates.items()) {
      if (banned_[candidate.id] != 0) candidate.logit += kNever;
    }
  }
  absl::Status status = candidates.MaxLogit().status();
  if (status.ok()) return status;
  return Annotate(status,
                  absl::StrCat("after sampler.banned_tokens.ids (", ids_.size(),
                               " ids) was applied to ", candidates.size(), " candidates: "));
}

}  // namespace ng
