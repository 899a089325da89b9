// Which tokens the shipped policies keep, held against plain definitions in Python
// (tests/data/policy/make_cases.py), and what is theirs alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/conform/policy.h"
#include "plugins/cache/budget/keep.h"
#include "plugins/policy/keydiff/keydiff.h"
#include "plugins/policy/knorm/knorm.h"
#include "plugins/policy/lagkv/lagkv.h"
#include "plugins/policy/observed/observed.h"
#include "plugins/policy/random/random.h"
#include "plugins/policy/snapkv/snapkv.h"
#include "plugins/policy/tova/tova.h"
#include "plugins/policy/window/window.h"

namespace ng {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// As make_cases.py has it.
float Number(int64_t row, int64_t dim, int64_t salt) {
  auto mixed = static_cast<uint32_t>((row * 7919 + dim * 104729 + salt * 31 + 1) * 2654435761);
  mixed ^= mixed >> 15;
  mixed *= 2246822519U;
  return static_cast<float>(mixed >> 8) / 0x1p24F - 0.5F;
}

// The tokens of a head, with rows of that formula.
struct Head {
  Head(int64_t n, int64_t head_dim, int64_t value_dim, int64_t salt)
      : keys(Rows(n, head_dim, salt)), values(Rows(n, value_dim, salt + 100)) {
    for (int64_t i = 0; i < n; ++i) {
      positions.push_back(static_cast<int32_t>(i));
      attended.push_back(Number(i, 0, salt + 200) + 0.5F);
    }
    tokens.length = n;
    tokens.n_kv_heads = 1;
    tokens.positions = positions;
    tokens.keys = {keys.data(), {n, head_dim}};
    tokens.values = {values.data(), {n, value_dim}};
    tokens.attended = attended;
  }
  static std::vector<float> Rows(int64_t n, int64_t width, int64_t salt) {
    std::vector<float> rows;
    for (int64_t i = 0; i < n * width; ++i) rows.push_back(Number(i / width, i % width, salt));
    return rows;
  }

