// The in-tree stages pass the suite, and the suite finds the faults planted here.
#include "tests/conformance/sampler_conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <ostream>
#include <set>
#include <stdexcept>

#include "plugins/sampler/banned_tokens/banned_tokens.h"
#include "plugins/sampler/greedy/greedy.h"
#include "plugins/sampler/min_p/min_p.h"
#include "plugins/sampler/repetition_penalty/repetition_penalty.h"
#include "plugins/sampler/temperature/temperature.h"
#include "plugins/sampler/top_k/top_k.h"
#include "plugins/sampler/top_p/top_p.h"

namespace ng {

static void PrintTo(const SamplerCase& sampler, std::ostream* out) { *out << sampler.name; }

namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kVocabSize = 40;
constexpr size_t kWindow = 5;

using TokenSpan = std::span<const int32_t>;

// The definitions, in the plainest form.

std::vector<int32_t> ByFallingLogit(const TokenLogits& logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  return ids;
}

TokenLogits First(size_t n, const TokenLogits& logits) {
  const std::vector<int32_t> ids = ByFallingLogit(logits);
  TokenLogits left(logits.size(), -kInf);
  for (size_t i = 0; i < n; ++i) left[ids[i]] = logits[ids[i]];
  return left;
}

TokenLogits TopKDefinition(TokenSpan /*tokens*/, const TokenLogits& logits) {
  return First(7, logits);
}

TokenLogits GreedyDefinition(TokenSpan /*tokens*/, const TokenLogits& logits) {
  return First(1, logits);
}

TokenLogits TemperatureDefinition(TokenSpan /*tokens*/, TokenLogits logits) {
  for (float& logit : logits) logit /= 0.7F;
  return logits;
}

TokenLogits TopPDefinition(TokenSpan /*tokens*/, const TokenLogits& logits) {
  const std::vector<int32_t> ids = ByFallingLogit(logits);
  const auto weight = [&](int32_t id) {
    return std::exp(static_cast<double>(logits[id]) - logits[ids[0]]);
  };
  double total = 0.0;
  for (const int32_t id : ids) total += weight(id);
  double mass = 0.0;
  size_t n = 0;
  while (mass / total < 0.83) mass += weight(ids[n++]);
  return First(n, logits);
}

TokenLogits MinPDefinition(TokenSpan /*tokens*/, TokenLogits logits) {
  const float max = *std::max_element(logits.begin(), logits.end());
  for (float& logit : logits) {
    if (std::exp(static_cast<double>(logit) - max) < 0.1) logit = -kInf;
  }
  return logits;
}

TokenLogits PenaltyDefinition(TokenSpan tokens, TokenLogits logits) {
  const TokenSpan recent = tokens.last(std::min(kWindow, tokens.size()));
  for (const int32_t id : std::set<int32_t>(recent.begin(), recent.end())) {
    logits[id] = logits[id] > 0 ? logits[id] / 1.5F : logits[id] * 1.5F;
  }
  return logits;
}

constexpr int64_t kBanned[] = {0, 3, 17, 39};

TokenLogits BannedDefinition(TokenSpan /*tokens*/, TokenLogits logits) {
  for (const int64_t id : kBanned) logits[id] = -kInf;
  return logits;
}

ModelShape Model() {
  ModelShape model;
  model.vocab_size = kVocabSize;
  return model;
}

std::vector<SamplerCase> InTree() {
  return {
      {"greedy", kVocabSize, [] { return std::make_unique<Greedy>(); }, GreedyDefinition, true},
      {"temperature", kVocabSize, [] { return Temperature::Create(0.7); }, TemperatureDefinition,
       true},
      {"top_k", kVocabSize, [] { return TopK::Create(7); }, TopKDefinition, true},
      {"top_p", kVocabSize, [] { return TopP::Create(0.83); }, TopPDefinition, true},
      {"min_p", kVocabSize, [] { return MinP::Create(0.1); }, MinPDefinition, true},
      {"repetition_penalty", kVocabSize,
       [] { return RepetitionPenalty::Create({.value = 1.5, .window = kWindow}, Model()); },
       PenaltyDefinition, false},
      {"banned_tokens", kVocabSize, [] { return BannedTokens::Create(kBanned, kVocabSize); },
       BannedDefinition, false},
  };
}

class InTreeSampler : public ::testing::TestWithParam<SamplerCase> {};

TEST_P(InTreeSampler, Conforms) { EXPECT_THAT(CheckSampler(GetParam()), IsEmpty()); }

INSTANTIATE_TEST_SUITE_P(Conformance, InTreeSampler, ::testing::ValuesIn(InTree()),
                         [](const auto& info) { return info.param.name; });

// Faults of stages without state: what one Apply does wrong.

using Body = std::function<absl::Status(CandidateSet&)>;

class BodyStage : public SamplerStage {
 public:
  explicit BodyStage(Body body) : body_(std::move(body)) {}
  absl::Status Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) override {
    return body_(candidates);
  }

