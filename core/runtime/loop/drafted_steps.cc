// GenerateLoop: drafts. A step feeds a request its newest token and what is drafted behind it. Each
// row chooses a token as ever; a drafted one that is not what was chosen is taken back.
#include <algorithm>

#include "core/runtime/loop/generate_loop.h"

namespace ng {

std::string_view GenerateLoop::WhyNoDrafts() const {
  if (!settings_.use_cache) return "nothing is cached";
  if (probes_ != nullptr) return "probe.chain looks at every step";
  if (!options_.capture_points.empty() || options_.on_point) return "points of the steps are kept";
  if (!options_.trace_layers.empty()) return "attention rows of the steps are kept";
  if (options_.on_cache_debug) return "the cache's lines show every step";
  if (options_.next_token) return "the tokens are given";
  return "";
}

absl::Status GenerateLoop::OpenDrafts(ActiveRequest& active) {
  const int64_t draw = active.request().draw;
  NG_RETURN_IF_ERROR(speculation_->Open(active.slot, {.number = draw < 0 ? active.index() : draw,
                                                      .prompt_ids = active.ids(),
                                                      .n_answered = active.n_answered}));
  active.drafted_for = true;
  return absl::OkStatus();
}

absl::Status GenerateLoop::ProposeDrafts() {
  speculation_->BeginStep();
  for (const std::unique_ptr<ActiveRequest>& active : active_) {
    const int64_t n_held = std::ssize(active->held_ids());
    // Where the context is full, all tokens are fed at new positions.
    active->may_draft = active->prefill_done && !active->last_row_pass &&
                        model_.Length(active->sequence) == n_held - 1;
    if (!active->may_draft) continue;
    const int64_t n_wanted = active->max_new_tokens - active->n_generated();
    // At a boundary of the cache there is no way back, so drafts end before it.
    const int64_t n_before = model_.ToBoundary(active->sequence, n_held - 1) - 2;
    speculation_->Want(active->slot, std::min({n_wanted - 1, active->room - n_held, n_before}));
  }
  return speculation_->Propose();
}

void GenerateLoop::TimeDrafts(double seconds) {
  const bool alone = std::ranges::all_of(active_, &ActiveRequest::may_draft);
  if (alone) speculation_->AddStepTime(seconds);
}

absl::Status GenerateLoop::TakeDrafted(ActiveRequest& active, const FedTokens& fed,
                                       const TensorView<const float, 2>& rows) {
  const std::span<const int32_t> draft = speculation_->DraftOf(active.slot);
  const auto n_drafted = std::ssize(draft);
  int64_t n_tokens = 0;
  int64_t n_kept = 0;
  for (bool kept = true; kept && !active.finished() && !active.failed();) {
    const int32_t proposed = n_tokens < n_drafted ? draft[static_cast<size_t>(n_tokens)] : kNoDraft;
    active.kept.missed = recorder_.MissedOf(fed, n_tokens);
    NG_RETURN_IF_ERROR(TakeToken(active, rows.Row(n_tokens), proposed));
    ++n_tokens;
    kept = active.ids().back() == proposed;
    n_kept += kept ? 1 : 0;
  }
  speculation_->Chosen(active.slot, n_tokens, n_kept);
  Timings& timings = active.completion().timings;
  ++timings.decode_steps;
  timings.drafted_tokens += n_drafted;
  timings.kept_tokens += n_kept;
  // The newest token is fed by the next step.
  if (n_tokens == n_drafted + 1) return absl::OkStatus();
  return model_.Truncate(active.sequence, fed.begin + n_tokens);
}

}  // namespace ng
