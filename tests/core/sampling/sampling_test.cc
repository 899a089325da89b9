#include "core/sampling/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/likely_tokens.h"
#include "tests/support/floats.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pair;

// Writes down what the chain asks of it, and fails where it is told to.
class Recorder : public SamplerStage {
 public:
  struct Log {
    std::vector<std::string> calls;
    std::string fail_in;
    std::map<std::string, SequenceEnd> ends;  // by stage; what Accept returns
    std::vector<DrawKey> keys;                // of the calls of Apply
  };
  Recorder(std::string name, Log& log) : name_(std::move(name)), log_(log) {}

  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override {
    return Note(absl::StrCat("open ", slot, " n=", prompt_ids.size()));
  }
  absl::StatusOr<SequenceEnd> Accept(int slot, int32_t token) override {
    NG_RETURN_IF_ERROR(Note(absl::StrCat("accept ", slot, " ", token)));
    const auto end = log_.ends.find(name_);
    return end == log_.ends.end() ? SequenceEnd::kNo : end->second;
  }
  absl::Status Fork(int from, int to) override {
    return Note(absl::StrCat("fork ", from, " ", to));
  }
  absl::Status Truncate(int slot, int64_t n_tokens) override {
    return Note(absl::StrCat("truncate ", slot, " ", n_tokens));
  }
  absl::Status Close(int slot) override { return Note(absl::StrCat("close ", slot)); }
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& /*candidates*/) override {
    log_.keys.push_back(key);
    return Note(absl::StrCat("apply ", slot));
  }

 private:
  absl::Status Note(const std::string& call) {
    log_.calls.push_back(name_ + ": " + call);
    if (log_.calls.back() == log_.fail_in) return RuntimeError("told to fail");
    return absl::OkStatus();
  }

  std::string name_;
  Log& log_;
};

// A stage that is one function.
class Applying : public SamplerStage {
 public:
  using Body = std::function<absl::Status(CandidateSet&)>;
  explicit Applying(Body body) : body_(std::move(body)) {}
  absl::Status Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) override {
    return body_(candidates);
  }

 private:
  Body body_;
};

SamplerChain OneStage(int64_t vocab_size, Applying::Body body) {
  std::vector<ChainStage> stages;
  stages.push_back({"body", std::make_unique<Applying>(std::move(body))});
  return {std::move(stages), vocab_size};
}

SamplerChain Recording(Recorder::Log& log) {
  std::vector<ChainStage> stages;
  stages.push_back({"a", std::make_unique<Recorder>("a", log)});
  stages.push_back({"b", std::make_unique<Recorder>("b", log)});
  return {std::move(stages), 3};
}

TEST(UniformDraw, IsPhilox4x32WithTenRounds) {
  // Random123's known answers for zeros and for the digits of pi: words 1 and 0 of the block.
  EXPECT_EQ(UniformDraw({0, 0, 0}),
            static_cast<double>(0xe169c58d6627e8d5ULL >> 11) / 9007199254740992.0);
  const DrawKey pi = {.seed = 0x299f31d0a4093822,
                      .request = 0x0370734413198a2e,
                      .step = static_cast<int64_t>(0x85a308d3243f6a88)};
  EXPECT_EQ(UniformDraw(pi), static_cast<double>(0x94fdccebd16cfe09ULL >> 11) / 9007199254740992.0);
}

TEST(UniformDraw, DiffersWithEachPartOfTheKey) {
  constexpr int64_t kHighWord = int64_t{1} << 32;
  const std::set<double> draws = {UniformDraw({1, 2, 3}),
                                  UniformDraw({2, 2, 3}),
                                  UniformDraw({1, 3, 3}),
                                  UniformDraw({1, 2, 4}),
                                  UniformDraw({1, 2, 3 + kHighWord}),
                                  UniformDraw({1, 2 + kHighWord, 3}),
                                  UniformDraw({1 + kHighWord, 2, 3})};
  EXPECT_EQ(draws.size(), 7);
}

