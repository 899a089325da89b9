// The generate loop, driven through an abstract model: control flow without arithmetic.
#include "core/runtime/loop/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/plugin/loader.h"
#include "core/runtime/loop/prompt_pace.h"
#include "plugins/sampler/greedy/greedy.h"
#include "tests/core/runtime/dummy_model.h"

namespace ng {
namespace {

using test::DummyModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kEot = 3;
constexpr int64_t kVocab = test::DummyModel::kVocab;

// Ends sequences at given tokens.
class Ender final : public SamplerStage {
 public:
  explicit Ender(const std::map<int32_t, SequenceEnd>& ends) : ends_(ends) {}
  absl::StatusOr<SequenceEnd> Accept(int /*slot*/, int32_t token) override {
    accepted.push_back(token);
    const auto end = ends_.find(token);
    return end == ends_.end() ? SequenceEnd::kNo : end->second;
  }
  absl::Status Apply(int /*slot*/, const DrawKey& key, CandidateSet& /*candidates*/) override {
    keys.push_back(key);
    return absl::OkStatus();
  }
  std::vector<DrawKey> keys;
  std::vector<int32_t> accepted;

 private:
  const std::map<int32_t, SequenceEnd>& ends_;
};

class GenerateTest : public ::testing::Test {
 protected:
  GenerateTest() { settings_.stop_ids = stop_ids_; }

  absl::StatusOr<std::vector<Completion>> Run(DummyModel& model,
                                              const std::vector<GenerateRequest>& requests) {
    std::vector<ChainStage> stages;
    stages.push_back({"greedy", std::make_unique<Greedy>()});
    auto ender = std::make_unique<Ender>(ends_);
    const Ender& last = *ender;
    stages.push_back({"ender", std::move(ender)});
    SamplerChain chain(std::move(stages), kVocab);
    RequestSamplers samplers(chain, seed_);
    absl::StatusOr<std::vector<Completion>> done =
        Generate({model, samplers}, settings_, requests, options_);
    keys_ = last.keys;
    accepted_ = last.accepted;
    return done;
  }