 private:
  Body body_;
};

std::vector<std::string> CheckBody(const Body& body, SamplerDefinition definition = nullptr) {
  return CheckSampler({"faulty", kVocabSize, [=] { return std::make_unique<BodyStage>(body); },
                       std::move(definition), true});
}

absl::Status TopSeven(CandidateSet& candidates) {
  candidates.KeepTop(7);
  return candidates.MaxLogit().status();
}

TEST(SamplerConformance, PassesASoundBody) {
  EXPECT_THAT(CheckBody(TopSeven, TopKDefinition), IsEmpty());
}

TEST(SamplerConformance, FindsOneTooMany) {
  const Body body = [](CandidateSet& candidates) {
    candidates.KeepTop(8);
    return candidates.MaxLogit().status();
  };
  EXPECT_THAT(CheckBody(body, TopKDefinition), Contains(HasSubstr("differs from its definition")));
}

TEST(SamplerConformance, FindsAScaleLeftOut) {
  const Body body = [](CandidateSet& candidates) { return candidates.MaxLogit().status(); };
  EXPECT_THAT(CheckBody(body, TemperatureDefinition),
              Contains(HasSubstr("differs from its definition")));
}

TEST(SamplerConformance, FindsTiesToTheHighestId) {
  const Body body = [](CandidateSet& candidates) {
    NG_RETURN_IF_ERROR(candidates.MaxLogit().status());
    std::sort(candidates.items().begin(), candidates.items().end(),
              [](const Candidate& a, const Candidate& b) {
                return std::pair(a.logit, a.id) > std::pair(b.logit, b.id);
              });
    candidates.KeepFirst(std::min<int64_t>(7, candidates.size()));
    return absl::OkStatus();
  };
  EXPECT_THAT(CheckBody(body), Contains(HasSubstr("keeps the higher id")));
}

TEST(SamplerConformance, FindsAStageThatTakesSparseForDense) {
  const Body body = [](CandidateSet& candidates) {
    candidates.items()[3 % candidates.size()].logit = -kInf;
    return candidates.MaxLogit().status();
  };
  EXPECT_THAT(CheckBody(body), Contains(HasSubstr("depends on how candidates lie")));
}

TEST(SamplerConformance, FindsNanLetThrough) {
  const Body body = [](CandidateSet&) { return absl::OkStatus(); };
  const std::vector<std::string> findings = CheckBody(body);
  EXPECT_THAT(findings, Contains(HasSubstr("accepts a logit that is neither")));
  EXPECT_THAT(findings, Contains(HasSubstr("accepts logits that are all -inf")));
}

TEST(SamplerConformance, FindsNothingLeftToDraw) {
  const Body body = [](CandidateSet& candidates) {
    for (Candidate& candidate : candidates.items()) candidate.logit = -kInf;
    return absl::OkStatus();
  };
  EXPECT_THAT(CheckBody(body), Contains(HasSubstr("leaves nothing to draw")));
}

TEST(SamplerConformance, FindsForeignAndRepeatedTokens) {
  const Body foreign = [](CandidateSet& candidates) {
    NG_RETURN_IF_ERROR(TopSeven(candidates));
    candidates.items()[0].id = kVocabSize;
    return absl::OkStatus();
  };
  EXPECT_THAT(CheckBody(foreign), Contains(HasSubstr("was not among the candidates")));
  const Body repeated = [](CandidateSet& candidates) {
    NG_RETURN_IF_ERROR(TopSeven(candidates));
    candidates.items().back() = candidates.items().front();
    return absl::OkStatus();
  };
  EXPECT_THAT(CheckBody(repeated), Contains(HasSubstr("leaves a token twice")));
}

TEST(SamplerConformance, FindsADenseSetMoved) {
  const Body body = [](CandidateSet& candidates) {
    std::reverse(candidates.items().begin(), candidates.items().end());
    return candidates.MaxLogit().status();
  };
  EXPECT_THAT(CheckBody(body), Contains(HasSubstr("moves candidates of a dense set")));
}

