// A sampler stage against going in circles: a token that would repeat a run of n tokens which the
// sequence already holds is not drawn.
#ifndef NG_EXAMPLE_CYCLE_BREAKER_H_
#define NG_EXAMPLE_CYCLE_BREAKER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ng/sampler.h"

namespace ng_example {

class CycleBreaker final : public ng::SamplerStage {
 public:
  // REQUIRES: run_length >= 2.
  explicit CycleBreaker(int64_t run_length) : run_length_(run_length) {}

  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override;
  absl::StatusOr<ng::SequenceEnd> Accept(int slot, int32_t token) override;
  absl::Status Fork(int from, int to) override;
  absl::Status Truncate(int slot, int64_t n_tokens) override;
  absl::Status Close(int slot) override;
  absl::Status Apply(int slot, const ng::DrawKey& key, ng::CandidateSet& candidates) override;

 private:
  std::vector<int32_t>& Tokens(int slot);  // of the sequence in `slot`, prompt included

  const int64_t run_length_;
  std::vector<std::vector<int32_t>> sequences_;  // [slot][pos]
};

}  // namespace ng_example

#endif  // NG_EXAMPLE_CYCLE_BREAKER_H_