  std::vector<int32_t> stop_ids_ = {kEot};
  std::map<int32_t, SequenceEnd> ends_;  // by token
  std::vector<DrawKey> keys_;            // of the last run's steps
  std::vector<int32_t> accepted_;        // the tokens that its stages were told of
  int64_t seed_ = 1;
  GenerateSettings settings_;
  GenerateOptions options_;
};

// Of the first step, which takes 200 ms, all but what it computes.
TEST_F(GenerateTest, CountsTheTimeInWhichAStepReadsWeightsAsLoading) {
  constexpr auto kReading = std::chrono::milliseconds(200);
  settings_.load_s = 1.0;
  DummyModel model([](int64_t) { return 1; });
  bool first = true;
  model.after_forward = [&] {
    if (!std::exchange(first, false)) return;
    std::this_thread::sleep_for(kReading);
    model.Read(std::chrono::duration<double>(kReading).count());
  };
  const auto done = Run(model, {{{1, 2, 5}, 2, {}}, {{1}, 2, {}}});
  ASSERT_TRUE(done.ok()) << done.status();
  for (const Completion& completion : *done) {
    EXPECT_DOUBLE_EQ(completion.timings.load_s, 1.2);
    EXPECT_GE(completion.timings.prefill_s, 0.0);
    EXPECT_LT(completion.timings.prefill_s, 0.2);
    EXPECT_LT(completion.timings.prefill_share_s, 0.2);
  }
}

// A token takes a millisecond, a step 5 more.
TEST_F(GenerateTest, BesideRequestsThatDecodePromptsAreFedInSmallPieces) {
  settings_.max_sequences = 2;
  settings_.most_beside_s = 0.02;
  DummyModel model([](int64_t) { return 1; });
  size_t n_before = 0;
  std::vector<int64_t> pieces;  // of the second of two sequences
  model.after_forward = [&] {
    const std::vector<int64_t> fed(model.fed().begin() + static_cast<ptrdiff_t>(n_before),
                                   model.fed().end());
    n_before = model.fed().size();
    if (fed.size() == 2) pieces.push_back(fed[1]);
    const int64_t n = std::accumulate(fed.begin(), fed.end(), int64_t{5});
    std::this_thread::sleep_for(std::chrono::milliseconds(n));
  };
  // The third begins when the second has ended, while the first still decodes.
  const std::vector<int32_t> prompt(200, 1);
  const auto done = Run(model, {{{1, 2}, 120, {}}, {{1, 2}, 3, {}}, {prompt, 2, {}}});
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ((*done)[2].ids.size(), 202U);
  pieces.erase(pieces.begin(), pieces.begin() + 3);
  EXPECT_GE(pieces.size(), 10U);
  EXPECT_LE(std::ranges::max(pieces), 20);
}

TEST(PromptPace, GoesByWhatStepsHaveTaken) {
  EXPECT_GT(PromptPace(0.0).TokensBeside(), 1'000'000'000);
  PromptPace pace(0.2);
  EXPECT_EQ(pace.TokensBeside(), 16);
  for (int i = 0; i < 30; ++i) pace.Took(0.020, {.all = 1, .of_prompts = 0});
  EXPECT_EQ(pace.TokensBeside(), 16);
  pace.Took(0.500, {.all = 100, .of_prompts = 100});
  EXPECT_EQ(pace.TokensBeside(), 40);
  // What the prompt adds, where it is more than its share.
  for (int i = 0; i < 30; ++i) pace.Took(0.120, {.all = 11, .of_prompts = 10});
  EXPECT_NEAR(pace.TokensBeside(), 18, 1);
  // Where a step takes long anyway, prompts may take as long.
  for (int i = 0; i < 60; ++i) pace.Took(0.600, {.all = 1, .of_prompts = 0});
  for (int i = 0; i < 60; ++i) pace.Took(0.800, {.all = 5, .of_prompts = 4});
  EXPECT_EQ(pace.TokensBeside(), 3);
  for (int i = 0; i < 60; ++i) pace.Took(100.0, {.all = 2, .of_prompts = 1});
  EXPECT_EQ(pace.TokensBeside(), 1);
}

// The first decode logits peak at eot.
TEST_F(GenerateTest, StopOnEotEndsWithEotAndLengthPromptPlusOne) {
  for (const bool use_cache : {true, false}) {
    settings_.use_cache = use_cache;
    DummyModel model([](int64_t) { return kEot; });
    const auto done = Run(model, {{{1, 2, 5}, 10, {}}});
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_THAT((*done)[0].ids, ElementsAre(1, 2, 5, kEot));
    EXPECT_EQ((*done)[0].stop_reason, StopReason::kEot);
    EXPECT_EQ(model.n_open(), 0U);
  }
}

TEST_F(GenerateTest, RunsToMaxNewTokensWhenEotIsNoStopId) {
  settings_.stop_ids = {};
  DummyModel model([](int64_t) { return kEot; });
  const auto done = Run(model, {{{1}, 3, {}}});
  ASSERT_TRUE(done.ok());
  EXPECT_THAT((*done)[0].ids, ElementsAre(1, kEot, kEot, kEot));
  EXPECT_EQ((*done)[0].stop_reason, StopReason::kMaxNewTokens);
}

TEST_F(GenerateTest, AStageEndsASequenceWithTheTokenThatItSays) {
  for (const auto& [end, reason] : {std::pair(SequenceEnd::kStage, StopReason::kStage),
                                    std::pair(SequenceEnd::kStopText, StopReason::kStopText)}) {
    for (const bool use_cache : {true, false}) {
      settings_.use_cache = use_cache;
      ends_ = {{5, end}};
      DummyModel model([](int64_t n) { return n < 4 ? 1 : 5; });
      const auto done = Run(model, {{{1, 2}, 10, {}}});
      ASSERT_TRUE(done.ok()) << done.status();
      EXPECT_THAT((*done)[0].ids, ElementsAre(1, 2, 1, 1, 5));
      EXPECT_EQ((*done)[0].stop_reason, reason);
      EXPECT_EQ(model.n_open(), 0U);
    }
  }
  EXPECT_EQ(StopReasonName(StopReason::kStage), "stage");
  EXPECT_EQ(StopReasonName(StopReason::kStopText), "stop_text");
}

TEST_F(GenerateTest, AStopIdComesBeforeAStageAndAStageBeforeTheNumberOfTokens) {
  ends_ = {{kEot, SequenceEnd::kStage}, {5, SequenceEnd::kStage}};
  DummyModel eot([](int64_t) { return kEot; });
  EXPECT_EQ((*Run(eot, {{{1}, 1, {}}}))[0].stop_reason, StopReason::kEot);
  DummyModel five([](int64_t) { return 5; });
  EXPECT_EQ((*Run(five, {{{1}, 1, {}}}))[0].stop_reason, StopReason::kStage);
  DummyModel one([](int64_t) { return 1; });
  EXPECT_EQ((*Run(one, {{{1}, 1, {}}}))[0].stop_reason, StopReason::kMaxNewTokens);
}

// The stages know of the beginning of an answer, and its draws are not used again.
TEST_F(GenerateTest, AnAnswerThatHasBegunGoesOnAsIfItHadNotBeenCut) {
  DummyModel model([](int64_t n) { return n == 6 ? kEot : 1; });
  const auto whole = Run(model, {{{1, 2}, 10, {}}});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::vector<int32_t> ids = (*whole)[0].ids;
  ASSERT_EQ(ids.size(), 7U);
  GenerateRequest rest = {{ids.begin(), ids.begin() + 4}, 10, {}};
  rest.n_answered = 2;
  std::vector<int64_t> steps;
  options_.on_step = [&](int, const StepRecord& record) {
    steps.push_back(record.step);
    return absl::OkStatus();
  };
  const auto done = Run(model, {rest});
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ((*done)[0].ids, ids);
  EXPECT_EQ((*done)[0].prompt_len, 4);
  EXPECT_THAT(steps, ElementsAre(2, 3, 4));
  EXPECT_EQ(keys_.front().step, 2);
  EXPECT_THAT(accepted_, ElementsAre(1, 1, 1, 1, kEot));
}

// The others of a batch go on; the room goes to the next request.
TEST_F(GenerateTest, AStageEndsItsOwnSequenceOnly) {
  settings_.max_sequences = 2;
  ends_ = {{5, SequenceEnd::kStage}};
  DummyModel model([](int64_t n) { return n == 3 ? 5 : 1; });
  const auto done = Run(model, {{{1, 2}, 3, {}}, {{1, 2, 1, 2}, 3, {}}, {{1}, 9, {}}});
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_THAT((*done)[0].ids, ElementsAre(1, 2, 1, 5));
  EXPECT_THAT((*done)[1].ids, ElementsAre(1, 2, 1, 2, 1, 1, 1));
  EXPECT_THAT((*done)[2].ids, ElementsAre(1, 1, 1, 5));
}

// So that a stage's own draws are the same for any cache.max_sequences.
TEST_F(GenerateTest, TheKeyOfAStepIsTheRequestsOwn) {
  seed_ = 4;
  for (const int side_by_side : {1, 2, 3}) {
    settings_.max_sequences = side_by_side;
    DummyModel model([](int64_t) { return 1; });
    ASSERT_TRUE(Run(model, {{{1}, 1, {}}, {{2}, 2, {}}, {{5}, 1, {}}}).ok());
    std::set<std::pair<int64_t, int64_t>> keys;
    for (const DrawKey& key : keys_) {
      EXPECT_EQ(key.seed, 4);
      keys.insert({key.request, key.step});
    }
    EXPECT_THAT(keys,
                ElementsAre(std::pair(0, 0), std::pair(1, 0), std::pair(1, 1), std::pair(2, 0)));
  }
}

TEST_F(GenerateTest, CachedFeedsThePromptOnceAndThenOneTokenAStep) {
  DummyModel model([](int64_t n) { return static_cast<int32_t>(n % 3); });
  ASSERT_TRUE(Run(model, {{{1, 2, 5, 6}, 3, {}}}).ok());
  EXPECT_THAT(model.fed(), ElementsAre(4, 1, 1));
}

TEST_F(GenerateTest, UncachedFeedsAllIdsAtEveryStep) {
  settings_.use_cache = false;
  DummyModel model([](int64_t n) { return static_cast<int32_t>(n % 3); });
  ASSERT_TRUE(Run(model, {{{1, 2, 5, 6}, 3, {}}}).ok());
  EXPECT_THAT(model.fed(), ElementsAre(4, 5, 6));
}

TEST_F(GenerateTest, PrefillChunkSplitsThePromptOnly) {
  settings_.prefill_chunk = 3;
  DummyModel model([](int64_t n) { return static_cast<int32_t>(n % 3); });
  ASSERT_TRUE(Run(model, {{{1, 2, 5, 6, 7, 1, 2}, 2, {}}}).ok());
  EXPECT_THAT(model.fed(), ElementsAre(3, 3, 1, 1));
}

TEST_F(GenerateTest, ZeroOrNegativeMaxNewGivesThePromptBackWithoutComputing) {
  for (const int64_t max_new : {int64_t{0}, int64_t{-5}, std::numeric_limits<int64_t>::min()}) {
    DummyModel model([](int64_t) { return kEot; });
    const auto done = Run(model, {{{4, 2}, max_new, {}}});
    ASSERT_TRUE(done.ok());
    EXPECT_THAT((*done)[0].ids, ElementsAre(4, 2));
    EXPECT_TRUE(model.fed().empty());
  }
}

TEST_F(GenerateTest, MoreRequestsThanSequencesAreAdmittedAsOthersFinish) {
  settings_.max_sequences = 2;
  settings_.stop_ids = {};
  DummyModel model([](int64_t n) { return static_cast<int32_t>(n % 3); });
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 5; ++i) requests.push_back({{1, 2}, i + 1, {}});
  const auto done = Run(model, requests);
  ASSERT_TRUE(done.ok());
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ((*done)[i].ids.size(), 2 + i + 1);
  EXPECT_EQ(model.most_open(), 2U);
  EXPECT_EQ(model.n_open(), 0U);
  EXPECT_EQ(*std::max_element(model.batch_sizes().begin(), model.batch_sizes().end()), 2);
}

// A rate of the run must not come from the time of one request, when they take turns or share
// steps.
TEST_F(GenerateTest, SharesOfTheRequestsAddUpToTheRun) {
  constexpr std::chrono::milliseconds kStep(2);
  for (const int side_by_side : {1, 3}) {
    settings_.max_sequences = side_by_side;
    settings_.stop_ids = {};
    DummyModel model([](int64_t n) { return static_cast<int32_t>(n % 3); });
    model.after_forward = [&] { std::this_thread::sleep_for(kStep); };
    const auto begin = std::chrono::steady_clock::now();
    const auto done = Run(model, {{{1, 2}, 2, {}}, {{2, 5}, 3, {}}, {{3}, 1, {}}, {{4}, 4, {}}});
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    ASSERT_TRUE(done.ok());
    double sum = 0.0;
    for (const Completion& completion : *done) {
      EXPECT_GT(completion.timings.prefill_share_s, 0.0);
      EXPECT_EQ(completion.timings.decode_share_s > 0.0, completion.timings.decode_tokens > 0);
      sum += completion.timings.prefill_share_s + completion.timings.decode_share_s;
    }
    const std::chrono::duration<double> slept = kStep * model.batch_sizes().size();
    EXPECT_GE(sum, slept.count());
    EXPECT_LE(sum, elapsed.count());
  }
}

TEST_F(GenerateTest, AnErrorThatComesWithASignalIsAnError) {
  std::atomic<bool> stop = false;
  settings_.stop = &stop;
  options_.on_step = [&](int, const StepRecord&) {
    stop = true;
    return OutputError("the disk is full");
  };
  DummyModel model([](int64_t n) { return static_cast<int32_t>(n % 3); });
  EXPECT_EQ(Run(model, {{{1, 2}, 5, {}}}).status(), OutputError("the disk is full"));
  options_.on_step = [&](int, const StepRecord&) {
    stop = true;
    return InterruptedError("nobody reads");
  };
  stop = false;
  const auto done = Run(model, {{{1, 2}, 5, {}}});
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ((*done)[0].stop_reason, StopReason::kInterrupted);
}

TEST_F(GenerateTest, RequestsThatTheCacheHasNoRoomForWaitTheirTurn) {
  settings_.max_sequences = 5;
  settings_.stop_ids = {};
  DummyModel model([](int64_t n) { return static_cast<int32_t>(n % 3); });
  model.SetRoom(2);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 5; ++i) requests.push_back({{1, 2}, i + 1, {}});
  const auto done = Run(model, requests);
  ASSERT_TRUE(done.ok()) << done.status();
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ((*done)[i].ids.size(), 2 + i + 1);
  EXPECT_EQ(model.most_open(), 2U);
  EXPECT_EQ(model.n_open(), 0U);
}

TEST_F(GenerateTest, ARequestThatTheEmptyCacheHasNoRoomForIsAnError) {
  DummyModel model([](int64_t) { return 1; });
  model.SetRoom(0);
  EXPECT_EQ(ExitCode(Run(model, {{{1, 2}, 3, {}}}).status()), 5);
}

TEST_F(GenerateTest, ChunksOfAPromptAndSingleTokensOfOthersAreOneStep) {
  settings_.max_sequences = 2;
  settings_.prefill_chunk = 2;
  settings_.stop_ids = {};
  DummyModel model([](int64_t) { return 1; });
  ASSERT_TRUE(Run(model, {{{1}, 4, {}}, {{4, 5, 6, 7, 2}, 2, {}}}).ok());
  EXPECT_THAT(model.fed(), ElementsAre(1, 2, 1, 2, 1, 1, 1, 1));
  EXPECT_THAT(model.batch_sizes(), ElementsAre(2, 2, 2, 2));
}

// The second shares four tokens with the first, so it waits until they are there.
TEST_F(GenerateTest, WhatAnotherPromptIsAboutToComputeIsWaitedFor) {
  settings_.max_sequences = 3;
  settings_.prefill_chunk = 2;
  settings_.stop_ids = {};
  const std::vector<GenerateRequest> requests = {
      {{1, 2, 4, 5, 6, 7}, 1, {}}, {{1, 2, 4, 5, 1}, 1, {}}, {{6, 6, 6}, 1, {}}};
  DummyModel sharing([](int64_t) { return 1; });
  sharing.Share(2);
  const auto done = Run(sharing, requests);
  ASSERT_TRUE(done.ok());
  EXPECT_THAT(sharing.fed(), ElementsAre(2, 2, 2, 1, 2, 1));
  EXPECT_EQ((*done)[0].timings.prefill_tokens, 6);
  EXPECT_EQ((*done)[1].timings.prefill_tokens, 1);
  EXPECT_EQ((*done)[1].timings.shared_tokens, 4);
  settings_.use_cache = false;
  DummyModel recomputing([](int64_t) { return 1; });
  recomputing.Share(2);
  ASSERT_TRUE(Run(recomputing, requests).ok());
  EXPECT_THAT(recomputing.fed(), ElementsAre(2, 2, 2, 2, 2, 1, 2, 1));
}

TEST_F(GenerateTest, TimingsCountPromptAndDecodedTokens) {
  DummyModel model([](int64_t) { return 1; });
  const auto done = Run(model, {{{1, 2, 5}, 4, {}}});
  ASSERT_TRUE(done.ok());
  EXPECT_EQ((*done)[0].timings.prefill_tokens, 3);
  EXPECT_EQ((*done)[0].timings.decode_tokens, 3);
}

TEST_F(GenerateTest, StopFlagEndsEveryRequestAsInterruptedAndReportsAll) {
  std::atomic<bool> stop = false;
  settings_.stop = &stop;
  settings_.max_sequences = 1;
  settings_.stop_ids = {};
  DummyModel model([](int64_t) { return 1; });
  int steps = 0;
  model.after_forward = [&] { stop = ++steps == 3; };
  std::vector<int> reported;
  options_.on_done = [&](int index, const Completion&) {
    reported.push_back(index);
    return absl::OkStatus();
  };
  const auto done = Run(model, {{{1, 2}, 10, {}}, {{5}, 10, {}}});
  ASSERT_TRUE(done.ok());
  EXPECT_THAT((*done)[0].ids, ElementsAre(1, 2, 1, 1, 1));
  EXPECT_THAT((*done)[1].ids, ElementsAre(5));
  EXPECT_EQ((*done)[0].stop_reason, StopReason::kInterrupted);
  EXPECT_EQ((*done)[1].stop_reason, StopReason::kInterrupted);
  EXPECT_THAT(reported, ElementsAre(0, 1));
  EXPECT_EQ(model.n_open(), 0U);
}

TEST_F(GenerateTest, NotFiniteLogitsAreANumericErrorThatNamesTheStep) {
  DummyModel model([](int64_t n) { return n == 4 ? -1 : 1; });
  std::vector<StopReason> reasons;
  options_.on_done = [&](int, const Completion& completion) {
    reasons.push_back(completion.stop_reason);
    return absl::OkStatus();
  };
  const auto done = Run(model, {{{1, 2}, 10, {}}});
  EXPECT_EQ(ExitCode(done.status()), 6);
  EXPECT_THAT(std::string(done.status().message()), HasSubstr("step 2"));
  EXPECT_THAT(std::string(done.status().message()), HasSubstr("the head's is not"));
  EXPECT_THAT(reasons, ElementsAre(StopReason::kError));
  EXPECT_EQ(model.n_open(), 0U);
}

TEST_F(GenerateTest, LogitsThatAreNotFiniteInOneSplitOnlyAreBlamedOnCacheAndAttention) {
  int n_looks = 0;
  DummyModel model([&](int64_t n) { return n == 4 && ++n_looks == 1 ? -1 : 1; });
  settings_.cache_and_attention = "cache plugin 'c' with attention plugin 'a'";
  const auto done = Run(model, {{{1, 2}, 10, {}}});
  EXPECT_EQ(ExitCode(done.status()), 6);
  EXPECT_THAT(std::string(done.status().message()),
              HasSubstr("cache plugin 'c' with attention plugin 'a' gives bits that depend on"));
}

TEST_F(GenerateTest, AnErrorOfAnObserverStopsTheRun) {
  DummyModel model([](int64_t) { return 1; });
  options_.on_step = [&](int, const StepRecord& record) {
    return record.step == 1 ? OutputError("full") : absl::OkStatus();
  };
  const auto done = Run(model, {{{1, 2}, 10, {}}});
  EXPECT_EQ(ExitCode(done.status()), 7);
  EXPECT_EQ(model.fed().size(), 2U);
  EXPECT_EQ(model.n_open(), 0U);
}

TEST_F(GenerateTest, AGivenSequenceKeepsItsTokensAndStaysOpen) {
  DummyModel model([](int64_t) { return 1; });
  const auto sequence = model.OpenSequence({}, 32);
  ASSERT_TRUE(sequence.ok());
  GenerateRequest request{{4, 5}, 2, *sequence};
  auto done = Run(model, {request});
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(model.Length(*sequence), 3);  // the last token is not fed
  request.prompt_ids = (*done)[0].ids;
  request.prompt_ids.push_back(6);
  done = Run(model, {request});
  ASSERT_TRUE(done.ok());
  EXPECT_THAT(model.fed(), ElementsAre(2, 1, 2, 1));
  EXPECT_EQ(model.n_open(), 1U);
}

// A plugin's fault comes as an exception where its call has no status.
TEST_F(GenerateTest, AnExceptionEndsTheRunAndEveryRequestIsReported) {
  DummyModel model([](int64_t) { return 1; });
  model.after_forward = [&] {
    if (model.batch_sizes().size() == 3) throw PluginFault(PluginError("cache 'odd': View threw"));
  };
  std::vector<StopReason> reasons;
  options_.on_done = [&](int, const Completion& completion) {
    reasons.push_back(completion.stop_reason);
    return absl::OkStatus();
  };
  settings_.max_sequences = 1;
  const auto done = Run(model, {{{1, 2}, 2}, {{1, 2}, 5}, {{1}, 1}});
  EXPECT_THAT(done.status().message(), HasSubstr("cache 'odd': View threw"));
  EXPECT_THAT(reasons,
              ElementsAre(StopReason::kMaxNewTokens, StopReason::kError, StopReason::kError));
  EXPECT_EQ(model.n_open(), 0);
}

// Only the first request ever holds four tokens, whose logits are NaN.
TEST_F(GenerateTest, AnErrorOfOneRequestEndsThisOneAloneWhereSomebodyIsTold) {
  settings_.max_sequences = 3;
  settings_.stop_ids = {};
  const std::vector<GenerateRequest> requests = {{{1, 2}, 5, {}}, {{1, 2, 1, 2, 1}, 4, {}}};
  std::vector<std::pair<int, std::string>> told;
  options_.on_done = [&](int index, const Completion& completion) {
    told.emplace_back(index, StopReasonName(completion.stop_reason));
    return absl::OkStatus();
  };
  DummyModel alone([](int64_t n) { return n == 4 ? -1 : 1; });
  EXPECT_FALSE(Run(alone, requests).ok());
  EXPECT_THAT(told, ElementsAre(std::pair(0, "error"), std::pair(1, "error")));

  told.clear();
  options_.on_failed = [&](int index, const absl::Status& error) {
    EXPECT_EQ(ExitCode(error), 6) << error;
    told.emplace_back(index, "failed");
  };
  DummyModel model([](int64_t n) { return n == 4 ? -1 : 1; });
  const auto done = Run(model, requests);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_THAT(told, ElementsAre(std::pair(0, "failed"), std::pair(0, "error"),
                                std::pair(1, "max_new_tokens")));
  EXPECT_THAT((*done)[0].ids, ElementsAre(1, 2, 1, 1));
  EXPECT_THAT((*done)[1].ids, ElementsAre(1, 2, 1, 2, 1, 1, 1, 1, 1));
  EXPECT_EQ(model.n_open(), 0U);
}

// A stage that refuses a request when it begins.
class Refuser final : public SamplerStage {
 public:
  absl::Status Open(int /*slot*/, std::span<const int32_t> prompt_ids) override {
    return prompt_ids.size() == 2 ? RuntimeError("no") : absl::OkStatus();
  }
  absl::Status Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& /*left*/) override {
    return absl::OkStatus();
  }
};