TEST(SamplerConformance, FindsAResultThatChangesWithEachCall) {
  const Body body = [calls = 0](CandidateSet& candidates) mutable {
    candidates.KeepTop(6 + ++calls % 2);
    return candidates.MaxLogit().status();
  };
  EXPECT_THAT(CheckBody(body), Contains(HasSubstr("another result when asked again")));
}

TEST(SamplerConformance, FindsNanThatIsLost) {
  const Body body = [](CandidateSet& candidates) {
    if (candidates.size() > 1) candidates.KeepFirst(candidates.size() - 1);
    return candidates.MaxLogit().status();
  };
  EXPECT_THAT(CheckBody(body), Contains(HasSubstr("accepts a logit that is neither")));
}

TEST(SamplerConformance, FindsTheHigherOfTwoRepeatedIdsToo) {
  const Body body = [](CandidateSet& candidates) {
    NG_RETURN_IF_ERROR(candidates.MaxLogit().status());
    candidates.items().front() = candidates.items().back();
    return absl::OkStatus();
  };
  EXPECT_THAT(CheckBody(body), Contains(HasSubstr("leaves a token twice")));
}

TEST(SamplerConformance, FindsAStageThatWorksOnAListOnly) {
  const Body body = [](CandidateSet& candidates) {
    NG_RETURN_IF_ERROR(candidates.MaxLogit().status());
    if (candidates.listed()) candidates.KeepTop(7);
    return absl::OkStatus();
  };
  EXPECT_THAT(CheckBody(body), Contains(HasSubstr("lie: a row of logits")));
}

TEST(SamplerConformance, FindsWrongCalls) {
  const Body all_of_one = [](CandidateSet& candidates) {
    candidates.KeepTop(1);
    candidates.KeepFirst(2);
    return absl::OkStatus();
  };
  EXPECT_THAT(CheckBody(all_of_one), Contains(HasSubstr("throws: CandidateSet::KeepFirst(2)")));
  const Body sparse = [](CandidateSet& candidates) {
    candidates.LogitOf(3) -= 1.0F;
    return candidates.MaxLogit().status();
  };
  EXPECT_THAT(CheckBody(sparse), Contains(HasSubstr("throws: CandidateSet::LogitOf(3)")));
}

TEST(SamplerConformance, FindsARefusalOfGoodLogits) {
  const Body body = [](CandidateSet&) { return NumericError("no"); };
  EXPECT_THAT(CheckBody(body, TopKDefinition), Contains(HasSubstr("refuses good logits: no")));
}

TEST(SamplerConformance, FindsAnErrorOverTwoLines) {
  const Body body = [](CandidateSet&) { return absl::OutOfRangeError("two\nlines"); };
  EXPECT_THAT(CheckBody(body), Contains(HasSubstr("not one line")));
}

TEST(SamplerConformance, ReportsAStageThatCannotBeCreated) {
  const auto create = [] { return TopK::Create(0); };
  EXPECT_THAT(CheckSampler({"faulty", kVocabSize, create, nullptr, true}),
              Contains(HasSubstr("cannot be created: sampler.top_k.k = 0")));
}

// Faults of state: a sound penalty on the tokens of the sequence, and what can be wrong with it.

struct Sound : SamplerStage {
  std::map<int, std::vector<int32_t>> tokens;

  absl::Status Open(int slot, TokenSpan prompt_ids) override {
    tokens[slot].assign(prompt_ids.begin(), prompt_ids.end());
    return absl::OkStatus();
  }
  absl::StatusOr<SequenceEnd> Accept(int slot, int32_t token) override {
    tokens[slot].push_back(token);
    return SequenceEnd::kNo;
  }
  absl::Status Fork(int from, int to) override {
    tokens[to] = tokens[from];
    return absl::OkStatus();
  }
  absl::Status Truncate(int slot, int64_t n_tokens) override {
    tokens[slot].resize(n_tokens);
    return absl::OkStatus();
  }
  absl::Status Close(int slot) override {
    tokens.erase(slot);
    return absl::OkStatus();
  }
  absl::Status Apply(int slot, const DrawKey& /*key*/, CandidateSet& candidates) override {
    for (Candidate& candidate : candidates.items()) {
      candidate.logit -=
          static_cast<float>(std::count(tokens[slot].begin(), tokens[slot].end(), candidate.id));
    }
    return candidates.MaxLogit().status();
  }
};

template <typename Stage>
std::vector<std::string> CheckState() {
  return CheckSampler(
      {"faulty", kVocabSize, [] { return std::make_unique<Stage>(); }, nullptr, false});
}

TEST(SamplerConformance, PassesASoundState) { EXPECT_THAT(CheckState<Sound>(), IsEmpty()); }

