#include "core/plugin/guarded_sampler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng {

GuardedSampler::GuardedSampler(const LoadedPlugin& plugin, std::unique_ptr<SamplerStage> stage,
                               const PluginContext& context)
    : plugin_(plugin), stage_(std::move(stage)) {
  if (!context.check) return;
  before_.resize(context.model.vocab_size);
  seen_.resize(context.model.vocab_size);
}

absl::Status GuardedSampler::Open(int slot, std::span<const int32_t> prompt_ids) {
  return GuardPlugin(plugin_, [&] { return stage_->Open(slot, prompt_ids); });
}

absl::StatusOr<SequenceEnd> GuardedSampler::Accept(int slot, int32_t token) {
  absl::StatusOr<SequenceEnd> end = SequenceEnd::kNo;
  NG_RETURN_IF_ERROR(GuardPlugin(plugin_, [&] {
    end = stage_->Accept(slot, token);
    return end.status();
  }));
  if (*end == SequenceEnd::kNo || *end == SequenceEnd::kStage || *end == SequenceEnd::kStopText) {
    return end;
  }
  return PluginFailed(plugin_,
                      PluginError(absl::StrCat("Accept returned the SequenceEnd ",
                                               static_cast<int32_t>(*end), ", there are 0 to 2")));
}

absl::StatusOr<int64_t> GuardedSampler::HeldBytes(int slot) const {
  absl::StatusOr<int64_t> held = 0;
  NG_RETURN_IF_ERROR(GuardPlugin(plugin_, [&] {
    held = stage_->HeldBytes(slot);
    return held.status();
  }));
  if (*held >= 0) return held;
  return PluginFailed(
      plugin_, PluginError(absl::StrCat("HeldBytes returned ", *held, ", must be at least 0")));
}

absl::Status GuardedSampler::Fork(int from, int to) {
  return GuardPlugin(plugin_, [&] { return stage_->Fork(from, to); });
}

absl::Status GuardedSampler::Truncate(int slot, int64_t n_tokens) {
  return GuardPlugin(plugin_, [&] { return stage_->Truncate(slot, n_tokens); });
}

absl::Status GuardedSampler::Close(int slot) {
  return GuardPlugin(plugin_, [&] { return stage_->Close(slot); });
}

absl::Status GuardedSampler::Apply(int slot, const DrawKey& key, CandidateSet& candidates) {
  if (!seen_.empty()) return ApplyChecked(slot, key, candidates);
  return GuardPlugin(plugin_, [&] { return stage_->Apply(slot, key, candidates); });
}

absl::Status GuardedSampler::ApplyChecked(int slot, const DrawKey& key, CandidateSet& candidates) {
  const std::span<const Candidate> before = std::span(before_).first(candidates.CopyTo(before_));
  for (const Candidate& candidate : before) seen_[candidate.id] = 1;
  absl::Status status = GuardPlugin(plugin_, [&] { return stage_->Apply(slot, key, candidates); });
  if (status.ok()) {
    status = CheckLeft(candidates);
    if (!status.ok()) status = PluginFailed(plugin_, status);
  }
  std::ranges::fill(seen_, 0);
  return status;
}

absl::Status GuardedSampler::CheckLeft(const CandidateSet& candidates) {
  if (candidates.size() == 0) {
    return PluginError("Apply left no candidate, must leave at least 1");
  }
  if (candidates.listed()) {
    const std::span<const Candidate> items = candidates.items();
    for (const Candidate& candidate : items) NG_RETURN_IF_ERROR(CheckCandidate(candidate));
    for (size_t i = 0; i < items.size() && candidates.dense(); ++i) {
      if (items[i].id == static_cast<int64_t>(i)) continue;
      return PluginError(absl::StrCat("Apply moved token ", items[i].id,
                                      " of a dense set to place ", i,
                                      "; SortByLogit or a call that keeps some must follow"));
    }
  }
  return Annotate(candidates.MaxLogit().status(), "Apply left behind: ");
}

absl::Status GuardedSampler::CheckCandidate(const Candidate& candidate) {
  const auto vocab_size = std::ssize(seen_);
  if (candidate.id < 0 || candidate.id >= vocab_size) {
    return PluginError(absl::StrCat("Apply left token ", candidate.id, ", must be in [0, ",
                                    vocab_size, ") (the vocabulary)"));
  }
  uint8_t& seen = seen_[candidate.id];
  if (seen == 0) {
    return PluginError(
        absl::StrCat("Apply left token ", candidate.id, ", which was none of the candidates"));
  }
  if (seen == 2) return PluginError(absl::StrCat("Apply left token ", candidate.id, " twice"));
  seen = 2;
  return absl::OkStatus();
}

}  // namespace ng
