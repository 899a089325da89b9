#include "plugins/sampler/xtc/xtc.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {

absl::StatusOr<std::unique_ptr<SamplerStage>> Xtc::Create(const XtcOptions& options,
                                                          int64_t vocab_size) {
  if (!(options.probability >= 0.0 && options.probability <= 1.0)) {
    return UsageError(
        absl::StrCat("sampler.xtc.probability = ", options.probability, ", must be in [0, 1]"));
  }
  if (!(options.threshold > 0.0 && options.threshold <= 1.0)) {
    return UsageError(
        absl::StrCat("sampler.xtc.threshold = ", options.threshold, ", must be in (0, 1]"));
  }
  return absl::WrapUnique(new Xtc(options, vocab_size));
}

Xtc::Xtc(const XtcOptions& options, int64_t vocab_size) : options_(options), top_(vocab_size) {}

absl::Status Xtc::Apply(int /*slot*/, const DrawKey& key, CandidateSet& candidates) {
  NG_RETURN_IF_ERROR(candidates.MaxLogit().status());
  if (UniformDraw(key) >= options_.probability) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(const double log_total, candidates.LogTotal());
  const double bar = log_total + std::log(options_.threshold);
  const std::span<Candidate> top = std::span(top_).first(candidates.CopyAtLeast(bar, top_));
  if (top.size() < 2) return absl::OkStatus();
  const auto stays = std::ranges::min_element(top, [](const Candidate& a, const Candidate& b) {
    return a.logit < b.logit || (a.logit == b.logit && a.id < b.id);
  });
  const int32_t id = stays->id;
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  if (candidates.dense()) {
    for (const Candidate& candidate : top) {
      if (candidate.id != id) candidates.LogitOf(candidate.id) = kNever;
    }
    return absl::OkStatus();
  }
  for (Candidate& candidate : candidates.items()) {
    if (candidate.logit >= bar && candidate.id != id) candidate.logit = kNever;
  }
  return absl::OkStatus();
}

}  // namespace ng
