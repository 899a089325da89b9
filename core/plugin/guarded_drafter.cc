#include "core/plugin/guarded_drafter.h"

#include "absl/strings/str_cat.h"

namespace ng {

absl::StatusOr<DrafterPlan> GuardedDrafter::Plan(const DrafterSpec& spec) const {
  DrafterPlan plan;
  NG_RETURN_IF_ERROR(GuardPlugin(plugin_, [&]() -> absl::Status {
    NG_ASSIGN_OR_RETURN(plan, drafter_->Plan(spec));
    if (plan.bytes >= 0) return absl::OkStatus();
    return PluginError(absl::StrCat("the plan has ", plan.bytes, " bytes, must be at least 0"));
  }));
  return plan;
}

absl::Status GuardedDrafter::Load(const DrafterSpec& spec) {
  absl::Status own;
  absl::Status status = GuardPlugin(plugin_, [&] { return own = drafter_->Load(spec); });
  return absl::IsDataLoss(own) || absl::IsCancelled(own) ? own : status;
}

absl::Status GuardedDrafter::Open(int slot, const DraftedRequest& request) {
  return GuardPlugin(plugin_, [&] { return drafter_->Open(slot, request); });
}

absl::Status GuardedDrafter::Accept(int slot, int32_t token) {
  return GuardPlugin(plugin_, [&] { return drafter_->Accept(slot, token); });
}

absl::Status GuardedDrafter::Close(int slot) {
  return GuardPlugin(plugin_, [&] { return drafter_->Close(slot); });
}

absl::Status GuardedDrafter::Propose(std::span<Draft> drafts) {
  asked_.assign(drafts.begin(), drafts.end());
  absl::Status own;
  absl::Status status = GuardPlugin(plugin_, [&]() -> absl::Status {
    own = drafter_->Propose(drafts);
    NG_RETURN_IF_ERROR(own);
    for (size_t i = 0; i < drafts.size(); ++i) {
      NG_RETURN_IF_ERROR(CheckDraft(asked_[i], drafts[i]));
    }
    return absl::OkStatus();
  });
  return absl::IsCancelled(own) ? own : status;
}

absl::Status GuardedDrafter::CheckDraft(const Draft& asked, const Draft& made) const {
  const auto most = std::ssize(asked.tokens);
  if (made.slot != asked.slot || made.tokens.data() != asked.tokens.data() ||
      std::ssize(made.tokens) != most) {
    return PluginError(absl::StrCat("Propose changed the draft of slot ", asked.slot,
                                    " itself, must only fill it"));
  }
  if (made.n_tokens < 0 || made.n_tokens > most) {
    return PluginError(absl::StrCat("Propose gave slot ", asked.slot, " a draft of ", made.n_tokens,
                                    " tokens, must be in [0, ", most, "]"));
  }
  for (const int32_t token : made.tokens.first(static_cast<size_t>(made.n_tokens))) {
    if (token >= 0 && token < vocab_size_) continue;
    return PluginError(absl::StrCat("Propose gave slot ", asked.slot, " the token ", token,
                                    ", must be in [0, ", vocab_size_, ") (the vocabulary)"));
  }
  return absl::OkStatus();
}

}  // namespace ng
