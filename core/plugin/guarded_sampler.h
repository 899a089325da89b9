// GuardedSampler: the decorator around a plugin's sampler stage. Nothing that the plugin throws
// gets past it, and every error names the plugin.
#ifndef NG_CORE_PLUGIN_GUARDED_SAMPLER_H_
#define NG_CORE_PLUGIN_GUARDED_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/plugin/loader.h"
#include "ng/plugin.h"
#include "ng/sampler.h"

namespace ng {

class GuardedSampler final : public SamplerStage {
 public:
  // With context.check, Apply also checks everything that ng/sampler.h and ng/candidate_set.h ask
  // of a stage, and allocates here what that takes. The check lists no candidates, so that a token
  // is drawn by the same arithmetic as without it.
  GuardedSampler(const LoadedPlugin& plugin, std::unique_ptr<SamplerStage> stage,
                 const PluginContext& context);

  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override;
  absl::StatusOr<SequenceEnd> Accept(int slot, int32_t token) override;
  absl::StatusOr<int64_t> HeldBytes(int slot) const override;
  absl::Status Fork(int from, int to) override;
  absl::Status Truncate(int slot, int64_t n_tokens) override;
  absl::Status Close(int slot) override;
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;
  std::string Report() const override { return GuardReport(*stage_); }

 private:
  absl::Status ApplyChecked(int slot, const DrawKey& key, CandidateSet& candidates);
  // Errors: what the stage has left and must not. REQUIRES: seen_ is 1 for what there was before.
  absl::Status CheckLeft(const CandidateSet& candidates);
  absl::Status CheckCandidate(const Candidate& candidate);

  LoadedPlugin plugin_;
  std::unique_ptr<SamplerStage> stage_;
  // Empty without the check.
  std::vector<Candidate> before_;  // [vocab_size]
  std::vector<uint8_t> seen_;      // [vocab_size]; 1: was a candidate, 2: is still one
};

}  // namespace ng

#endif  // NG_CORE_PLUGIN_GUARDED_SAMPLER_H_