// The n-th draw of a stream is another block of the same generator, written out here.
TEST(UniformDraw, CountsDrawsAndStreamsInTheHighWords) {
  constexpr int64_t kWord = int64_t{1} << 32;
  EXPECT_EQ(UniformDraw({1, 2, 3, 0}, 5), UniformDraw({1, 2, 3 + 5 * kWord, 0}));
  EXPECT_EQ(UniformDraw({1, 2, 3, 7}), UniformDraw({1, 2 + 7 * kWord, 3, 0}));
  std::set<double> draws;
  for (const uint32_t stream : {0U, DrawStream("xtc"), DrawStream("mirostat")}) {
    for (int64_t request = 0; request < 3; ++request) {
      for (int64_t step = 0; step < 3; ++step) {
        for (uint32_t n = 0; n < 3; ++n) draws.insert(UniformDraw({1, request, step, stream}, n));
      }
    }
  }
  EXPECT_EQ(draws.size(), 81);
}

TEST(DrawStream, IsTheSameForAName) {
  EXPECT_EQ(DrawStream("xtc"), DrawStream(std::string("xtc")));
  EXPECT_NE(DrawStream("xtc"), DrawStream("xtd"));
  EXPECT_NE(DrawStream("xtc"), 0U);
}

TEST(UniformDraw, CoversTheUnitInterval) {
  double sum = 0.0;
  for (int step = 0; step < 10000; ++step) {
    const double u = UniformDraw({1, 0, step});
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.01);
}

absl::StatusOr<int32_t> Draw(std::vector<Candidate> storage, double uniform) {
  std::vector<double> scratch(storage.size());
  CandidateSet candidates(storage);
  return DrawCandidate(candidates, uniform, scratch);
}

TEST(DrawCandidate, InvertsTheCumulativeSoftmaxInOrderOfId) {
  const std::vector<Candidate> candidates = {{0, 0.0F}, {1, std::log(2.0F)}, {2, 0.0F}};
  EXPECT_EQ(*Draw(candidates, 0.0), 0);
  EXPECT_EQ(*Draw(candidates, 0.2499), 0);
  EXPECT_EQ(*Draw(candidates, 0.2501), 1);
  EXPECT_EQ(*Draw(candidates, 0.7499), 1);
  EXPECT_EQ(*Draw(candidates, 0.7501), 2);
  EXPECT_EQ(*Draw(candidates, std::nextafter(1.0, 0.0)), 2);
}

TEST(DrawCandidate, NeverTakesMinusInfinity) {
  const std::vector<Candidate> candidates = {{0, -kInf}, {1, 1.0F}, {2, -kInf}, {3, -kInf}};
  for (const double u : {0.0, 0.5, std::nextafter(1.0, 0.0)}) EXPECT_EQ(*Draw(candidates, u), 1);
}

TEST(DrawCandidate, SurvivesLogitsFarApart) {
  EXPECT_EQ(*Draw({{0, -3e38F}, {1, 3e38F}}, 0.0), 1);
  EXPECT_EQ(*Draw({{0, -1e30F}, {1, -1e30F}}, 0.75), 1);
}

TEST(DrawCandidate, RefusesWhatCannotBeDrawn) {
  for (const float bad : {kNan, kInf, -kInf}) {
    EXPECT_EQ(ExitCode(Draw({{4, bad}}, 0.5).status()), 6);
    EXPECT_EQ(ExitCode(Draw({{4, bad}, {5, bad}}, 0.5).status()), 6);
  }
}

RC_GTEST_PROP(DrawCandidate, DoesNotDependOnTheOrderOfCandidates, ()) {
  std::vector<Candidate> candidates;
  const auto values =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(-50, 50)));
  for (const int value : values) {
    candidates.push_back(
        {static_cast<int32_t>(candidates.size() * 3), static_cast<float>(value) / 8.0F});
  }
  const double u = UniformDraw({*rc::gen::arbitrary<int64_t>(), 0, 0});
  const int32_t drawn = *Draw(candidates, u);
  std::reverse(candidates.begin(), candidates.end());
  RC_ASSERT(*Draw(candidates, u) == drawn);
  std::rotate(candidates.begin(), candidates.begin() + candidates.size() / 3, candidates.end());
  RC_ASSERT(*Draw(candidates, u) == drawn);
}

TEST(SamplerChain, DrawsTheSoftmaxWithoutStages) {
  SamplerChain chain({}, 3);
  const std::vector<float> logits = {std::log(0.2F), std::log(0.5F), std::log(0.3F)};
  std::vector<int> drawn(3);
  for (int step = 0; step < 20000; ++step) ++drawn[*chain.Choose(0, logits, {1, 0, step})];
  const double chi_square = std::pow(drawn[0] - 4000, 2) / 4000 +
                            std::pow(drawn[1] - 10000, 2) / 10000 +
                            std::pow(drawn[2] - 6000, 2) / 6000;
  EXPECT_LT(chi_square, 18.4);  // 2 degrees of freedom at 1e-4
}