  std::vector<int32_t> positions;
  std::vector<float> keys;
  std::vector<float> values;
  std::vector<float> attended;
  HeldTokens tokens;
};

OptionValue IntValue(const char* name, int64_t number) {
  OptionValue value;
  value.name = name;
  value.type = OptionType::kInt;
  value.integer = number;
  return value;
}

OptionValue TextValue(const char* name, const char* text) {
  OptionValue value;
  value.name = name;
  value.type = OptionType::kText;
  value.text = text;
  return value;
}

std::unique_ptr<Policy> Make(const std::string& name, std::vector<OptionValue> options) {
  PluginContext context;
  context.options = OptionValues(options);
  if (name == "observed" || name == "observed_mean") {
    options = {TextValue("by", name == "observed" ? "sum" : "mean")};
    context.options = OptionValues(options);
    return std::make_unique<ObservedPolicy>(context);
  }
  if (name == "tova") return std::make_unique<TovaPolicy>(context);
  if (name == "snapkv" || name == "snapkv_max") {
    return std::make_unique<SnapkvPolicy>(6, 5, name == "snapkv_max");
  }
  if (name == "window") return std::make_unique<WindowPolicy>(context);
  if (name == "random") return std::make_unique<RandomPolicy>(context);
  if (name == "knorm") return std::make_unique<KnormPolicy>(context);
  if (name == "keydiff") return std::make_unique<KeydiffPolicy>(context);
  return std::make_unique<LagkvPolicy>(context);
}

std::vector<float> ScoresOf(const Policy& policy, const HeldTokens& tokens) {
  std::vector<float> scores(tokens.positions.size());
  EXPECT_TRUE(policy.Score(tokens, scores).ok());
  return scores;
}

std::vector<int32_t> Kept(const std::vector<float>& scores, size_t n_kept, int64_t sinks = 0,
                          int64_t recent = 0) {
  std::vector<int32_t> order(scores.size());
  std::vector<int32_t> kept(n_kept);
  KeepBest(scores, sinks, recent, order, kept);
  return kept;
}

TEST(Policies, KeepWhatTheirDefinitionsKeep) {
  std::ifstream file(NG_SOURCE_DIR "/tests/data/policy/cases.json");
  const auto cases = nlohmann::json::parse(file);
  int n_compared = 0;
  for (const auto& c : cases["cases"]) {
    const std::string name = c["policy"];
    std::vector<OptionValue> options;
    if (name == "lagkv") {
      options = {IntValue("lag", cases["lag"]), IntValue("sinks", cases["sinks"])};
    }
    const Head head(c["n"], c["head_dim"], c["value_dim"], c["salt"]);
    const std::vector<float> scores = ScoresOf(*Make(name, options), head.tokens);
    for (const auto& [n_kept, kept] : c["kept"].items()) {
      EXPECT_EQ(Kept(scores, std::stoul(n_kept)), kept.get<std::vector<int32_t>>())
          << name << ", " << n_kept << " of " << c["n"];
      ++n_compared;
    }
  }
  EXPECT_EQ(n_compared, 108);
}

TEST(Policies, RandomGoesBySeedLayerHeadAndPositionAlone) {
  const auto policy = Make("random", {IntValue("seed", 3)});
  Head head(40, 1, 1, 1);
  const std::vector<float> first = ScoresOf(*policy, head.tokens);
  EXPECT_GT(std::set<float>(first.begin(), first.end()).size(), 38U);
  // Of fewer tokens each has the score that it had among more.
  HeldTokens few = head.tokens;
  few.positions = few.positions.subspan(7, 5);
  const std::vector<float> again = ScoresOf(*policy, few);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(again[i], first[i + 7]);
  HeldTokens other = head.tokens;
  other.layer = 1;
  EXPECT_NE(ScoresOf(*policy, other), first);
  other = head.tokens;
  other.kv_head = 1;
  EXPECT_NE(ScoresOf(*policy, other), first);
  EXPECT_NE(ScoresOf(*Make("random", {IntValue("seed", 4)}), head.tokens), first);
}

TEST(Policies, SayThatRowsAreNotFinite) {
  Head head(40, 4, 4, 1);
  head.keys[37] = std::numeric_limits<float>::infinity();
  const auto policy = Make("lagkv", {IntValue("lag", 8), IntValue("sinks", 0)});
  std::vector<float> scores(40);
  const absl::Status status = policy->Score(head.tokens, scores);
  EXPECT_EQ(ExitCode(status), 6);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not finite"));
}

TEST(Policies, Conform) {
  for (const char* name : {"window", "random", "knorm", "keydiff", "lagkv", "observed",
                           "observed_mean", "tova", "snapkv", "snapkv_max"}) {
    const conform::PolicySubject subject{
        .settings = {.quick = true},
        .make = [name](const PluginContext&) -> absl::StatusOr<std::unique_ptr<Policy>> {
          if (std::string(name) == "lagkv") {
            return Make(name, {IntValue("lag", 8), IntValue("sinks", 4)});
          }
          return Make(name, {IntValue("seed", 1)});
        }};
    EXPECT_THAT(conform::CheckPolicy(subject), IsEmpty()) << name;
  }
}

TEST(Policies, SayOfWhichQueriesTheyWantTheAttention) {
  EXPECT_EQ(Make("observed", {})->attended_queries(), 0);
  EXPECT_EQ(Make("tova", {})->attended_queries(), 1);
  EXPECT_EQ(Make("snapkv", {})->attended_queries(), 6);
  EXPECT_EQ(Make("keydiff", {})->attended_queries(), 0);
}

TEST(Policies, SnapkvTakesAnOddNumberOfNeighbours) {
  PluginContext context;
  const OptionValue values[] = {IntValue("queries", 8), IntValue("kernel", 4),
                                TextValue("pool", "mean")};
  context.options = OptionValues(values);
  const auto refused = CreateSnapkvPolicy(context);
  EXPECT_EQ(ExitCode(refused.status()), 2);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("policy.snapkv.kernel = 4, must be an odd number"));
}

TEST(KeepBest, KeepsSinksNewestAndTheBestBetween) {
  const std::vector<float> scores = {0, 9, 1, 8, 2, 7, 3, 6, 4, 5};
  EXPECT_EQ(Kept(scores, 4), (std::vector<int32_t>{1, 3, 5, 7}));
  EXPECT_EQ(Kept(scores, 4, 1, 1), (std::vector<int32_t>{0, 1, 3, 9}));
  EXPECT_EQ(Kept(scores, 4, 2, 2), (std::vector<int32_t>{0, 1, 8, 9}));
  EXPECT_EQ(Kept(scores, 10, 2, 2), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(KeepBest, KeepsTheLowerSlotOfEqualScores) {
  EXPECT_EQ(Kept({1, 1, 1, 1, 1}, 2), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(Kept({0, 1, 1, 0, 1}, 2), (std::vector<int32_t>{1, 2}));
}

}  // namespace
}  // namespace ng
