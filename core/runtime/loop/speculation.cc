#include "core/runtime/loop/speculation.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/absl_view.h"

namespace ng {

Speculation::Speculation(Drafter& drafter, const DrafterSpec& spec, bool adapts, RankLink* link)
    : drafter_(drafter),
      gamma_(spec.gamma),
      adapts_(adapts),
      link_(link),
      lengths_(spec.max_sequences, spec.gamma),
      slots_(static_cast<size_t>(spec.max_sequences)) {
  for (Slot& slot : slots_) slot.tokens.resize(static_cast<size_t>(spec.gamma) + 1);
  wanted_.reserve(slots_.size());
  choices_.reserve(slots_.size());
  drafts_.reserve(slots_.size());
}

absl::Status Speculation::Open(int slot, const DraftedRequest& request) {
  if (At(slot).open) NG_RETURN_IF_ERROR(Close(slot));
  NG_RETURN_IF_ERROR(drafter_.Open(slot, request));
  At(slot).open = true;
  At(slot).asked = false;
  At(slot).share = KeptShare();
  At(slot).n_quiet = 0;
  At(slot).n_drafted = 0;
  return absl::OkStatus();
}

absl::Status Speculation::Accept(int slot, int32_t token) { return drafter_.Accept(slot, token); }

absl::Status Speculation::Close(int slot) {
  At(slot).open = false;
  return drafter_.Close(slot);
}

void Speculation::BeginStep() {
  for (const int slot : wanted_) At(slot).n_drafted = 0;
  wanted_.clear();
  choices_.clear();
}

void Speculation::Want(int slot, int64_t most) {
  wanted_.push_back(slot);
  choices_.push_back({.share = At(slot).share.value(),
                      .most = std::clamp<int64_t>(most, 0, gamma_),
                      .n_quiet = At(slot).n_quiet});
}

absl::Status Speculation::Propose() {
  if (wanted_.empty()) return absl::OkStatus();
  if (adapts_) {
    lengths_.Choose(choices_);
    // They come of what steps take, which is another time on each rank.
    if (link_ != nullptr) {
      NG_RETURN_IF_ERROR(link_->ShareBytes(std::as_writable_bytes(std::span(choices_))));
    }
  }
  drafts_.clear();
  bool asked_before = true;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const int64_t n_tokens = adapts_ ? choices_[i].n_tokens : choices_[i].most;
    Slot& slot = At(wanted_[i]);
    if (n_tokens == 0) continue;
    drafts_.push_back(
        {wanted_[i], std::span(slot.tokens).subspan(1, static_cast<size_t>(n_tokens))});
    asked_before = asked_before && slot.asked;
    slot.asked = true;
  }
  if (drafts_.empty()) return absl::OkStatus();
  const auto begin = std::chrono::steady_clock::now();
  NG_RETURN_IF_ERROR(drafter_.Propose(drafts_));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  int64_t n_drafted = 0;
  for (const Draft& draft : drafts_) {
    At(draft.slot).n_drafted = draft.n_tokens;
    n_drafted += draft.n_tokens;
  }
  // A first draft may have a whole prompt to read.
  if (asked_before && n_drafted > 0) lengths_.AddDrafting(n_drafted, taken.count());
  return absl::OkStatus();
}

std::span<const int32_t> Speculation::DraftOf(int slot) const {
  const Slot& of = slots_[static_cast<size_t>(slot)];
  return std::span(of.tokens).subspan(1, static_cast<size_t>(of.n_drafted));
}

std::span<const int32_t> Speculation::FedOf(int slot, int32_t newest) {
  Slot& of = At(slot);
  of.tokens.front() = newest;
  return std::span(of.tokens).first(static_cast<size_t>(of.n_drafted) + 1);
}

void Speculation::AddStepTime(double seconds) {
  auto n_rows = std::ssize(wanted_);
  for (const int slot : wanted_) n_rows += At(slot).n_drafted;
  lengths_.times().Add(static_cast<int>(n_rows), seconds);
}

void Speculation::Chosen(int slot, int64_t n_tokens, int64_t n_kept) {
  Slot& of = At(slot);
  ++n_steps_;
  n_chosen_ += n_tokens;
  n_drafted_ += of.n_drafted;
  n_kept_ += n_kept;
  ++of.n_quiet;
  if (of.n_drafted == 0) return;
  of.n_quiet = 0;
  // Where the sequence ended within its draft, nothing is known of the rest.
  const int64_t n_tried = n_kept < n_tokens ? of.n_drafted : n_kept;
  of.share.Add(n_kept, n_tried);
}

std::string Speculation::Report() const {
  std::string report;
  if (n_steps_ > 0) {
    const double each = static_cast<double>(n_chosen_) / static_cast<double>(n_steps_);
    const double share =
        n_drafted_ == 0 ? 0.0
                        : 100.0 * static_cast<double>(n_kept_) / static_cast<double>(n_drafted_);
    report = absl::StrFormat("%.2f tokens a step, %.1f %% of %d drafted tokens kept", each, share,
                             n_drafted_);
  }
  if (!off_.empty()) {
    absl::StrAppend(&report, report.empty() ? "" : "; ", "drafts nothing: ", View(off_));
  }
  const std::string own = drafter_.Report();
  if (!own.empty()) absl::StrAppend(&report, report.empty() ? "" : "; ", own);
  return report;
}

}  // namespace ng
