#include "ng/conform/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/conform/sampler_rig.h"

namespace ng::conform {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr Arrangement kOthers[] = {Arrangement::kRow, Arrangement::kSorted, Arrangement::kReversed,
                                   Arrangement::kDrawable};

bool Near(float found, float expected) {
  if (std::isinf(expected) || std::isinf(found)) return found == expected;
  return std::abs(found - expected) <= 1e-5F * std::max(1.0F, std::abs(expected));
}

Outcome CheckCandidates(const SamplerSubject& subject) {
  SamplerRig rig(subject);
  const auto stage = rig.MakeOpened(SomeTokens(6, 2));
  for (size_t i = 0; i < rig.inputs().size() && !rig.noted(); ++i) {
    const auto left = rig.Apply(*stage, 0, rig.inputs()[i]);
    const bool finite =
        std::ranges::all_of(rig.inputs()[i], [](float x) { return std::isfinite(x); });
    if (!left.ok() && finite && !subject.constraint) {
      rig.Note(absl::StrCat("refuses good logits: ", left.status().message()));
    }
  }
  if (!rig.noted() && OneLine(stage->Report()) != stage->Report()) {
    rig.Note("Report is not one line");
  }
  return rig.outcome();
}

Outcome CheckDefinition(const SamplerSubject& subject) {
  if (!subject.definition) return Skip("no definition is given");
  SamplerRig rig(subject);
  for (int n_tokens = 0; n_tokens < 12 && !rig.noted(); ++n_tokens) {
    const Tokens tokens = SomeTokens(n_tokens, n_tokens);
    const auto stage = rig.MakeOpened(tokens);
    if (rig.noted()) break;
    for (const TokenLogits& logits : rig.inputs()) {
      const auto left = rig.Apply(*stage, 0, logits);
      if (!left.ok()) return Fail(absl::StrCat("refuses good logits: ", left.status().message()));
      const TokenLogits expected = subject.definition(tokens, logits);
      for (size_t id = 0; id < expected.size(); ++id) {
        if (Near((*left)[id], expected[id])) continue;
        return Fail(absl::StrCat("token ", id, " has logit ", (*left)[id], ", must have ",
                                 expected[id], " after ", n_tokens, " tokens"));
      }
    }
  }
  return rig.outcome();
}

// The same result for the same candidates, however they lie.
Outcome CheckArrangementsOver(const SamplerSubject& subject, int64_t vocab_size) {
  SamplerRig rig(subject, vocab_size);
  const auto stage = rig.MakeOpened(SomeTokens(6, 2));
  for (size_t i = 0; i < rig.inputs().size() && !rig.noted(); ++i) {
    const TokenLogits& logits = rig.inputs()[i];
    const auto dense = rig.Apply(*stage, 0, logits);
    for (const Arrangement arrangement : kOthers) {
      if (Same(rig.Apply(*stage, 0, logits, arrangement), dense)) continue;
      rig.Note(absl::StrCat("depends on how candidates lie: ", Name(arrangement)));
    }
  }
  return rig.outcome();
}

Outcome CheckOrder(const SamplerSubject& subject) {
  return CheckArrangementsOver(subject, kVocabSize);
}

// With words of registers that are not full.
Outcome CheckLarge(const SamplerSubject& subject) { return CheckArrangementsOver(subject, 3001); }

// Whether the stage tells tokens apart by their logits alone, so that other ids for the same logits
// change nothing but the ids.
bool GoesByLogitAlone(SamplerRig& rig, SamplerStage& stage) {
  for (const TokenLogits& logits : rig.distinct()) {
    const auto n = logits.size();
    const auto moved = [n](size_t id) { return (id * 5 + 3) % n; };
    TokenLogits permuted(n);
    for (size_t id = 0; id < n; ++id) permuted[moved(id)] = logits[id];
    const auto left = rig.Apply(stage, 0, logits);
    const auto other = rig.Apply(stage, 0, permuted);
    if (!left.ok() || !other.ok()) return false;
    for (size_t id = 0; id < n; ++id) {
      if (!Near((*other)[moved(id)], (*left)[id])) return false;
    }
  }
  return true;
}

Outcome CheckTies(const SamplerSubject& subject) {
  SamplerRig rig(subject);
  const auto stage = rig.MakeOpened({});
  if (rig.noted()) return rig.outcome();
  if (!GoesByLogitAlone(rig, *stage)) {
    return rig.noted() ? rig.outcome() : Skip("it goes by more than logits");
  }
  for (const TokenLogits& logits : rig.inputs()) {
    const auto left = rig.Apply(*stage, 0, logits);
    if (!left.ok()) continue;
    for (size_t low = 0; low < logits.size(); ++low) {
      for (size_t high = low + 1; high < logits.size(); ++high) {
        if (logits[low] == logits[high] && std::isinf((*left)[low]) && !std::isinf((*left)[high])) {
          return Fail(absl::StrCat("of two equal logits keeps token ", high, " and not ", low));
        }
      }
    }
  }
  return rig.outcome();
}

Outcome CheckRepeat(const SamplerSubject& subject) {
  SamplerRig rig(subject);
  const auto stage = rig.MakeOpened(SomeTokens(5, 1));
  for (size_t i = 0; i < rig.inputs().size() && !rig.noted(); ++i) {
    const auto first = rig.Apply(*stage, 0, rig.inputs()[i]);
    if (!Same(rig.Apply(*stage, 0, rig.inputs()[i]), first)) {
      rig.Note("gives another result when asked again");
    }
  }
  return rig.outcome();
}

// A draw of the stage's own hangs on the key, and on nothing that is otherwise in another batch:
// its slot, what was drawn before it, for whom.
Outcome CheckKeys(const SamplerSubject& subject) {
  SamplerRig rig(subject);
  const Tokens tokens = SomeTokens(5, 1);
  const auto stage = rig.Make();
  if (rig.noted()) return rig.outcome();
  for (const int slot : {0, 1, 3}) rig.Open(*stage, slot, tokens);
  for (int i = 0; i < 16 && !rig.noted(); ++i) {
    const DrawKey key = {.seed = 1 + i % 2, .request = i % 5, .step = i, .stream = 9};
    const TokenLogits& logits = rig.inputs()[static_cast<size_t>(i) % rig.inputs().size()];
    const auto first = rig.Apply(*stage, 0, logits, Arrangement::kDense, key);
    for (const int slot : {3, 1}) {
      if (!Same(rig.Apply(*stage, slot, logits, Arrangement::kDense, key), first)) {
        rig.Note("gives another result in another slot");
      }
    }
    const auto fresh = rig.MakeOpened(tokens);
    if (fresh == nullptr) break;
    if (!Same(rig.Apply(*fresh, 0, logits, Arrangement::kDense, key), first)) {
      rig.Note("depends on what it was asked before");
    }
  }
  return rig.outcome();
}

Outcome CheckGrowth(const SamplerSubject& subject) {
  SamplerRig rig(subject);
  History history{.prompt = SomeTokens(3, 4), .steps = {}};
  const auto stage = rig.MakeOpened(history.prompt);
  if (rig.noted()) return rig.outcome();
  rig.Grow(*stage, 0, 20, 7, &history);
  rig.ExpectState(*stage, 0, history,
                  subject.constraint ? "the same answer leads to another state"
                                     : "an accepted token is not what the same token in the "
                                       "prompt is (if that is meant: the profile constraint)");
  return rig.outcome();
}

Outcome CheckSlots(const SamplerSubject& subject) {
  SamplerRig rig(subject);
  History histories[] = {{SomeTokens(4, 0), {}}, {SomeTokens(9, 3), {}}, {SomeTokens(1, 8), {}}};
  const auto stage = rig.Make();
  if (rig.noted()) return rig.outcome();
  for (const int slot : {2, 0, 1}) rig.Open(*stage, slot, histories[slot].prompt);
  for (int step = 0; step < 5; ++step) {
    for (const int slot : {0, 1, 2}) {
      if (step > 0 && std::ssize(histories[slot].steps) < step) continue;  // it has ended
      rig.Grow(*stage, slot, 1, 5 * step + 11 * slot, &histories[slot]);
    }
  }
  for (const int slot : {0, 1, 2}) {
    rig.ExpectState(*stage, slot, histories[slot], "a slot feels what happens in another");
  }
  return rig.outcome();
}

Outcome CheckReopen(const SamplerSubject& subject) {
  SamplerRig rig(subject);
  History history{.prompt = SomeTokens(4, 0), .steps = {}};
  const auto stage = rig.MakeOpened(history.prompt);
  if (rig.noted()) return rig.outcome();
  History closed{.prompt = SomeTokens(9, 3), .steps = {}};
  rig.Open(*stage, 1, closed.prompt);
  rig.Grow(*stage, 0, 3, 4, &history);
  rig.Grow(*stage, 1, 3, 9, &closed);
  rig.Close(*stage, 1);
  rig.ExpectState(*stage, 0, history, "closing a slot disturbs another");
  const History again{.prompt = SomeTokens(2, 6), .steps = {}};
  rig.Open(*stage, 1, again.prompt);
  rig.ExpectState(*stage, 1, again, "a slot opened again remembers its past");
  return rig.outcome();
}

Outcome CheckTruncate(const SamplerSubject& subject) {
  SamplerRig rig(subject);
  for (const int64_t cut : {14, 9, 5, 2, 0}) {
    History history{.prompt = SomeTokens(5, 5), .steps = {}};
    const auto stage = rig.MakeOpened(history.prompt);
    if (rig.noted()) break;
    rig.Grow(*stage, 0, 9, 3, &history);
    History kept = history.First(std::min(cut, history.length()));
    rig.Truncate(*stage, 0, kept.length());
    rig.ExpectState(*stage, 0, kept, "a truncated slot is not what its first tokens make");
    rig.Grow(*stage, 0, 1, 17, &kept);
    rig.ExpectState(*stage, 0, kept, "a truncated slot does not grow as a fresh one");
  }
  return rig.outcome();
}

Outcome CheckFork(const SamplerSubject& subject) {
  SamplerRig rig(subject);
  History history{.prompt = SomeTokens(7, 9), .steps = {}};
  const auto stage = rig.MakeOpened(history.prompt);
  if (rig.noted()) return rig.outcome();
  rig.Grow(*stage, 0, 2, 1, &history);
  rig.Open(*stage, 1, SomeTokens(3, 0));
  rig.Close(*stage, 1);
  for (const int to : {1, 5}) {
    rig.Fork(*stage, 0, to);
    rig.ExpectState(*stage, to, history, "a fork is not what its source is");
    History forked = history;
    rig.Grow(*stage, to, 4, to, &forked);
    rig.Grow(*stage, 0, 1, 9, &history);
    rig.ExpectState(*stage, to, forked, "a fork does not grow as a fresh slot");
    rig.ExpectState(*stage, 0, history, "a fork changes its source");
  }
  rig.Truncate(*stage, 5, 1);
  rig.Close(*stage, 1);
  rig.ExpectState(*stage, 0, history, "a fork changes its source");
  return rig.outcome();
}

// Apply notes what a stage leaves when it does not refuse.
Outcome CheckNan(const SamplerSubject& subject) {
  SamplerRig rig(subject);
  const auto stage = rig.MakeOpened(SomeTokens(4, 1));
  if (rig.noted()) return rig.outcome();
  const size_t last = rig.inputs().front().size() - 1;
  for (const Arrangement arrangement :
       {Arrangement::kDense, Arrangement::kRow, Arrangement::kReversed}) {
    for (const float bad : {kNan, -kNan, kInf}) {
      for (const size_t place : {size_t{0}, last / 2, last}) {
        TokenLogits logits = rig.inputs().front();
        logits[place] = bad;
        if (!rig.Apply(*stage, 0, logits, arrangement).ok()) continue;
        rig.Note(absl::StrCat("accepts the logit ", bad, ", ", Name(arrangement)));
      }
    }
    TokenLogits none(rig.inputs().front().size(), -kInf);
    if (rig.Apply(*stage, 0, none, arrangement).ok()) rig.Note("accepts logits that are all -inf");
    none[last] = 1.0F;
    rig.Apply(*stage, 0, none, arrangement).IgnoreError();
  }
  return rig.outcome();
}

Outcome CheckInstances(const SamplerSubject& subject) {
  SamplerRig rig(subject);
  History history{.prompt = SomeTokens(4, 1), .steps = {}};
  const auto stage = rig.MakeOpened(history.prompt);
  if (rig.noted()) return rig.outcome();
  rig.Grow(*stage, 0, 3, 2, &history);
  std::vector<absl::StatusOr<TokenLogits>> before;
  for (const TokenLogits& logits : rig.inputs()) before.push_back(rig.Apply(*stage, 0, logits));
  const auto other = rig.MakeOpened(SomeTokens(9, 4));
  if (rig.noted()) return rig.outcome();
  History elsewhere;
  rig.Grow(*other, 0, 5, 3, &elsewhere);
  rig.Close(*other, 0);
  for (size_t i = 0; i < before.size(); ++i) {
    if (!Same(rig.Apply(*stage, 0, rig.inputs()[i]), before[i])) {
      rig.Note("a stage feels what happens in another stage");
    }
  }
  return rig.outcome();
}

// Of what is asked for a second time: a stage may make what it keeps when it is first wanted.
Outcome CheckAllocation(const SamplerSubject& subject) {
  if (!subject.settings.count_allocations) return Skip("this program does not count allocations");
  SamplerRig rig(subject);
  const auto stage = rig.MakeOpened(SomeTokens(6, 2));
  if (rig.noted()) return rig.outcome();
  CandidateStorage row(kVocabSize, subject.settings.isa);
  for (const TokenLogits& logits : rig.inputs()) {
    int64_t n = 0;
    for (int repeat = 0; repeat < 2; ++repeat) {
      CandidateSet candidates = row.Begin(logits);
      const int64_t before = subject.settings.count_allocations();
      const bool ok = stage->Apply(0, SamplerRig::kKey, candidates).ok();
      n = ok ? subject.settings.count_allocations() - before : 0;
    }
    if (n != 0) return Fail(absl::StrCat("Apply allocates ", n, " times"));
  }
  return Ok();
}

constexpr SamplerCheck kSamplerChecks[] = {
    {"candidates", "leaves some of the candidates, each once, one of them drawable",
     CheckCandidates},
    {"definition", "leaves what its definition leaves", CheckDefinition},
    {"order", "the result does not depend on how candidates lie", CheckOrder},
    {"large", "the same over a large vocabulary", CheckLarge},
    {"ties", "of equal logits the lowest ids stay", CheckTies},
    {"repeat", "Apply gives the same when it is asked again", CheckRepeat},
    {"keys", "draws hang on the key, not on the slot or on what was drawn before", CheckKeys},
    {"growth", "an accepted token counts as one of the prompt (constraint: as the same answer)",
     CheckGrowth},
    {"slots", "a slot does not feel what happens in another", CheckSlots},
    {"reopen", "a slot that is opened again knows nothing of its past", CheckReopen},
    {"truncate", "a truncated slot is what its first tokens make", CheckTruncate},
    {"fork", "a fork is what its source is, and goes its own way", CheckFork},
    {"nan", "NaN, +infinity, and nothing to draw are errors", CheckNan},
    {"instances", "two stages do not know of one another", CheckInstances},
    {"allocation", "Apply allocates nothing", CheckAllocation},
};

}  // namespace

std::span<const SamplerCheck> SamplerChecks() { return kSamplerChecks; }

std::vector<std::string> CheckSampler(const SamplerSubject& subject) {
  return RunChecks(SamplerChecks(), subject);
}

}  // namespace ng::conform