struct SharedByAllSlots : Sound {
  absl::Status Open(int /*slot*/, TokenSpan prompt_ids) override {
    return Sound::Open(0, prompt_ids);
  }
  absl::StatusOr<SequenceEnd> Accept(int /*slot*/, int32_t token) override {
    return Sound::Accept(0, token);
  }
  absl::Status Fork(int /*from*/, int /*to*/) override { return absl::OkStatus(); }
  absl::Status Truncate(int /*slot*/, int64_t n_tokens) override {
    return Sound::Truncate(0, n_tokens);
  }
  absl::Status Apply(int /*slot*/, const DrawKey& key, CandidateSet& candidates) override {
    return Sound::Apply(0, key, candidates);
  }
};
TEST(SamplerConformance, FindsStateSharedByAllSlots) {
  EXPECT_THAT(CheckState<SharedByAllSlots>(), Contains(HasSubstr("feels what happens in another")));
}

struct PromptForgotten : Sound {
  absl::Status Open(int slot, TokenSpan /*prompt_ids*/) override { return Sound::Open(slot, {}); }
  absl::Status Truncate(int slot, int64_t n_tokens) override {
    tokens[slot].resize(std::min<size_t>(n_tokens, tokens[slot].size()));
    return absl::OkStatus();
  }
};
TEST(SamplerConformance, FindsAPromptForgotten) {
  EXPECT_THAT(CheckState<PromptForgotten>(), Contains(HasSubstr("an accepted token is not")));
}

struct AcceptIgnored : Sound {
  absl::StatusOr<SequenceEnd> Accept(int /*slot*/, int32_t /*token*/) override {
    return SequenceEnd::kNo;
  }
  absl::Status Truncate(int slot, int64_t n_tokens) override {
    tokens[slot].resize(std::min<size_t>(n_tokens, tokens[slot].size()));
    return absl::OkStatus();
  }
};
TEST(SamplerConformance, FindsAcceptIgnored) {
  EXPECT_THAT(CheckState<AcceptIgnored>(), Contains(HasSubstr("an accepted token is not")));
}

struct TruncateIgnored : Sound {
  absl::Status Truncate(int /*slot*/, int64_t /*n_tokens*/) override { return absl::OkStatus(); }
};
TEST(SamplerConformance, FindsTruncateIgnored) {
  EXPECT_THAT(CheckState<TruncateIgnored>(), Contains(HasSubstr("a truncated slot is not")));
}

struct TruncateForgetsAll : Sound {
  absl::Status Truncate(int slot, int64_t /*n_tokens*/) override {
    return Sound::Truncate(slot, 0);
  }
};
TEST(SamplerConformance, FindsTruncateThatForgetsAll) {
  EXPECT_THAT(CheckState<TruncateForgetsAll>(), Contains(HasSubstr("a truncated slot is not")));
}

struct ForkIgnored : Sound {
  absl::Status Fork(int /*from*/, int /*to*/) override { return absl::OkStatus(); }
};
TEST(SamplerConformance, FindsForkIgnored) {
  EXPECT_THAT(CheckState<ForkIgnored>(), Contains(HasSubstr("a fork is not what its source is")));
}

struct ForkMoves : Sound {
  absl::Status Fork(int from, int to) override {
    tokens[to] = std::exchange(tokens[from], {});
    return absl::OkStatus();
  }
};
TEST(SamplerConformance, FindsForkThatTakesTheSourcesState) {
  EXPECT_THAT(CheckState<ForkMoves>(), Contains(HasSubstr("a fork changes its source")));
}

struct ReopenRemembers : Sound {
  absl::Status Open(int slot, TokenSpan prompt_ids) override {
    tokens[slot].insert(tokens[slot].end(), prompt_ids.begin(), prompt_ids.end());
    return absl::OkStatus();
  }
  absl::Status Close(int /*slot*/) override { return absl::OkStatus(); }
};
TEST(SamplerConformance, FindsASlotThatRemembersItsPast) {
  EXPECT_THAT(CheckState<ReopenRemembers>(), Contains(HasSubstr("remembers its past")));
}

struct CloseClosesAll : Sound {
  absl::Status Close(int /*slot*/) override {
    tokens.clear();
    return absl::OkStatus();
  }
};
TEST(SamplerConformance, FindsCloseThatDisturbsAnotherSlot) {
  EXPECT_THAT(CheckState<CloseClosesAll>(), Contains(HasSubstr("closing a slot disturbs")));
}

