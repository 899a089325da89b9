#include "tests/conformance/sampler_conformance.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Tokens = std::vector<int32_t>;

// How the same candidates are handed to a stage.
enum class Arrangement {
  kDense,
  kRow,       // dense and not listed
  kSorted,    // sparse, by falling logit
  kReversed,  // sparse, by falling id
  kDrawable,  // sparse, without those at -infinity
};
constexpr Arrangement kOthers[] = {Arrangement::kRow, Arrangement::kSorted, Arrangement::kReversed,
                                   Arrangement::kDrawable};

const char* Name(Arrangement arrangement) {
  switch (arrangement) {
    case Arrangement::kDense:
      return "dense";
    case Arrangement::kRow:
      return "a row of logits";
    case Arrangement::kSorted:
      return "sorted";
    case Arrangement::kReversed:
      return "reversed";
    case Arrangement::kDrawable:
      return "drawable only";
  }
  return "";
}

class Suite {
 public:
  explicit Suite(const SamplerCase& sampler)
      : case_(sampler), row_(sampler.vocab_size, SupportedIsaLevels().back()) {}

  std::vector<std::string> Run();

 private:
  void Find(std::string finding) {
    // One fault shows in many inputs: the first of each kind says enough.
    finding = absl::StrCat(case_.name, ": ", finding);
    if (std::find(findings_.begin(), findings_.end(), finding) == findings_.end()) {
      findings_.push_back(std::move(finding));
    }
  }

  // The status of a call into the stage; one that throws is a finding.
  template <typename Call>
  absl::Status Caught(Call&& call) {
    try {
      return call();
    } catch (const std::exception& error) {
      Find(absl::StrCat("throws: ", error.what()));
    } catch (...) {
      Find("throws what is no exception");
    }
    return RuntimeError("threw");
  }

  std::unique_ptr<SamplerStage> Create();
  std::unique_ptr<SamplerStage> CreateOpened(const Tokens& tokens);
  void Open(SamplerStage& stage, int slot, const Tokens& tokens);
  void Accept(SamplerStage& stage, int slot, int32_t token);
  void Truncate(SamplerStage& stage, int slot, int64_t n_tokens);
  void Close(SamplerStage& stage, int slot);

  // Applies, and checks everything that holds of any result.
  absl::StatusOr<TokenLogits> Apply(SamplerStage& stage, int slot, const TokenLogits& logits,
                                    Arrangement arrangement = Arrangement::kDense,
                                    const DrawKey& key = kKey);
  CandidateSet Arrange(std::vector<Candidate>& storage, const TokenLogits& logits,
                       Arrangement arrangement);
  void CheckSurvivors(const CandidateSet& left, const std::vector<Candidate>& before);
  // Whether a slot behaves as a fresh one that was opened with `tokens`.
  void ExpectState(SamplerStage& stage, int slot, const Tokens& tokens, const char* finding);

  void CheckDefinition();
  void CheckArrangements();
  void CheckTies();
  void CheckRepeatable();
  void CheckKeys();
  void CheckGrowth();
  void CheckSlots();
  void CheckTruncate();
  void CheckFork();
  void CheckHostileLogits();

  Tokens SomeTokens(int n, int first);

  static constexpr DrawKey kKey = {.seed = 7, .request = 2, .step = 11, .stream = 5};

  const SamplerCase& case_;
  CandidateStorage row_;
  std::vector<TokenLogits> inputs_;  // more than one token can be drawn in each
  std::vector<std::string> findings_;
};

std::vector<TokenLogits> Inputs(int64_t vocab_size) {
  std::mt19937 random(20240229);
  // Not a std distribution: those differ between libraries.
  const auto uniform = [&] { return static_cast<float>(random() >> 8) / 16777216.0F; };
  const auto make = [&](auto value) {
    TokenLogits logits(vocab_size);
    for (float& logit : logits) logit = value();
    return logits;
  };
  std::vector<TokenLogits> inputs;
  inputs.reserve(32);
  for (int i = 0; i < 8; ++i) inputs.push_back(make([&] { return 16.0F * uniform() - 8.0F; }));
  for (int i = 0; i < 8; ++i) {
    inputs.push_back(make([&] { return std::floor(5.0F * uniform()) - 2.0F; }));
  }
  inputs.push_back(make([] { return 1.25F; }));
  inputs.push_back(make([&] { return uniform() < 0.5F ? -kInf : 4.0F * uniform(); }));
  inputs.push_back(make([&] { return -60.0F * uniform(); }));
  return inputs;
}

