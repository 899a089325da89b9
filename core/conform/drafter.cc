#include "ng/conform/drafter.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/conform/drafter_rig.h"
#include "ng/status.h"

namespace ng::conform {
namespace {

constexpr int64_t kTextBegin = 30;
constexpr int64_t kTextEnd = 60;

Outcome CheckDrafts(const DrafterSubject& subject) {
  DrafterRig rig(subject);
  const auto drafter = rig.Make();
  if (rig.noted()) return rig.outcome();
  rig.Open(*drafter, 1, 0, 1);
  for (int64_t n = 1; n < kTextEnd && !rig.noted(); ++n) {
    rig.Ask(*drafter, 1, 1 + n % kDrafterSpec.gamma);
    rig.Accept(*drafter, 1, 0, n, n + 1);
  }
  rig.Close(*drafter, 1);
  if (OneLine(drafter->Report()) != drafter->Report()) rig.Note("Report is not one line");
  return rig.outcome();
}

Outcome CheckDraftsAgain(const DrafterSubject& subject) {
  DrafterRig rig(subject);
  const auto drafter = rig.Make();
  if (rig.noted()) return rig.outcome();
  rig.Open(*drafter, 0, 0, kTextBegin);
  const DraftTokens first = rig.Ask(*drafter, 0);
  for (int64_t most = 1; most <= kDrafterSpec.gamma && !rig.noted(); ++most) {
    const DraftTokens other = rig.Ask(*drafter, 0, most);
    const auto n_same = static_cast<size_t>(std::min(most, std::ssize(first)));
    if (rig.noted() || std::ranges::equal(other, std::span(first).first(n_same))) continue;
    rig.Note(absl::StrCat("proposes something else when it is asked again, for ", most, " tokens"));
  }
  return rig.outcome();
}

Outcome CheckDraftBatch(const DrafterSubject& subject) {
  DrafterRig rig(subject);
  const auto drafter = rig.Make();
  if (rig.noted()) return rig.outcome();
  constexpr int kSlots[] = {2, 0, 1};
  for (const int slot : kSlots) rig.Open(*drafter, slot, slot, kTextBegin + slot);
  const auto together = rig.Ask(*drafter, kSlots, kDrafterSpec.gamma);
  for (size_t i = 0; i < std::size(kSlots) && !rig.noted(); ++i) {
    if (rig.AskAnother(kSlots[i], kTextBegin + kSlots[i]) == together[i]) continue;
    rig.Note(absl::StrCat("proposes something else for slot ", kSlots[i],
                          " beside others than alone in slot 0"));
  }
  return rig.outcome();
}

Outcome CheckDraftGrowth(const DrafterSubject& subject) {
  DrafterRig rig(subject);
  const auto drafter = rig.Make();
  if (rig.noted()) return rig.outcome();
  rig.Open(*drafter, 0, 0, kTextBegin);
  rig.Open(*drafter, 1, 0, kTextEnd, kTextEnd - kTextBegin);
  // Asked in between, or never.
  for (int64_t n = kTextBegin; n < kTextEnd; n += 5) {
    rig.Ask(*drafter, 0);
    rig.Accept(*drafter, 0, 0, n, n + 5);
  }
  if (rig.Ask(*drafter, 0) != rig.Ask(*drafter, 1)) {
    rig.Note("proposes something else when the same answer was accepted token by token");
  }
  return rig.outcome();
}

Outcome CheckDraftReopen(const DrafterSubject& subject) {
  DrafterRig rig(subject);
  const auto drafter = rig.Make();
  if (rig.noted()) return rig.outcome();
  rig.Open(*drafter, 0, 1, kTextEnd);
  rig.Ask(*drafter, 0);
  rig.Open(*drafter, 1, 2, kTextEnd);
  rig.Close(*drafter, 0);
  rig.Open(*drafter, 0, 0, kTextBegin);
  if (rig.Ask(*drafter, 0) != rig.AskAnother(0, kTextBegin)) {
    rig.Note("proposes something else in a slot that had another sequence before");
  }
  if (rig.Ask(*drafter, 1) != rig.AskAnother(2, kTextEnd)) {
    rig.Note("proposes something else when another slot has been closed");
  }
  return rig.outcome();
}

Outcome CheckDraftLoad(const DrafterSubject& subject) {
  DrafterRig rig(subject);
  const auto drafter = rig.Make();
  if (rig.noted()) return rig.outcome();
  rig.Open(*drafter, 0, 1, kTextEnd);
  rig.Close(*drafter, 0);
  DrafterSpec more = kDrafterSpec;
  more.max_sequences = 5;
  rig.Load(*drafter, more);
  if (rig.noted()) return rig.outcome();
  rig.Open(*drafter, 4, 0, kTextBegin);
  if (rig.Ask(*drafter, 4) != rig.AskAnother(0, kTextBegin)) {
    rig.Note("proposes something else when it has been loaded again");
  }
  return rig.outcome();
}

Outcome CheckDraftAllocation(const DrafterSubject& subject) {
  if (!subject.settings.count_allocations) return Skip("this program does not count allocations");
  DrafterRig rig(subject);
  const auto drafter = rig.Make();
  if (rig.noted()) return rig.outcome();
  const DraftTokens text = DrafterRig::TextOf(0);
  DraftTokens tokens(static_cast<size_t>(kDrafterSpec.gamma));
  int64_t n_allocations = 0;
  for (int repeat = 0; repeat < 2; ++repeat) {  // the first one may make room
    rig.Open(*drafter, 0, 0, kTextBegin);
    Draft draft{0, tokens};
    const int64_t before = subject.settings.count_allocations();
    for (int64_t n = kTextBegin; n < kTextEnd; ++n) {
      draft.n_tokens = 0;
      if (!drafter->Propose({&draft, 1}).ok()) return Fail("Propose fails");
      if (!drafter->Accept(0, text[static_cast<size_t>(n)]).ok()) return Fail("Accept fails");
    }
    n_allocations = subject.settings.count_allocations() - before;
    rig.Close(*drafter, 0);
  }
  if (n_allocations != 0) {
    rig.Note(
        absl::StrCat("allocates ", n_allocations, " times in ", kTextEnd - kTextBegin, " steps"));
  }
  return rig.outcome();
}

constexpr DrafterCheck kDrafterChecks[] = {
    {"drafts", "proposes tokens of the vocabulary, no more than asked for, and fails at nothing",
     CheckDrafts},
    {"again", "proposes the same when it is asked again; a shorter draft begins a longer one",
     CheckDraftsAgain},
    {"batch", "a draft does not depend on the slot or on other sequences", CheckDraftBatch},
    {"growth", "an accepted token counts as one of the prompt", CheckDraftGrowth},
    {"reopen", "a slot that is opened again knows nothing of its past", CheckDraftReopen},
    {"load", "can be loaded again, for more sequences", CheckDraftLoad},
    {"allocation", "Propose and Accept allocate nothing", CheckDraftAllocation},
};

}  // namespace

std::span<const DrafterCheck> DrafterChecks() { return kDrafterChecks; }

std::vector<std::string> CheckDrafter(const DrafterSubject& subject) {
  return RunChecks(DrafterChecks(), subject);
}

}  // namespace ng::conform
