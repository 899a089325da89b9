#include "plugins/sampler/top_p/top_p.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {

absl::StatusOr<std::unique_ptr<SamplerStage>> TopP::Create(double p) {
  if (!(p > 0.0 && p <= 1.0)) {
    return UsageError(absl::StrCat("sampler.top_p.p = ", p, ", must be in (0, 1]"));
  }
  return absl::WrapUnique(new TopP(p));
}

// Sorting a whole vocabulary is slow: find first how far below the best logit the nucleus reaches,
// by the mass in steps of 1/16 nat, and sort only that part.
absl::Status TopP::Apply(int /*slot*/, CandidateSet& candidates) {
  NG_ASSIGN_OR_RETURN(const float max, candidates.MaxLogit());
  if (p_ == 1.0) return absl::OkStatus();
  constexpr int kSteps = 512;  // the last one holds all that is farther than 32 nats
  constexpr double kStepsPerNat = 16.0;
  const auto depth = [max](const Candidate& candidate) {
    return max - static_cast<double>(candidate.logit);
  };
  std::array<double, kSteps> mass_of_step = {};
  double total = 0.0;
  for (const Candidate& candidate : candidates.items()) {
    const double weight = std::exp(-depth(candidate));
    mass_of_step[static_cast<int>(std::min(depth(candidate) * kStepsPerNat, kSteps - 1.0))] +=
        weight;
    total += weight;
  }
  double mass = 0.0;
  int n_steps = 0;
  while (n_steps < kSteps && mass < p_ * total) mass += mass_of_step[n_steps++];
  if (n_steps < kSteps) candidates.KeepAtLeast(max - n_steps / kStepsPerNat);
  candidates.SortByLogit();

  mass = 0.0;
  int64_t kept = 0;
  while (kept < candidates.size() && mass < p_ * total) {
    mass += std::exp(-depth(candidates.items()[kept++]));
  }
  candidates.KeepFirst(kept);
  return absl::OkStatus();
}

}  // namespace ng