Tokens Suite::SomeTokens(int n, int first) {
  Tokens tokens;
  for (int i = 0; i < n; ++i) {
    tokens.push_back(static_cast<int32_t>((first + int64_t{i} * i * 3) % case_.vocab_size));
  }
  return tokens;
}

std::unique_ptr<SamplerStage> Suite::Create() { return *case_.create(); }

void Suite::Open(SamplerStage& stage, int slot, const Tokens& tokens) {
  const absl::Status status = Caught([&] { return stage.Open(slot, tokens); });
  if (!status.ok()) Find(absl::StrCat("refuses to open a sequence: ", status.message()));
}

void Suite::Accept(SamplerStage& stage, int slot, int32_t token) {
  const absl::Status status = Caught([&] { return stage.Accept(slot, token).status(); });
  if (!status.ok()) Find(absl::StrCat("refuses a token: ", status.message()));
}

void Suite::Truncate(SamplerStage& stage, int slot, int64_t n_tokens) {
  const absl::Status status = Caught([&] { return stage.Truncate(slot, n_tokens); });
  if (!status.ok()) Find(absl::StrCat("refuses to truncate: ", status.message()));
}

void Suite::Close(SamplerStage& stage, int slot) {
  const absl::Status status = Caught([&] { return stage.Close(slot); });
  if (!status.ok()) Find(absl::StrCat("refuses to close a sequence: ", status.message()));
}

std::unique_ptr<SamplerStage> Suite::CreateOpened(const Tokens& tokens) {
  std::unique_ptr<SamplerStage> stage = Create();
  Open(*stage, 0, tokens);
  return stage;
}

void Suite::CheckSurvivors(const CandidateSet& left, const std::vector<Candidate>& before) {
  std::vector<int> seen(case_.vocab_size);
  for (const Candidate& candidate : before) seen[candidate.id] = 1;
  bool drawable = false;
  bool in_place = true;
  for (int64_t i = 0; i < left.size(); ++i) {
    const Candidate& candidate = left.items()[i];
    if (candidate.id < 0 || candidate.id >= case_.vocab_size || seen[candidate.id] == 0) {
      Find("leaves a token that was not among the candidates");
    } else if (seen[candidate.id]++ == 2) {
      Find("leaves a token twice");
    }
    if (!(candidate.logit < kInf)) Find("leaves a logit that is neither finite nor -inf");
    drawable |= std::isfinite(candidate.logit);
    in_place &= candidate.id == i;
  }
  if (!drawable) Find("leaves nothing to draw, without an error");
  if (left.dense() && !(in_place && left.size() == case_.vocab_size)) {
    Find("moves candidates of a dense set");
  }
}

CandidateSet Suite::Arrange(std::vector<Candidate>& storage, const TokenLogits& logits,
                            Arrangement arrangement) {
  if (arrangement == Arrangement::kRow) return row_.Begin(logits);
  for (const float logit : logits) {
    storage.push_back({static_cast<int32_t>(storage.size()), logit});
  }
  CandidateSet candidates(storage);
  if (arrangement == Arrangement::kDense) return candidates;
  candidates.SortByLogit();
  if (arrangement == Arrangement::kReversed) {
    std::sort(storage.begin(), storage.end(),
              [](const Candidate& a, const Candidate& b) { return a.id > b.id; });
  }
  if (arrangement == Arrangement::kDrawable) {
    candidates.KeepAtLeast(std::numeric_limits<float>::lowest());
  }
  return candidates;
}

absl::StatusOr<TokenLogits> Suite::Apply(SamplerStage& stage, int slot, const TokenLogits& logits,
                                         Arrangement arrangement, const DrawKey& key) {
  std::vector<Candidate> storage;
  CandidateSet candidates = Arrange(storage, logits, arrangement);
  std::vector<Candidate> before(candidates.size());
  candidates.CopyTo(before);
  const absl::Status status = Caught([&] { return stage.Apply(slot, key, candidates); });
  if (!status.ok()) {
    if (status.message().empty() || status.message().find('\n') != absl::string_view::npos) {
      Find("reports an error that is not one line");
    }
    return status;
  }
  CheckSurvivors(candidates, before);
  TokenLogits left(case_.vocab_size, -kInf);
  for (const Candidate& candidate : candidates.items()) {
    if (candidate.id >= 0 && candidate.id < case_.vocab_size) left[candidate.id] = candidate.logit;
  }
  return left;
}

bool Same(const absl::StatusOr<TokenLogits>& a, const absl::StatusOr<TokenLogits>& b) {
  return a.ok() == b.ok() && (!a.ok() || *a == *b);
}

