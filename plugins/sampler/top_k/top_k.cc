#include "plugins/sampler/top_k/top_k.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {

absl::StatusOr<std::unique_ptr<SamplerStage>> TopK::Create(int64_t k) {
  if (k < 1) return UsageError(absl::StrCat("sampler.top_k.k = ", k, ", must be at least 1"));
  return absl::WrapUnique(new TopK(k));
}

absl::Status TopK::Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) {
  if (k_ < candidates.size()) candidates.KeepTop(k_);
  return candidates.MaxLogit().status();
}

}  // namespace ng
