// Exclude top choices (XTC, Weidmann 2024; as llama.cpp has it): with a given probability, all
// candidates that are at least as probable as a threshold are removed, but for the least probable
// of them, which of equals is the one with the lowest id. With one such candidate or none nothing
// is removed.
#ifndef NG_PLUGINS_SAMPLER_XTC_XTC_H_
#define NG_PLUGINS_SAMPLER_XTC_XTC_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ng/sampler.h"

namespace ng {

struct XtcOptions {
  double probability = 0.5;  // in [0, 1]
  double threshold = 0.1;    // in (0, 1]; above 0.5 there is never more than one top choice
};

class Xtc final : public SamplerStage {
 public:
  // Errors: UsageError when an option is out of range.
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(const XtcOptions& options,
                                                              int64_t vocab_size);

  // Whether top choices are removed is drawn from the key.
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;

 private:
  Xtc(const XtcOptions& options, int64_t vocab_size);

  const XtcOptions options_;
  std::vector<Candidate> top_;  // [vocab_size]: the top choices, during Apply only
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_XTC_XTC_H_
