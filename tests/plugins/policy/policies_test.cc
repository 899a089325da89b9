// Which tokens the shipped policies keep, held against plain definitions in Python
// (tests/data/policy/make_cases.py), and what is theirs alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/conform/policy.h"
#include "plugins/cache/budget/keep.h"
#include "plugins/policy/expected_attention/expected_attention.h"
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
  Head(int64_t n, int64_t head_dim, int64_t value_dim, int64_t salt_in)
      : salt(salt_in), keys(Rows(n, head_dim, salt)), values(Rows(n, value_dim, salt + 100)) {
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

  // Queries of two heads, of the tokens from `first` on, and a rotation of base 100.
  void AddQueries(int64_t first, bool interleaved) {
    const int64_t n = tokens.n_tokens();
    const int64_t width = tokens.keys.extent[1];
    for (int64_t head = 0; head < 2; ++head) {
      const std::vector<float> rows = Rows(n, width, salt + 300 + head);
      const auto at = [&](int64_t row, int64_t d) {
        return 4.0 * double{rows[static_cast<size_t>(row * width + d)]};
      };
      const auto share = 1.0 / static_cast<double>(n - first);
      const size_t begin = mean.size();
      for (int64_t d = 0; d < width; ++d) {
        double sum = 0.0;
        for (int64_t row = first; row < n; ++row) sum += at(row, d);
        mean.push_back(sum * share);
      }
      for (int64_t i = 0; i < width * width; ++i) {
        double sum = 0.0;
        for (int64_t row = first; row < n; ++row) {
          sum += (at(row, i / width) - mean[begin + static_cast<size_t>(i / width)]) *
                 (at(row, i % width) - mean[begin + static_cast<size_t>(i % width)]);
        }
        covariance.push_back(sum * share);
      }
    }
    for (int64_t pair = 0; pair < width / 2; ++pair) {
      angles.push_back(
          std::pow(100.0, -static_cast<double>(pair) / static_cast<double>(width / 2)));
    }
    tokens.queries = {.n_queries = n - first,
                      .mean = {mean.data(), {2, width}},
                      .covariance = {covariance.data(), {2, width, width}},
                      .scale = 1.0 / std::sqrt(static_cast<double>(width))};
    tokens.rotation = {.angles = angles, .interleaved = interleaved};
  }

  int64_t salt = 0;
  std::vector<double> mean;
  std::vector<double> covariance;
  std::vector<double> angles;
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

OptionValue BoolValue(const char* name, bool yes) {
  OptionValue value;
  value.name = name;
  value.type = OptionType::kBool;
  value.boolean = yes;
  return value;
}

OptionValue RealValue(const char* name, double number) {
  OptionValue value;
  value.name = name;
  value.type = OptionType::kReal;
  value.real = number;
  return value;
}

OptionValue TextValue(const char* name, const char* text) {
  OptionValue value;
  value.name = name;
  value.type = OptionType::kText;
  value.text = text;
  return value;
}

std::unique_ptr<Policy> Make(const std::string& name, std::vector<OptionValue> options,
                             IsaLevel isa = IsaLevel::kScalar) {
  PluginContext context;
  context.isa = isa;
  context.options = OptionValues(options);
  if (name == "observed" || name == "observed_mean") {
    options = {TextValue("by", name == "observed" ? "sum" : "mean")};
    context.options = OptionValues(options);
    return std::make_unique<ObservedPolicy>(context);
  }
  if (name.starts_with("expected_attention")) {
    options = {IntValue("future", 20), IntValue("sinks", 4), BoolValue("covariance", true),
               BoolValue("value_norm", true), RealValue("epsilon", 0.001)};
    context.options = OptionValues(options);
    return std::make_unique<ExpectedAttentionPolicy>(context);
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
    Head head(c["n"], c["head_dim"], c["value_dim"], c["salt"]);
    if (name.starts_with("expected_attention")) head.AddQueries(4, name.ends_with("interleaved"));
    const std::vector<float> scores = ScoresOf(*Make(name, options), head.tokens);
    for (const auto& [n_kept, kept] : c["kept"].items()) {
      EXPECT_EQ(Kept(scores, std::stoul(n_kept)), kept.get<std::vector<int32_t>>())
          << name << ", " << n_kept << " of " << c["n"];
      ++n_compared;
    }
  }
  EXPECT_EQ(n_compared, 132);
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
                           "observed_mean", "tova", "snapkv", "snapkv_max", "expected_attention"}) {
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

TEST(Policies, ExpectedAttentionKeepsTheSinksWhoseQueriesDoNotCount) {
  const auto policy = Make("expected_attention", {});
  EXPECT_EQ(policy->first_query(), 4);
  Head head(40, 6, 5, 9);
  head.AddQueries(4, false);
  const std::vector<float> scores = ScoresOf(*policy, head.tokens);
  EXPECT_EQ(Kept(scores, 4), (std::vector<int32_t>{0, 1, 2, 3}));
  // Nothing turns where the model has no rotation, and no query has come.
  head.tokens.rotation = {};
  EXPECT_NE(ScoresOf(*policy, head.tokens), scores);
  std::ranges::fill(head.mean, 0.0);
  std::ranges::fill(head.covariance, 0.0);
  const std::vector<float> even = ScoresOf(*policy, head.tokens);
  double square = 0.0;
  for (int64_t d = 0; d < 5; ++d) square += head.values[35 + d] * head.values[35 + d];
  EXPECT_NEAR(even[7], (1.0 / 36 + 0.001) * std::sqrt(square), 1e-6);
}

TEST(Policies, ExpectedAttentionHasTheSameBitsOnEveryLevel) {
  for (const int64_t width : {6, 16, 40}) {
    Head head(101, width, 7, 9);
    head.AddQueries(4, false);
    const std::vector<float> wanted = ScoresOf(*Make("expected_attention", {}), head.tokens);
    for (const IsaLevel isa : SupportedIsaLevels()) {
      EXPECT_EQ(ScoresOf(*Make("expected_attention", {}, isa), head.tokens), wanted);
    }
  }
}

TEST(Policies, ExpectedAttentionSaysThatQueriesAreNotFinite) {
  const auto policy = Make("expected_attention", {});
  Head head(40, 6, 5, 9);
  head.AddQueries(4, false);
  head.covariance[0] = std::numeric_limits<double>::infinity();
  std::vector<float> scores(40);
  const absl::Status status = policy->Score(head.tokens, scores);
  EXPECT_EQ(ExitCode(status), 6);
  EXPECT_THAT(std::string(status.message()), HasSubstr("queries, keys or values are not finite"));
}

// The mean of rotations is that of rotations one by one, whatever the pairs.
TEST(MeanRotation, IsTheMeanOfRotations) {
  const std::vector<double> angles = {1.0, 0.1, 0.0, -0.003, 2 * std::numbers::pi + 0.2};
  for (const bool interleaved : {false, true}) {
    const Rotation rotation{.angles = angles, .interleaved = interleaved, .magnitude = 1.5};
    std::vector<double> mean(11, 0.0);
    for (int64_t position = 7; position < 107; ++position) {
      std::vector<double> one = {1, -2, 3, 0.5, 2, -1, 4, 1, 1, -3, 9};
      MeanRotation(rotation, position, 1).Turn(one.data());
      for (size_t d = 0; d < mean.size(); ++d) mean[d] += one[d] / 100;
    }
    std::vector<double> found = {1, -2, 3, 0.5, 2, -1, 4, 1, 1, -3, 9};
    MeanRotation(rotation, 7, 100).Turn(found.data());
    for (size_t d = 0; d < mean.size(); ++d) EXPECT_NEAR(found[d], mean[d], 2e-6) << d;
    EXPECT_EQ(found[10], 9);  // in no pair
  }
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