TEST(SamplerChain, ChoosesByKeyAlone) {
  SamplerChain chain({}, 100);
  SamplerChain other({}, 100);
  const std::vector<float> logits(100, 0.0F);
  std::set<int32_t> over_steps;
  std::set<int32_t> over_sequences;
  for (int i = 0; i < 20; ++i) {
    const int32_t token = *chain.Choose(0, logits, {5, 1, i});
    EXPECT_EQ(*other.Choose(7, logits, {5, 1, i}), token) << "another slot, another history";
    over_steps.insert(token);
    over_sequences.insert(*chain.Choose(0, logits, {5, i, 1}));
  }
  EXPECT_GT(over_steps.size(), 10);
  EXPECT_GT(over_sequences.size(), 10);
}

TEST(SamplerChain, ForwardsEveryCallToEveryStageInOrder) {
  Recorder::Log log;
  SamplerChain chain = Recording(log);
  EXPECT_EQ(chain.description(), "sampler chain a,b");
  ASSERT_TRUE(chain.Open(0, std::vector<int32_t>{1, 2}).ok());
  ASSERT_TRUE(chain.Fork(0, 1).ok());
  ASSERT_TRUE(chain.Choose(1, std::vector<float>{1, 2, 3}, {1, 1, 0}).ok());
  ASSERT_TRUE(chain.Accept(1, 2).ok());
  ASSERT_TRUE(chain.Truncate(1, 2).ok());
  ASSERT_TRUE(chain.Close(1).ok());
  EXPECT_THAT(log.calls,
              ElementsAre("a: open 0 n=2", "b: open 0 n=2", "a: fork 0 1", "b: fork 0 1",
                          "a: apply 1", "b: apply 1", "a: accept 1 2", "b: accept 1 2",
                          "a: truncate 1 2", "b: truncate 1 2", "a: close 1", "b: close 1"));
}

TEST(SamplerChain, ClosesWhatAFailedOpenOrForkBegan) {
  Recorder::Log log;
  SamplerChain chain = Recording(log);
  log.fail_in = "b: open 4 n=0";
  EXPECT_EQ(chain.Open(4, {}).message(), "sampler chain a,b: told to fail");
  EXPECT_THAT(log.calls, ElementsAre("a: open 4 n=0", "b: open 4 n=0", "a: close 4"));

  log.calls.clear();
  log.fail_in = "b: fork 0 4";
  EXPECT_FALSE(chain.Fork(0, 4).ok());
  EXPECT_THAT(log.calls, ElementsAre("a: fork 0 4", "b: fork 0 4", "a: close 4"));
}

TEST(SamplerChain, StopsAtAStagesErrorAndNamesTheChain) {
  Recorder::Log log;
  SamplerChain chain = Recording(log);
  log.fail_in = "a: apply 0";
  const absl::Status status = chain.Choose(0, std::vector<float>{1, 2, 3}, {}).status();
  EXPECT_EQ(status.message(), "sampler chain a,b: told to fail");
  EXPECT_THAT(log.calls, ElementsAre("a: apply 0"));
}

TEST(SamplerChain, GivesEachStageAStreamOfItsOwn) {
  Recorder::Log log;
  SamplerChain chain = Recording(log);
  ASSERT_TRUE(chain.Choose(0, std::vector<float>{1, 2, 3}, {5, 6, 7}).ok());
  ASSERT_EQ(log.keys.size(), 2);
  EXPECT_EQ(log.keys[0].stream, DrawStream("a"));
  EXPECT_EQ(log.keys[1].stream, DrawStream("b"));
  for (const DrawKey& key : log.keys) {
    EXPECT_EQ(key.seed, 5);
    EXPECT_EQ(key.request, 6);
    EXPECT_EQ(key.step, 7);
  }
}

