// A program that looks at the points of a run and says its tokens: what two engines need to run
// side by side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ng/engine.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr PointAt kOut0 = {Point::kOut, 0};
constexpr PointAt kLogits = {Point::kLogits, -1};

std::unique_ptr<Engine> Loaded(const std::vector<GenerateRequest>& requests,
                               const std::vector<std::string>& overrides = {}) {
  EngineOptions options;
  options.overrides = {"model.path=" NG_TEST_DATA "/golden/qwen3/tiny",
                       "run.stop_ids=", "sampler.chain=greedy", "run.threads=1"};
  options.overrides.insert(options.overrides.end(), overrides.begin(), overrides.end());
  auto engine = Engine::Open(options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  RunNeeds needs = Needs(requests);
  needs.prompt_logits = true;
  const absl::Status loaded = (*engine)->Load(needs);
  EXPECT_TRUE(loaded.ok()) << loaded;
  return *std::move(engine);
}

TEST(LookAt, ShowsTheRowsThatAreKeptToo) {
  const std::vector<GenerateRequest> requests = {{{3, 1, 4, 1, 5}, 3, {}}, {{9, 2, 6}, 2, {}}};
  const std::unique_ptr<Engine> engine = Loaded(requests, {"run.prefill_chunk=2"});
  GenerateOptions options;
  options.look_at = options.capture_points = {kOut0, kLogits};
  std::map<std::pair<int, Point>, std::vector<float>> seen;
  options.on_point = [&](const PointRows& rows) {
    for (int64_t i = 0; i < rows.n_rows(); ++i) {
      std::vector<float>& to = seen[{rows.tokens[static_cast<size_t>(i)].request, rows.at.point}];
      to.insert(to.end(), rows.Row(i), rows.Row(i) + rows.values());
    }
    return absl::OkStatus();
  };
  const auto done = engine->Generate(requests, options);
  ASSERT_TRUE(done.ok()) << done.status();
  for (int index = 0; index < 2; ++index) {
    for (const CapturedPoint& kept : (*done)[static_cast<size_t>(index)].captured.points) {
      EXPECT_EQ((seen[{index, kept.at.point}]), kept.rows) << PointText(kept.at);
    }
  }
}

TEST(LookAt, FeedsAPromptThatGeneratesNothing) {
  const std::vector<GenerateRequest> requests = {{{3, 1, 4}, 0, {}}};
  const std::unique_ptr<Engine> engine = Loaded(requests);
  GenerateOptions options;
  options.look_at = {kLogits};
  int64_t n_rows = 0;
  options.on_point = [&](const PointRows& rows) {
    n_rows += rows.n_rows();
    return absl::OkStatus();
  };
  const auto done = engine->Generate(requests, options);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(n_rows, 3);
}

TEST(LookAt, AnErrorOfTheProgramEndsTheRun) {
  const std::vector<GenerateRequest> requests = {{{3, 1, 4}, 2, {}}};
  const std::unique_ptr<Engine> engine = Loaded(requests);
  GenerateOptions options;
  options.look_at = {kOut0};
  options.on_point = [](const PointRows&) { return LimitError("enough"); };
  EXPECT_EQ(engine->Generate(requests, options).status(), LimitError("enough"));
  options.look_at = {{Point::kRouter, 0}};
  EXPECT_THAT(std::string(engine->Generate(requests, options).status().message()),
              HasSubstr("layer0.router is no point of this model"));
}

TEST(NextToken, TakesTheTokensThatAreGiven) {
  const std::vector<GenerateRequest> requests = {{{3, 1, 4}, 5, {}}};
  const std::unique_ptr<Engine> engine = Loaded(requests);
  const std::vector<int32_t> given = {7, 8, 9};
  GenerateOptions options;
  options.next_token = [&](int index, int64_t step) -> absl::StatusOr<GivenToken> {
    EXPECT_EQ(index, 0);
    return GivenToken{given[static_cast<size_t>(step)], step == 2};
  };
  const auto done = engine->Generate(requests, options);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_THAT(done->front().ids, ElementsAre(3, 1, 4, 7, 8, 9));
  options.next_token = [](int, int64_t) -> absl::StatusOr<GivenToken> {
    return GivenToken{1 << 30, false};
  };
  EXPECT_EQ(ExitCode(engine->Generate(requests, options).status()), 2);
}

}  // namespace
}  // namespace ng
