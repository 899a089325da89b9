#include "core/runtime/plan/plan_remedy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/runtime/assembly/assembly.h"

namespace ng {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kGb = 1'000'000'000;

std::unique_ptr<Assembly> Assemble7b(const std::vector<std::string>& overrides) {
  EngineOptions options;
  options.random_weights = NG_SOURCE_DIR "/tests/peers/shapes/7b.json";
  options.overrides = overrides;
  options.overrides.emplace_back("run.threads=2");
  absl::StatusOr<std::unique_ptr<Assembly>> assembly = Assemble(options);
  EXPECT_TRUE(assembly.ok()) << assembly.status();
  return *std::move(assembly);
}

PlanChoices ChoicesOf(const Assembly& assembly, const RunNeeds& needs) {
  PlanChoices choices;
  choices.cache = assembly.CacheSpecFor(needs);
  choices.weights = assembly.weight_types;
  return choices;
}

// With so many bytes available.
RunPlan PlanOf(const std::vector<std::string>& overrides, const RunNeeds& needs,
               int64_t available) {
  const std::unique_ptr<Assembly> assembly = Assemble7b(overrides);
  const PlanChoices choices = ChoicesOf(*assembly, needs);
  RunPlan plan = PlanWith(*assembly, needs, choices, available).value();
  if (!CheckMemory(plan).ok()) plan.remedy = FindRemedy(*assembly, needs, choices, plan);
  return plan;
}

// A remedy's settings, applied to the run.
void ExpectHelps(const std::string& settings, RunNeeds needs, int64_t available) {
  std::vector<std::string> overrides;
  for (const absl::string_view setting : absl::StrSplit(settings, ", ")) {
    absl::string_view tokens = setting;
    if (absl::ConsumePrefix(&tokens, "prompt and answer of at most ")) {
      needs.max_tokens = std::stoll(std::string(tokens));
      continue;
    }
    const std::vector<std::string> parts = absl::StrSplit(setting, " = ");
    ASSERT_EQ(parts.size(), 2U) << setting;
    overrides.push_back(absl::StrCat(parts[0], "=", parts[1]));
  }
  const RunPlan plan = PlanOf(overrides, needs, available);
  EXPECT_TRUE(CheckMemory(plan).ok()) << settings << ": " << CheckMemory(plan);
}

TEST(PlanRemedy, HelpsWhateverThereIs) {
  int n_tried = 0;
  for (const int max_sequences : {1, 16}) {
    RunNeeds needs;
    needs.max_tokens = 4000;
    needs.max_prompt = 3900;
    needs.max_sequences = max_sequences;
    for (const int64_t available : {4 * kGb, 5 * kGb, 8 * kGb, 15 * kGb, 20 * kGb, 70 * kGb}) {
      const std::string remedy = PlanOf({}, needs, available).remedy;
      absl::string_view text = remedy;
      if (absl::ConsumePrefix(&text, "it would fit with all of ")) {
        ExpectHelps(std::string(text), needs, available);
        ++n_tried;
      } else if (absl::ConsumePrefix(&text, "it would fit with ")) {
        for (const absl::string_view one : absl::StrSplit(text, ", or with ")) {
          ExpectHelps(std::string(one), needs, available);
          ++n_tried;
        }
      }
    }
  }
  EXPECT_GE(n_tried, 12);
}

TEST(PlanRemedy, NamesTheMildestOfEachKind) {
  RunNeeds needs;
  needs.max_tokens = needs.max_prompt = 512;
  const std::string remedy = PlanOf({}, needs, 5 * kGb).remedy;
  EXPECT_EQ(remedy, "it would fit with model.weights = int4");  // fewer tokens alone do not help
  EXPECT_THAT(PlanOf({"cache.max_tokens=8192"}, needs, 30 * kGb).remedy,
              HasSubstr("or with cache.max_tokens = "));
}

TEST(PlanRemedy, SaysWhereThereIsNone) {
  RunNeeds needs;
  needs.max_tokens = 512;
  needs.max_sequences = 3;
  const std::string remedy = PlanOf({}, needs, 3 * kGb).remedy;
  EXPECT_THAT(remedy, StartsWith("nothing makes it fit: even with "));
  EXPECT_THAT(remedy, HasSubstr("model.weights = int4, cache.max_sequences = 1, "));
  EXPECT_THAT(remedy, HasSubstr(" it needs "));
  EXPECT_THAT(remedy, Not(HasSubstr("bf16")));
}

}  // namespace
}  // namespace ng