// What is recorded is the softmax of what can still be drawn, ties to the lowest id, however a
// stage left it; and looking changes no draw.
TEST(SamplerChain, RecordsWhatEachStageLeft) {
  const auto make = [] {
    std::vector<ChainStage> stages;
    const auto add = [&](const char* name, Applying::Body body) {
      stages.push_back({name, std::make_unique<Applying>(std::move(body))});
    };
    add("halve", [](CandidateSet& candidates) {
      candidates.DivideBy(2.0F);
      return absl::OkStatus();
    });
    add("ban", [](CandidateSet& candidates) {
      candidates.LogitOf(19) = -kInf;
      return absl::OkStatus();
    });
    add("cut", [](CandidateSet& candidates) {
      candidates.KeepTop(3);
      std::ranges::reverse(candidates.items());
      return absl::OkStatus();
    });
    return SamplerChain(std::move(stages), 20);
  };
  std::vector<float> logits(20, 2.0F);
  logits[19] = 6.0F;
  logits[7] = 4.0F;
  SamplerChain chain = make();
  SamplerChain unseen = make();
  for (int step = 0; step < 50; ++step) {
    std::vector<StageRecord> stages;
    const int32_t token = *chain.Choose(0, logits, {1, 0, step}, &stages);
    ASSERT_EQ(*unseen.Choose(0, logits, {1, 0, step}), token);
    ASSERT_EQ(stages.size(), 3);
    EXPECT_EQ(stages[0].name, "halve");
    EXPECT_EQ(stages[0].n_left, 20);
    const double e = std::exp(1.0);
    const double all = e * e + e + 18;
    ASSERT_EQ(stages[0].top.size(), kRecordedTop);
    EXPECT_THAT(stages[0].top[0], Pair(19, FloatNear(static_cast<float>(e * e / all), 1e-6)));
    EXPECT_THAT(stages[0].top[1], Pair(7, FloatNear(static_cast<float>(e / all), 1e-6)));
    for (int i = 2; i < 9; ++i) EXPECT_EQ(stages[0].top[i].first, i - 2);
    EXPECT_EQ(stages[0].top[9].first, 8);
    EXPECT_EQ(stages[1].n_left, 19) << "what is at -infinity is never drawn";
    EXPECT_EQ(stages[2].n_left, 3);
    EXPECT_THAT(stages[2].top,
                ElementsAre(Pair(7, FloatNear(static_cast<float>(e / (e + 2)), 1e-6)),
                            Pair(0, FloatNear(static_cast<float>(1 / (e + 2)), 1e-6)),
                            Pair(1, FloatNear(static_cast<float>(1 / (e + 2)), 1e-6))));
  }
}

TEST(SamplerChain, EndsForTheReasonOfTheFirstStageThatEnds) {
  Recorder::Log log;
  SamplerChain chain = Recording(log);
  EXPECT_EQ(*chain.Accept(0, 1), SequenceEnd::kNo);
  log.ends = {{"b", SequenceEnd::kStopText}};
  EXPECT_EQ(*chain.Accept(0, 1), SequenceEnd::kStopText);
  log.ends = {{"a", SequenceEnd::kStage}, {"b", SequenceEnd::kStopText}};
  EXPECT_EQ(*chain.Accept(0, 1), SequenceEnd::kStage);
  EXPECT_EQ(log.calls.size(), 6) << "every stage is told of every token";
  log.fail_in = "b: accept 0 1";
  EXPECT_EQ(chain.Accept(0, 1).status().message(), "sampler chain a,b: told to fail");
}

TEST(SamplerChain, RefusesLogitsOfAnotherVocabulary) {
  SamplerChain chain({}, 3);
  EXPECT_THAT(std::string(chain.Choose(0, std::vector<float>{1, 2}, {}).status().message()),
              HasSubstr("2 logits, must be 3"));
}

TEST(SamplerChain, RefusesWhatABrokenStageLeaves) {
  const auto exit_code = [&](Applying::Body body) {
    SamplerChain chain = OneStage(3, std::move(body));
    return ExitCode(chain.Choose(0, std::vector<float>{1, 2, 3}, {}).status());
  };
  EXPECT_EQ(6, exit_code([](CandidateSet& set) {
              set.items()[0].logit = kNan;
              return absl::OkStatus();
            }));
  EXPECT_EQ(6, exit_code([](CandidateSet& set) {
              for (Candidate& candidate : set.items()) candidate.logit = -kInf;
              return absl::OkStatus();
            }));
  EXPECT_EQ(4, exit_code([](CandidateSet& set) {
              set.KeepFirst(0);
              return absl::OkStatus();
            }));
  EXPECT_EQ(4, exit_code([](CandidateSet& set) {
              set.KeepTop(1);
              set.items()[0].id = 3;
              return absl::OkStatus();
            }));
}

// A stage of one function, by its name.
struct Named {
  std::string name;
  Applying::Body body;
};