void Suite::ExpectState(SamplerStage& stage, int slot, const Tokens& tokens, const char* finding) {
  const std::unique_ptr<SamplerStage> fresh = CreateOpened(tokens);
  for (const TokenLogits& logits : inputs_) {
    if (!Same(Apply(stage, slot, logits), Apply(*fresh, 0, logits))) return Find(finding);
  }
}

bool Near(float found, float expected) {
  if (std::isinf(expected) || std::isinf(found)) return found == expected;
  return std::abs(found - expected) <= 1e-5F * std::max(1.0F, std::abs(expected));
}

void Suite::CheckDefinition() {
  if (!case_.definition) return;
  for (int n_tokens = 0; n_tokens < 12; ++n_tokens) {
    const Tokens tokens = SomeTokens(n_tokens, n_tokens);
    const std::unique_ptr<SamplerStage> stage = CreateOpened(tokens);
    for (const TokenLogits& logits : inputs_) {
      const absl::StatusOr<TokenLogits> left = Apply(*stage, 0, logits);
      if (!left.ok()) return Find(absl::StrCat("refuses good logits: ", left.status().message()));
      const TokenLogits expected = case_.definition(tokens, logits);
      for (int64_t id = 0; id < case_.vocab_size; ++id) {
        if (Near((*left)[id], expected[id])) continue;
        return Find(absl::StrCat("differs from its definition: token ", id, " has logit ",
                                 (*left)[id], ", must have ", expected[id], " after ", n_tokens,
                                 " tokens"));
      }
    }
  }
}

void Suite::CheckArrangements() {
  const std::unique_ptr<SamplerStage> stage = CreateOpened(SomeTokens(6, 2));
  for (const TokenLogits& logits : inputs_) {
    const absl::StatusOr<TokenLogits> dense = Apply(*stage, 0, logits);
    for (const Arrangement arrangement : kOthers) {
      if (!Same(Apply(*stage, 0, logits, arrangement), dense)) {
        Find(absl::StrCat("depends on how candidates lie: ", Name(arrangement)));
      }
    }
  }
}

void Suite::CheckTies() {
  if (!case_.by_logit_alone) return;
  const std::unique_ptr<SamplerStage> stage = CreateOpened({});
  for (const TokenLogits& logits : inputs_) {
    const absl::StatusOr<TokenLogits> left = Apply(*stage, 0, logits);
    if (!left.ok()) continue;
    for (size_t low = 0; low < logits.size(); ++low) {
      for (size_t high = low + 1; high < logits.size(); ++high) {
        if (logits[low] == logits[high] && std::isinf((*left)[low]) && !std::isinf((*left)[high])) {
          Find("keeps the higher id of two equal logits");
        }
      }
    }
  }
}

void Suite::CheckRepeatable() {
  const std::unique_ptr<SamplerStage> stage = CreateOpened(SomeTokens(5, 1));
  for (const TokenLogits& logits : inputs_) {
    const absl::StatusOr<TokenLogits> first = Apply(*stage, 0, logits);
    if (!Same(Apply(*stage, 0, logits), first)) Find("gives another result when asked again");
  }
}

// A draw of the stage's own hangs on the key, and on nothing that is otherwise in another batch:
// its slot, what was drawn before it, for whom.
void Suite::CheckKeys() {
  const Tokens tokens = SomeTokens(5, 1);
  const std::unique_ptr<SamplerStage> stage = Create();
  for (const int slot : {0, 1, 3}) Open(*stage, slot, tokens);
  for (int i = 0; i < 16; ++i) {
    const DrawKey key = {.seed = 1 + i % 2, .request = i % 5, .step = i, .stream = 9};
    const TokenLogits& logits = inputs_[i % inputs_.size()];
    const absl::StatusOr<TokenLogits> first = Apply(*stage, 0, logits, Arrangement::kDense, key);
    for (const int slot : {3, 1}) {
      if (!Same(Apply(*stage, slot, logits, Arrangement::kDense, key), first)) {
        Find("gives another result in another slot");
      }
    }
    if (!Same(Apply(*CreateOpened(tokens), 0, logits, Arrangement::kDense, key), first)) {
      Find("depends on what it was asked before");
    }
  }
}

void Suite::CheckGrowth() {
  Tokens tokens = SomeTokens(3, 4);
  const std::unique_ptr<SamplerStage> stage = CreateOpened(tokens);
  for (const int32_t token : SomeTokens(20, 7)) {
    Accept(*stage, 0, token);
    tokens.push_back(token);
  }
  ExpectState(*stage, 0, tokens, "an accepted token is not what the same token in the prompt is");
}