struct ApplyAccepts : Sound {
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override {
    NG_RETURN_IF_ERROR(Sound::Apply(slot, key, candidates));
    tokens[slot].push_back(candidates.items().front().id);
    return absl::OkStatus();
  }
};
TEST(SamplerConformance, FindsApplyThatChangesState) {
  EXPECT_THAT(CheckState<ApplyAccepts>(), Contains(HasSubstr("another result when asked again")));
}

// Faults of draws: leaves out the best candidate now and then, as the draw says.

struct LeavesOutBest : SamplerStage {
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override {
    NG_RETURN_IF_ERROR(candidates.MaxLogit().status());
    if (Draw(slot, key) < 0.5 || candidates.size() < 2) return absl::OkStatus();
    candidates.SortByLogit();
    if (candidates.items()[1].logit > -kInf) candidates.KeepFrom(1);
    return absl::OkStatus();
  }
  virtual double Draw(int /*slot*/, const DrawKey& key) { return UniformDraw(key); }
};
TEST(SamplerConformance, PassesDrawsByTheKey) {
  EXPECT_THAT(CheckState<LeavesOutBest>(), IsEmpty());
}

struct DrawsBySlot : LeavesOutBest {
  double Draw(int slot, const DrawKey& key) override {
    return UniformDraw({.seed = key.seed, .request = slot, .step = key.step});
  }
};
TEST(SamplerConformance, FindsDrawsThatHangOnTheSlot) {
  EXPECT_THAT(CheckState<DrawsBySlot>(), Contains(HasSubstr("another result in another slot")));
}

struct DrawsInTurn : LeavesOutBest {
  int64_t n = 0;
  double Draw(int /*slot*/, const DrawKey& /*key*/) override { return UniformDraw({1, 0, n++}); }
};
TEST(SamplerConformance, FindsDrawsInTheOrderOfCalls) {
  EXPECT_THAT(CheckState<DrawsInTurn>(), Contains(HasSubstr("another result when asked again")));
  EXPECT_THAT(CheckState<DrawsInTurn>(), Contains(HasSubstr("what it was asked before")));
}

// Draws once for a sequence, from the first key that it is asked with.
struct DrawsOnce : LeavesOutBest {
  std::map<int, double> drawn;
  double Draw(int slot, const DrawKey& key) override {
    return drawn.emplace(slot, UniformDraw(key)).first->second;
  }
};
TEST(SamplerConformance, FindsADrawThatOutlivesItsStep) {
  EXPECT_THAT(CheckState<DrawsOnce>(), Contains(HasSubstr("what it was asked before")));
}

template <int kWhere>
struct Throws : Sound {
  static void In(int where) {
    if (where == kWhere) throw std::runtime_error("boom");
  }
  absl::Status Open(int slot, TokenSpan prompt_ids) override {
    In(0);
    return Sound::Open(slot, prompt_ids);
  }
  absl::StatusOr<SequenceEnd> Accept(int slot, int32_t token) override {
    In(1);
    return Sound::Accept(slot, token);
  }
  absl::Status Fork(int from, int to) override {
    In(2);
    return Sound::Fork(from, to);
  }
  absl::Status Truncate(int slot, int64_t n_tokens) override {
    In(3);
    return Sound::Truncate(slot, n_tokens);
  }
  absl::Status Close(int slot) override {
    In(4);
    return Sound::Close(slot);
  }
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override {
    In(5);
    return Sound::Apply(slot, key, candidates);
  }
};
TEST(SamplerConformance, FindsWhatThrowsInAnyCall) {
  EXPECT_THAT(CheckState<Throws<0>>(), Contains(HasSubstr("throws: boom")));
  EXPECT_THAT(CheckState<Throws<1>>(), Contains(HasSubstr("throws: boom")));
  EXPECT_THAT(CheckState<Throws<2>>(), Contains(HasSubstr("throws: boom")));
  EXPECT_THAT(CheckState<Throws<3>>(), Contains(HasSubstr("throws: boom")));
  EXPECT_THAT(CheckState<Throws<4>>(), Contains(HasSubstr("throws: boom")));
  EXPECT_THAT(CheckState<Throws<5>>(), Contains(HasSubstr("throws: boom")));
}

struct OpenRefuses : Sound {
  absl::Status Open(int /*slot*/, TokenSpan /*prompt_ids*/) override { return RuntimeError("no"); }
  absl::Status Truncate(int /*slot*/, int64_t /*n_tokens*/) override { return absl::OkStatus(); }
};
TEST(SamplerConformance, FindsARefusalToOpen) {
  EXPECT_THAT(CheckState<OpenRefuses>(), Contains(HasSubstr("refuses to open a sequence: no")));
}

}  // namespace
}  // namespace ng