TEST_F(GenerateTest, ARequestThatCannotBeginIsReported) {
  settings_.max_sequences = 2;
  options_.on_failed = [](int, const absl::Status& error) {
    EXPECT_THAT(std::string(error.message()), HasSubstr("no"));
  };
  for (const bool told : {true, false}) {
    if (!told) options_.on_failed = nullptr;
    std::vector<std::pair<int, std::string>> ended;
    options_.on_done = [&](int index, const Completion& completion) {
      ended.emplace_back(index, StopReasonName(completion.stop_reason));
      return absl::OkStatus();
    };
    std::vector<ChainStage> stages;
    stages.push_back({"greedy", std::make_unique<Greedy>()});
    stages.push_back({"refuser", std::make_unique<Refuser>()});
    SamplerChain chain(std::move(stages), kVocab);
    RequestSamplers samplers(chain, seed_);
    DummyModel model([](int64_t) { return kEot; });
    const std::vector<GenerateRequest> requests = {{{1, 2}, 5, {}}, {{1, 2, 5}, 4, {}}};
    EXPECT_EQ(Generate({model, samplers}, settings_, requests, options_).ok(), told);
    EXPECT_THAT(ended, ElementsAre(std::pair(0, "error"), std::pair(1, told ? "eot" : "error")));
    EXPECT_EQ(model.n_open(), 0U);
  }
}

}  // namespace
}  // namespace ng
