#include "ng/candidate_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/floats.h"

namespace ng {

static bool operator==(const Candidate& a, const Candidate& b) {
  return a.id == b.id && a.logit == b.logit;
}

namespace {

using ::testing::HasSubstr;

std::vector<Candidate> Dense(const std::vector<float>& logits) {
  std::vector<Candidate> candidates;
  for (const float logit : logits) {
    candidates.push_back({static_cast<int32_t>(candidates.size()), logit});
  }
  return candidates;
}

std::vector<Candidate> Items(const CandidateSet& set) {
  return {set.items().begin(), set.items().end()};
}

std::vector<Candidate> Ordered(std::vector<Candidate> candidates) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  return candidates;
}

// Long enough to fill KeepTop's room several times; few distinct values or many.
std::vector<float> AnyLogits() {
  const size_t n = *rc::gen::inRange<size_t>(1, 1500);
  const int distinct = *rc::gen::element(2, 20, 100000);
  return *rc::gen::container<std::vector<float>>(
      n, rc::gen::map(rc::gen::inRange(-distinct, distinct),
                      [](int i) { return static_cast<float>(i) / 16.0F; }));
}

RC_GTEST_PROP(CandidateSet, SortsByFallingLogitThenRisingId, ()) {
  std::vector<Candidate> storage = Dense(AnyLogits());
  const std::vector<Candidate> expected = Ordered(storage);
  CandidateSet set(storage);
  set.SortByLogit();
  RC_ASSERT(Items(set) == expected);
  RC_ASSERT(!set.dense());
}

RC_GTEST_PROP(CandidateSet, KeepTopKeepsTheFirstOfTheSortedOrder, ()) {
  std::vector<Candidate> storage = Dense(AnyLogits());
  const auto k = *rc::gen::element<size_t>(1, 2, 31, 32, 33, 200, 2000);
  std::vector<Candidate> expected = Ordered(storage);
  expected.resize(std::min(k, expected.size()));
  CandidateSet set(storage);
  set.KeepTop(static_cast<int64_t>(k));
  RC_ASSERT(Items(set) == expected);
  RC_ASSERT(!set.dense());
}

TEST(CandidateSet, KeepTopTakesTheLowestIdsInAnyOrderOfInput) {
  for (const bool rising_ids : {true, false}) {
    std::vector<Candidate> storage = Dense(std::vector<float>(500, 1.0F));
    if (!rising_ids) std::reverse(storage.begin(), storage.end());
    CandidateSet set(storage);
    set.KeepTop(3);
    EXPECT_EQ(Items(set), (std::vector<Candidate>{{0, 1.0F}, {1, 1.0F}, {2, 1.0F}}));
  }
}

TEST(CandidateSet, TreatsBothZerosAsEqual) {
  std::vector<Candidate> storage = Dense({-0.0F, 0.0F, -0.0F});
  CandidateSet set(storage);
  set.KeepTop(2);
  EXPECT_EQ(set.items()[0].id, 0);
  EXPECT_EQ(set.items()[1].id, 1);
}

TEST(CandidateSet, KeepTopNeverLosesANan) {
  for (const size_t place : {0, 70, 299}) {
    for (const float nan : {kNan, -kNan}) {
      std::vector<float> logits(300, 2.0F);
      logits[place] = nan;
      std::vector<Candidate> storage = Dense(logits);
      CandidateSet set(storage);
      set.KeepTop(1);
      EXPECT_EQ(set.items()[0].id, static_cast<int32_t>(place));
    }
  }
}

TEST(CandidateSet, OrdersInfinities) {
  std::vector<Candidate> storage = Dense({-kInf, 1.0F, kInf, -kInf});
  CandidateSet set(storage);
  set.KeepTop(3);
  EXPECT_EQ(Items(set), (std::vector<Candidate>{{2, kInf}, {1, 1.0F}, {0, -kInf}}));
}

TEST(CandidateSet, KeepFirstKeepsPlacesAndEndsDenseness) {
  std::vector<Candidate> storage = Dense({1, 2, 3});
  CandidateSet set(storage);
  set.KeepFirst(3);
  EXPECT_FALSE(set.dense()) << "candidates may have been moved before";
  set.KeepFirst(2);
  EXPECT_EQ(Items(set), (std::vector<Candidate>{{0, 1.0F}, {1, 2.0F}}));
  set.KeepFirst(0);
  EXPECT_EQ(set.size(), 0);
}

TEST(CandidateSet, KeepFromKeepsTheOthers) {
  std::vector<Candidate> storage = Dense({1, 2, 3});
  CandidateSet set(storage);
  set.KeepFrom(1);
  EXPECT_FALSE(set.dense());
  EXPECT_EQ(Items(set), (std::vector<Candidate>{{1, 2.0F}, {2, 3.0F}}));
  set.KeepFrom(2);
  EXPECT_EQ(set.size(), 0);
  EXPECT_THAT(std::string(set.MaxLogit().status().message()), HasSubstr("no candidate is left"));
}

TEST(CandidateSet, MaskKeepsTheOrderOfAList) {
  std::vector<Candidate> storage = Dense({1, 5, kNan, 2, 5});
  CandidateSet set(storage);
  const uint64_t all = 0x1f;
  set.Mask({&all, 1});
  EXPECT_TRUE(set.dense());
  set.SortByLogit();
  const uint64_t some = 0x1a;
  set.Mask({&some, 1});
  ASSERT_EQ(set.size(), 4) << "a NaN stays";
  EXPECT_EQ(set.items()[0].id, 2);
  EXPECT_EQ(set.items()[1].id, 1);
  EXPECT_EQ(set.items()[2].id, 4);
  EXPECT_EQ(set.items()[3].id, 3);
  set.KeepIds(std::vector<int32_t>{0, 4, 70});
  ASSERT_EQ(set.size(), 2);
  EXPECT_EQ(set.items()[1].id, 4);
}

TEST(CandidateSet, KeepAtLeastKeepsANan) {
  std::vector<Candidate> storage = Dense({1, kNan, 3});
  CandidateSet set(storage);
  set.KeepAtLeast(2.0);
  ASSERT_EQ(set.size(), 2);
  EXPECT_EQ(set.items()[0].id, 1);
}

// What a call throws, and the error names the call.
template <typename Call>
std::string Thrown(Call&& call) {
  try {
    call();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(CandidateSet, ThrowsAtAWrongCall) {
  CandidateStorage rows(100);
  const std::vector<float> row(100, 1.0F);
  std::vector<Candidate> list = Dense(row);
  const std::vector<uint64_t> short_mask = {1};
  for (const bool listed : {false, true}) {
    CandidateSet set = listed ? CandidateSet(list) : rows.Begin(row);
    std::vector<Candidate> small(99);
    EXPECT_THAT(Thrown([&] { set.CopyTo(small); }), HasSubstr("CopyTo: room for 99 of 100"));
    EXPECT_THAT(Thrown([&] { set.LogitOf(100); }), HasSubstr("LogitOf(100): must be in [0, 100)"));
    EXPECT_THAT(Thrown([&] { set.LogitOf(-1); }), HasSubstr("LogitOf(-1): must be in [0, 100)"));
    EXPECT_THAT(Thrown([&] { set.KeepTop(0); }), HasSubstr("KeepTop(0): must be at least 1"));
    EXPECT_THAT(Thrown([&] { set.KeepMass(1.0); }), HasSubstr("KeepMass(1): must be in (0, 1)"));
    EXPECT_THAT(Thrown([&] { set.KeepAtLeast(kNan); }), HasSubstr("KeepAtLeast(nan)"));
    EXPECT_THAT(Thrown([&] { set.Mask(short_mask); }), HasSubstr("Mask: 1 words"));
    EXPECT_THAT(Thrown([&] {
                  set.KeepIds(std::vector<int32_t>{3, 3});
                }),
                HasSubstr("id 3 at place 1, must be at least 4"));
    EXPECT_THAT(Thrown([&] { set.KeepIds(std::vector<int32_t>{-2}); }), HasSubstr("id -2"));
    for (const int64_t n : {int64_t{-1}, int64_t{101}}) {
      EXPECT_THAT(Thrown([&] { set.KeepFirst(n); }), HasSubstr("must be in [0, 100]"));
      EXPECT_THAT(Thrown([&] { set.KeepFrom(n); }), HasSubstr("must be in [0, 100]"));
    }
    EXPECT_EQ(set.size(), 100);
    set.LogitOf(7) = kNan;
    EXPECT_THAT(Thrown([&] { set.KeepMass(0.5); }), HasSubstr("token 7 is nan"));
    set.KeepTop(5);
    EXPECT_THAT(Thrown([&] { set.LogitOf(3); }), HasSubstr("LogitOf(3): the set is not dense"));
  }
  EXPECT_THAT(Thrown([&] { rows.Begin(std::span(row).first(7)); }), HasSubstr("7 logits"));
  EXPECT_THAT(Thrown([&] { CandidateStorage(0); }), HasSubstr("the vocabulary is empty"));
}

TEST(CandidateSet, KeepAtLeastKeepsTheOrder) {
  std::vector<Candidate> storage = Dense({1, 5, -kInf, 2, 5});
  CandidateSet set(storage);
  set.KeepAtLeast(-kInf);
  EXPECT_TRUE(set.dense());
  EXPECT_EQ(set.size(), 5);
  set.KeepAtLeast(2.0);
  EXPECT_FALSE(set.dense());
  EXPECT_EQ(Items(set), (std::vector<Candidate>{{1, 5.0F}, {3, 2.0F}, {4, 5.0F}}));
}

TEST(CandidateSet, MaxLogitIsTheLargest) {
  std::vector<Candidate> storage = Dense({-3, -kInf, -1.5F, -2});
  EXPECT_EQ(*CandidateSet(storage).MaxLogit(), -1.5F);
}

TEST(CandidateSet, MaxLogitNamesWhatCannotBeDrawn) {
  const auto error = [](const std::vector<float>& logits) {
    std::vector<Candidate> storage = Dense(logits);
    const absl::Status status = CandidateSet(storage).MaxLogit().status();
    EXPECT_EQ(ExitCode(status), 6);
    return std::string(status.message());
  };
  EXPECT_THAT(error({1, 2, kNan}), HasSubstr("the logit of token 2 is nan"));
  EXPECT_THAT(error({-kNan}), HasSubstr("the logit of token 0 is nan"));
  EXPECT_THAT(error({1, kInf, 2}), HasSubstr("the logit of token 1 is inf"));
  EXPECT_THAT(error({-kInf, -kInf}), HasSubstr("all 2 candidates have logit -inf"));
}

}  // namespace
}  // namespace ng