void Suite::CheckSlots() {
  const Tokens others[] = {SomeTokens(4, 0), SomeTokens(9, 3), SomeTokens(1, 8)};
  const std::unique_ptr<SamplerStage> stage = Create();
  for (const int slot : {2, 0, 1}) Open(*stage, slot, others[slot]);
  Tokens grown[] = {others[0], others[1], others[2]};
  for (int step = 0; step < 5; ++step) {
    for (const int slot : {0, 1, 2}) {
      const int32_t token = SomeTokens(1, 5 * step + 11 * slot).front();
      Accept(*stage, slot, token);
      grown[slot].push_back(token);
    }
  }
  for (const int slot : {0, 1, 2}) {
    ExpectState(*stage, slot, grown[slot], "a slot feels what happens in another");
  }
  Close(*stage, 1);
  ExpectState(*stage, 0, grown[0], "closing a slot disturbs another");
  Open(*stage, 1, SomeTokens(2, 6));
  ExpectState(*stage, 1, SomeTokens(2, 6), "a slot opened again remembers its past");
}

void Suite::CheckTruncate() {
  const Tokens tokens = SomeTokens(14, 5);
  constexpr int64_t kPrompt = 5;
  for (const int64_t cut : {14, 9, 5, 2, 0}) {
    const std::unique_ptr<SamplerStage> stage =
        CreateOpened(Tokens(tokens.begin(), tokens.begin() + kPrompt));
    std::for_each(tokens.begin() + kPrompt, tokens.end(),
                  [&](int32_t token) { Accept(*stage, 0, token); });
    Truncate(*stage, 0, cut);
    Tokens kept(tokens.begin(), tokens.begin() + cut);
    ExpectState(*stage, 0, kept, "a truncated slot is not what its first tokens make");
    Accept(*stage, 0, tokens.back());
    kept.push_back(tokens.back());
    ExpectState(*stage, 0, kept, "a truncated slot does not grow as a fresh one");
  }
}

void Suite::CheckFork() {
  Tokens tokens = SomeTokens(7, 9);
  const std::unique_ptr<SamplerStage> stage = CreateOpened(tokens);
  Open(*stage, 1, SomeTokens(3, 0));
  Close(*stage, 1);
  for (const int to : {1, 5}) {
    const absl::Status status = Caught([&] { return stage->Fork(0, to); });
    if (!status.ok()) return Find(absl::StrCat("refuses to fork: ", status.message()));
    ExpectState(*stage, to, tokens, "a fork is not what its source is");
    Tokens forked = tokens;
    for (const int32_t token : SomeTokens(4, to)) {
      Accept(*stage, to, token);
      forked.push_back(token);
    }
    Accept(*stage, 0, tokens.front());
    tokens.push_back(tokens.front());
    ExpectState(*stage, to, forked, "a fork does not grow as a fresh slot");
    ExpectState(*stage, 0, tokens, "a fork changes its source");
  }
  Truncate(*stage, 5, 1);
  Close(*stage, 1);
  ExpectState(*stage, 0, tokens, "a fork changes its source");
}

// Apply checks what a stage leaves when it does not refuse.
void Suite::CheckHostileLogits() {
  const std::unique_ptr<SamplerStage> stage = CreateOpened(SomeTokens(4, 1));
  const size_t last = inputs_.front().size() - 1;
  for (const Arrangement arrangement :
       {Arrangement::kDense, Arrangement::kRow, Arrangement::kReversed}) {
    for (const float bad : {kNan, -kNan, kInf}) {
      for (const size_t place : {size_t{0}, last / 2, last}) {
        TokenLogits logits = inputs_.front();
        logits[place] = bad;
        if (Apply(*stage, 0, logits, arrangement).ok()) {
          Find("accepts a logit that is neither finite nor -inf");
        }
      }
    }
    TokenLogits none(case_.vocab_size, -kInf);
    if (Apply(*stage, 0, none, arrangement).ok()) Find("accepts logits that are all -inf");
    none[last] = 1.0F;
    Apply(*stage, 0, none, arrangement).IgnoreError();
  }
}

std::vector<std::string> Suite::Run() {
  inputs_ = Inputs(case_.vocab_size);
  const absl::Status created = case_.create().status();
  if (!created.ok()) {
    Find(absl::StrCat("cannot be created: ", created.message()));
    return findings_;
  }
  CheckDefinition();
  CheckArrangements();
  CheckTies();
  CheckRepeatable();
  CheckKeys();
  CheckGrowth();
  CheckSlots();
  CheckTruncate();
  CheckFork();
  CheckHostileLogits();
  return findings_;
}

}  // namespace

std::vector<std::string> CheckSampler(const SamplerCase& sampler) { return Suite(sampler).Run(); }

}  // namespace ng
