#include "core/conform/sampler_rig.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng::conform {
namespace {

constexpr int32_t kEnd[] = {0};  // the stop ids

std::vector<TokenLogits> Inputs(int64_t vocab_size, uint32_t seed) {
  std::mt19937 random(20240228 + seed);
  // Not a std distribution: those differ between libraries.
  const auto uniform = [&] { return static_cast<float>(random() >> 8) / 16777216.0F; };
  const auto make = [&](auto value) {
    TokenLogits logits(static_cast<size_t>(vocab_size));
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

// Token 0 ends a text. Digits, letters and signs, then two of them at a time.
std::vector<std::string> Vocabulary(int64_t vocab_size) {
  constexpr std::string_view kSigns = "0123456789abcdefghijklmnopqrstuvwxyz ,.\n-:\"*AN";
  std::vector<std::string> bytes = {"<end>"};
  for (const char c : kSigns) bytes.emplace_back(1, c);
  for (size_t i = 0; std::ssize(bytes) < vocab_size; ++i) {
    bytes.push_back({kSigns[(7 * i + 1) % kSigns.size()], kSigns[i % kSigns.size()]});
  }
  return bytes;
}

}  // namespace

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

Tokens SomeTokens(int n, int first) {
  Tokens tokens;
  for (int i = 0; i < n; ++i) {
    tokens.push_back(static_cast<int32_t>((first + int64_t{i} * i * 3) % kVocabSize));
  }
  return tokens;
}

bool Same(const absl::StatusOr<TokenLogits>& a, const absl::StatusOr<TokenLogits>& b) {
  return a.ok() == b.ok() && (!a.ok() || *a == *b);
}

History History::First(int64_t n) const {
  History first = *this;
  first.prompt.resize(static_cast<size_t>(std::min(n, std::ssize(prompt))));
  first.steps.resize(static_cast<size_t>(n - std::ssize(first.prompt)));
  return first;
}

Tokens History::tokens() const {
  Tokens tokens = prompt;
  for (const Step& step : steps) tokens.push_back(step.token);
  return tokens;
}

SamplerRig::SamplerRig(const SamplerSubject& subject, int64_t vocab_size)
    : subject_(subject),
      vocab_size_(vocab_size),
      bytes_(Vocabulary(vocab_size)),
      token_bytes_(bytes_.begin(), bytes_.end()),
      special_(static_cast<size_t>(vocab_size)),
      row_(vocab_size, subject.settings.isa),
      inputs_(Inputs(vocab_size, subject.settings.seed)) {
  special_[0] = 1;
}

template <typename Call>
absl::Status SamplerRig::Caught(Call&& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    Note(absl::StrCat("throws: ", error.what()));
  } catch (...) {
    Note("throws what is no std::exception");
  }
  return RuntimeError("threw");
}

std::unique_ptr<SamplerStage> SamplerRig::Make() {
  PluginContext context = subject_.context;
  context.isa = subject_.settings.isa;
  context.model.vocab_size = vocab_size_;
  context.token_bytes = token_bytes_;
  context.special = special_;
  context.stop_ids = kEnd;
  std::unique_ptr<SamplerStage> stage;
  const absl::Status status = Caught([&] {
    absl::StatusOr<std::unique_ptr<SamplerStage>> made = subject_.make(context);
    if (made.ok()) stage = *std::move(made);
    return made.status();
  });
  if (!status.ok()) Note(absl::StrCat("cannot be created: ", status.message()));
  if (status.ok() && stage == nullptr) Note("create returned OK and no object");
  return stage;
}

std::unique_ptr<SamplerStage> SamplerRig::MakeOpened(const Tokens& prompt) {
  std::unique_ptr<SamplerStage> stage = Make();
  if (stage != nullptr) Open(*stage, 0, prompt);
  return stage;
}

std::unique_ptr<SamplerStage> SamplerRig::MakeAfter(const History& history) {
  if (!subject_.constraint) return MakeOpened(history.tokens());
  std::unique_ptr<SamplerStage> stage = MakeOpened(history.prompt);
  if (stage == nullptr) return stage;
  for (const History::Step& step : history.steps) {
    Apply(*stage, 0, inputs_[step.input]).IgnoreError();
    Accept(*stage, 0, step.token);
  }
  return stage;
}

void SamplerRig::Open(SamplerStage& stage, int slot, const Tokens& prompt) {
  const absl::Status status = Caught([&] { return stage.Open(slot, prompt); });
  if (!status.ok()) Note(absl::StrCat("refuses to open a sequence: ", status.message()));
}

bool SamplerRig::Accept(SamplerStage& stage, int slot, int32_t token) {
  SequenceEnd end = SequenceEnd::kNo;
  const absl::Status status = Caught([&] {
    const absl::StatusOr<SequenceEnd> answer = stage.Accept(slot, token);
    if (answer.ok()) end = *answer;
    return answer.status();
  });
  if (!status.ok()) {
    Note(absl::StrCat("refuses a token: ", status.message(),
                      subject_.constraint ? "" : " (is it a constraint? the profile constraint)"));
  }
  const auto number = static_cast<int32_t>(end);
  if (number < 0 || number > static_cast<int32_t>(SequenceEnd::kStopText)) {
    Note(absl::StrCat("Accept returns ", number, ", which is no SequenceEnd"));
  }
  return end == SequenceEnd::kNo && token != kEnd[0];
}

void SamplerRig::Fork(SamplerStage& stage, int from, int to) {
  const absl::Status status = Caught([&] { return stage.Fork(from, to); });
  if (!status.ok()) Note(absl::StrCat("refuses to fork: ", status.message()));
}

void SamplerRig::Truncate(SamplerStage& stage, int slot, int64_t n_tokens) {
  const absl::Status status = Caught([&] { return stage.Truncate(slot, n_tokens); });
  if (!status.ok()) Note(absl::StrCat("refuses to truncate: ", status.message()));
}

void SamplerRig::Close(SamplerStage& stage, int slot) {
  const absl::Status status = Caught([&] { return stage.Close(slot); });
  if (!status.ok()) Note(absl::StrCat("refuses to close a sequence: ", status.message()));
}

void SamplerRig::Grow(SamplerStage& stage, int slot, int n, int salt, History* history) {
  const Tokens plain = SomeTokens(n, salt);
  for (int i = 0; i < n && !noted(); ++i) {
    History::Step step{.token = plain[static_cast<size_t>(i)],
                       .input = static_cast<size_t>(salt + i) % inputs_.size()};
    if (subject_.constraint) {
      const auto left = Apply(stage, slot, inputs_[step.input]);
      if (!left.ok()) continue;  // nothing can follow in these logits
      // One that it has left: the best of those behind a place that changes.
      auto best = left->begin();
      for (size_t k = 0; k < left->size(); ++k) {
        const auto at = left->begin() + static_cast<int64_t>((plain[0] + 7 * i + k) % left->size());
        if (*at > *best || !std::isfinite(*best)) best = at;
        if (std::isfinite(*best) && k > left->size() / 2) break;
      }
      step.token = static_cast<int32_t>(best - left->begin());
    }
    history->steps.push_back(step);
    if (!Accept(stage, slot, step.token) && subject_.constraint) return;
  }
}

void SamplerRig::CheckSurvivors(const CandidateSet& left, const std::vector<Candidate>& before) {
  std::vector<int> seen(static_cast<size_t>(vocab_size_));
  for (const Candidate& candidate : before) seen[static_cast<size_t>(candidate.id)] = 1;
  bool drawable = false;
  bool in_place = true;
  for (int64_t i = 0; i < left.size(); ++i) {
    const Candidate& candidate = left.items()[static_cast<size_t>(i)];
    if (candidate.id < 0 || candidate.id >= vocab_size_ ||
        seen[static_cast<size_t>(candidate.id)] == 0) {
      Note(absl::StrCat("leaves token ", candidate.id, ", which was not among the candidates"));
    } else if (seen[static_cast<size_t>(candidate.id)]++ == 2) {
      Note(absl::StrCat("leaves token ", candidate.id, " twice"));
    }
    if (!(candidate.logit < kInf)) {
      Note(absl::StrCat("leaves a logit that is neither finite nor -inf: ", candidate.logit));
    }
    drawable |= std::isfinite(candidate.logit);
    in_place &= candidate.id == i;
  }
  if (!drawable) Note("leaves nothing to draw, without an error");
  if (left.dense() && !(in_place && left.size() == vocab_size_)) {
    Note("moves candidates of a dense set");
  }
}

CandidateSet SamplerRig::Arrange(std::vector<Candidate>& storage, const TokenLogits& logits,
                                 Arrangement arrangement) {
  if (arrangement == Arrangement::kRow) return row_.Begin(logits);
  for (const float logit : logits) {
    storage.push_back({static_cast<int32_t>(storage.size()), logit});
  }
  CandidateSet candidates(storage);
  if (arrangement == Arrangement::kDense) return candidates;
  candidates.SortByLogit();
  if (arrangement == Arrangement::kReversed) {
    std::ranges::sort(storage, std::greater<>(), &Candidate::id);
  }
  if (arrangement == Arrangement::kDrawable) {
    candidates.KeepAtLeast(double{std::numeric_limits<float>::lowest()});
  }
  return candidates;
}

absl::StatusOr<TokenLogits> SamplerRig::Apply(SamplerStage& stage, int slot,
                                              const TokenLogits& logits, Arrangement arrangement,
                                              const DrawKey& key) {
  std::vector<Candidate> storage;
  CandidateSet candidates = Arrange(storage, logits, arrangement);
  std::vector<Candidate> before(static_cast<size_t>(candidates.size()));
  candidates.CopyTo(before);
  const absl::Status status = Caught([&] { return stage.Apply(slot, key, candidates); });
  if (!status.ok()) {
    const std::string text(status.message());
    if (text.empty() || OneLine(text) != text) Note("reports an error that is not one line");
    return status;
  }
  CheckSurvivors(candidates, before);
  TokenLogits left(static_cast<size_t>(vocab_size_), -kInf);
  for (const Candidate& candidate : candidates.items()) {
    if (candidate.id >= 0 && candidate.id < vocab_size_) {
      left[static_cast<size_t>(candidate.id)] = candidate.logit;
    }
  }
  return left;
}

void SamplerRig::ExpectState(SamplerStage& stage, int slot, const History& history,
                             const char* finding) {
  if (noted()) return;
  const std::unique_ptr<SamplerStage> fresh = MakeAfter(history);
  if (noted()) return;
  for (const TokenLogits& logits : inputs_) {
    if (!Same(Apply(stage, slot, logits), Apply(*fresh, 0, logits))) return Note(finding);
  }
}

}  // namespace ng::conform