std::string ErrorOf(const std::vector<Named>& bodies) {
  std::vector<ChainStage> stages;
  for (const Named& body : bodies) {
    stages.push_back({body.name, std::make_unique<Applying>(body.body)});
  }
  SamplerChain chain(std::move(stages), 3);
  const absl::Status status = chain.Choose(0, std::vector<float>{1, 2, 3}, {}).status();
  EXPECT_EQ(ExitCode(status), 6);
  return std::string(status.message());
}

TEST(SamplerChain, BlamesTheStageThatLeftANanAndNotTheOneThatFoundIt) {
  const Named sound = {"sound", [](CandidateSet& set) { return set.MaxLogit().status(); }};
  const Named careless = {"careless", [](CandidateSet&) { return absl::OkStatus(); }};
  const Named nan = {"nan", [](CandidateSet& set) {
                       set.items()[1].logit = kNan;
                       return absl::OkStatus();
                     }};
  const std::string left = "stage nan left behind: the logit of token 1 is nan";
  EXPECT_THAT(ErrorOf({sound, nan, careless, sound}), HasSubstr(left));
  EXPECT_THAT(ErrorOf({sound, nan, careless}), HasSubstr(left)) << "found by the draw";
  const Named refuses = {"refuses", [](CandidateSet&) { return NumericError("my own"); }};
  EXPECT_EQ(ErrorOf({sound, refuses, nan}), "sampler chain sound,refuses,nan: my own");
}

TEST(ComputeStepStats, GivesLogprobEntropyAndTheLargest) {
  std::vector<float> logits;
  double entropy = 0.0;
  for (const double p : {0.1, 0.4, 0.2, 0.2, 0.1}) {
    logits.push_back(static_cast<float>(std::log(p) + 3.0));
    entropy -= p * std::log(p);
  }
  const StepStats stats = ComputeStepStats(logits, 3, 4);
  EXPECT_NEAR(stats.logprob, std::log(0.2), 1e-6);
  EXPECT_NEAR(stats.entropy, entropy, 1e-6);
  EXPECT_THAT(stats.top, ElementsAre(Pair(1, FloatNear(0.4, 1e-6)), Pair(2, FloatNear(0.2, 1e-6)),
                                     Pair(3, FloatNear(0.2, 1e-6)), Pair(0, FloatNear(0.1, 1e-6))));
}

TEST(ComputeStepStats, CutsTheListToTheVocabularyAndToNothing) {
  const std::vector<float> logits = {1, 2, 3};
  EXPECT_EQ(ComputeStepStats(logits, 0, 10).top.size(), 3);
  EXPECT_TRUE(ComputeStepStats(logits, 0, 0).top.empty());
}

TEST(ComputeStepStats, StaysFiniteForLogitsFarApart) {
  const StepStats stats = ComputeStepStats(std::vector<float>{-3e38F, 3e38F}, 0, 1);
  EXPECT_NEAR(stats.logprob, -6e38, 1e32);
  EXPECT_EQ(stats.entropy, 0.0);
}

RC_GTEST_PROP(ComputeStepStats, ListsTheFirstOfTheSortedOrder, ()) {
  const auto n = *rc::gen::inRange<size_t>(1, 100);
  const auto logits = *rc::gen::container<std::vector<float>>(
      n, rc::gen::map(rc::gen::inRange(-8, 8), [](int i) { return static_cast<float>(i); }));
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  order.resize(std::min<size_t>(n, 10));
  std::vector<int32_t> listed;
  for (const auto& [id, probability] : ComputeStepStats(logits, 0, 10).top) listed.push_back(id);
  RC_ASSERT(listed == order);
}

TEST(LikelyTokens, AreOrderedByLogitThenId) {
  const std::vector<float> logits = {0.0F, 2.0F, 1.0F, 2.0F, -1.0F};
  EXPECT_THAT(LikelyTokens(logits, 3),
              ElementsAre(Pair(1, FloatNear(0.391696F, 1e-6F)),
                          Pair(3, FloatNear(0.391696F, 1e-6F)), Pair(2, ::testing::_)));
  EXPECT_EQ(RankOf(logits, 1), 0);
  EXPECT_EQ(RankOf(logits, 3), 1);
  EXPECT_EQ(RankOf(logits, 2), 2);
  EXPECT_EQ(RankOf(logits, 4), 4);
}

}  // namespace
}  // namespace ng
