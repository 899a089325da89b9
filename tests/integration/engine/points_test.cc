// Points of a step: whoever looks at them changes no bit, sees the same rows however the ids are
// split into steps, and sees numbers that belong together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ng/engine.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

// How a model is run.
struct PointsRun {
  std::vector<std::string> overrides = {};
  std::vector<PointAt> points = {};
  int n_requests = 1;
};

class Points : public ::testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<Engine> Open(const std::vector<std::string>& overrides) {
    EngineOptions options;
    options.overrides = {"model.path=" NG_TEST_DATA "/golden/" + GetParam(),
                         "model.weights=f32",
                         "run.stop_ids=",
                         "sampler.chain=greedy",
                         "cache.codec=f32",
                         "run.threads=1"};
    options.overrides.insert(options.overrides.end(), overrides.begin(), overrides.end());
    auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  // The first of the requests.
  static Completion Run(const PointsRun& run) {
    const std::unique_ptr<Engine> engine = Open(run.overrides);
    std::vector<GenerateRequest> requests;
    for (int i = 0; i < run.n_requests; ++i) {
      requests.push_back({{3, 1, 4, 1, 5 + i, 9, 2, 6, 5, 3, 5}, 4, {}});
    }
    RunNeeds needs = Needs(requests);
    needs.prompt_logits = true;
    const absl::Status loaded = engine->Load(needs);
    EXPECT_TRUE(loaded.ok()) << loaded;
    GenerateOptions options;
    options.capture_logits = options.capture_decode_logits = true;
    options.capture_points = run.points;
    auto done = engine->Generate(requests, options);
    EXPECT_TRUE(done.ok()) << done.status();
    return std::move(done->front());
  }

  static std::vector<PointAt> All() {
    std::vector<PointAt> all;
    const std::unique_ptr<Engine> engine = Open({});
    for (const PointShape& point : engine->points()) all.push_back(point.at);
    return all;
  }
};

std::string Name(const ::testing::TestParamInfo<std::string>& info) {
  return absl::StrReplaceAll(info.param, {{"/", "_"}});
}

constexpr int64_t kFed = 11 + 3;  // the last token of all is not fed

TEST_P(Points, ShowRowsAndChangeNothing) {
  const std::vector<PointShape> shapes = Open({})->points();
  for (const char* weights : {"f32", "int8"}) {
    const std::string held = absl::StrCat("model.weights=", weights);
    const Completion plain = Run({.overrides = {held}});
    const Completion seen = Run({.overrides = {held}, .points = All()});
    EXPECT_EQ(seen.ids, plain.ids);
    EXPECT_EQ(seen.captured.logits, plain.captured.logits);
    EXPECT_EQ(seen.captured.decode_logits, plain.captured.decode_logits);
    ASSERT_EQ(seen.captured.points.size(), shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      const CapturedPoint& point = seen.captured.points[i];
      EXPECT_EQ(point.at, shapes[i].at);
      EXPECT_EQ(point.n_values, shapes[i].values()) << PointText(point.at);
      EXPECT_EQ(std::ssize(point.rows), kFed * point.n_values) << PointText(point.at);
      EXPECT_TRUE(std::ranges::all_of(point.rows, [](float x) { return std::isfinite(x); }))
          << PointText(point.at);
    }
    const std::vector<float>& logits = seen.captured.points.back().rows;
    EXPECT_TRUE(std::ranges::equal(plain.captured.logits,
                                   std::span(logits).first(plain.captured.logits.size())));
  }
}

TEST_P(Points, AreTheSameHoweverIdsAreFed) {
  const Completion whole = Run({.points = All()});
  const PointsRun ways[] = {{{"run.prefill_chunk=3"}, All()},
                            {{"run.threads=2", "cache.name=paged"}, All()},
                            {{"run.use_cache=false"}, All()},
                            {{}, All(), 3}};
  for (const PointsRun& way : ways) {
    const Completion found = Run(way);
    for (size_t i = 0; i < whole.captured.points.size(); ++i) {
      const CapturedPoint& point = whole.captured.points[i];
      EXPECT_EQ(found.captured.points[i].rows, point.rows)
          << PointText(point.at) << " with " << (way.overrides.empty() ? "" : way.overrides[0]);
    }
  }
}

// What a kernel does in one go when nobody looks, it does in two where one of them is looked at.
TEST_P(Points, ShowTheSameOneByOne) {
  const std::vector<PointAt> all = All();
  const Completion together = Run({.points = all});
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].layer > 1) continue;  // a layer of each kind is enough
    const Completion alone = Run({.points = {all[i]}});
    EXPECT_EQ(alone.captured.points[0].rows, together.captured.points[i].rows) << PointText(all[i]);
    EXPECT_EQ(alone.captured.logits, together.captured.logits) << PointText(all[i]);
  }
}

// The final norm and the head of the last layer's rows are the logits, for weights that are read as
// floats and for those whose inputs are rounded.
TEST_P(Points, GiveTheLogitsBehindTheHead) {
  for (const char* weights : {"f32", "int8"}) {
    const std::unique_ptr<Engine> engine = Open({absl::StrCat("model.weights=", weights)});
    const std::vector<GenerateRequest> requests = {{{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}, 2, {}}};
    ASSERT_TRUE(engine->Load(Needs(requests)).ok());
    const PointAt last = {Point::kOut, engine->model_shape().n_layers - 1};
    GenerateOptions options;
    options.capture_points = {last, {Point::kLogits, -1}};
    auto done = engine->Generate(requests, options);
    ASSERT_TRUE(done.ok()) << done.status();
    CapturedPoint& hidden = done->front().captured.points[0];
    const std::vector<float>& expected = done->front().captured.points[1].rows;
    const int64_t n_rows = std::ssize(hidden.rows) / hidden.n_values;
    const TensorView<const float, 2> rows(hidden.rows.data(), {n_rows, hidden.n_values});
    std::vector<float> logits(expected.size());
    const absl::Status computed = engine->HeadLogits(rows, logits);
    ASSERT_TRUE(computed.ok()) << computed;
    EXPECT_EQ(logits, expected) << weights;
    EXPECT_EQ(ExitCode(engine->HeadLogits(rows, std::span(logits).first(3))), 2);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Points,
                         ::testing::Values("llama/tied_gqa", "qwen3/tiny", "gpt2/tiny", "niels/b1",
                                           "postln/basic", "gemma4/inputs", "gemma4/experts",
                                           "qwen3_moe/tiny", "gpt_oss/tiny", "deepseek_v3/tiny",
                                           "qwen3_5/tiny", "granite_hybrid/tiny", "lfm2/tiny",
                                           "falcon/grouped", "phi3/tiny", "cohere/tiny"),
                         Name);

class PointsOfAStream : public Points {};

// Every block adds to the stream what its point says, and nothing else does.
TEST_P(PointsOfAStream, AddUp) {
  const Completion run = Run({.points = All()});
  std::vector<float> stream;
  for (const CapturedPoint& point : run.captured.points) {
    if (point.at.point == Point::kEmbed) stream = point.rows;
    if (point.at.point == Point::kAttnOut || point.at.point == Point::kMlpOut) {
      std::ranges::transform(stream, point.rows, stream.begin(), std::plus<>());
    }
    if (point.at.point == Point::kAttnResid || point.at.point == Point::kOut) {
      EXPECT_EQ(stream, point.rows) << PointText(point.at);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PointsOfAStream,
                         ::testing::Values("llama/tied_gqa", "qwen3/tiny", "gpt2/tiny",
                                           "qwen3_moe/tiny", "qwen3_5/tiny", "falcon/grouped",
                                           "gemma2/tiny", "granite/tiny"),
                         Name);

class PointErrors : public Points {};

TEST_P(PointErrors, NameWhatThereIsNot) {
  const auto engine = Open({});
  const std::vector<GenerateRequest> requests = {{{1, 2}, 2, {}}};
  ASSERT_TRUE(engine->Load(Needs(requests)).ok());
  GenerateOptions options;
  options.capture_points = {{Point::kRouter, 0}};
  EXPECT_THAT(engine->Generate(requests, options).status().message(),
              HasSubstr("layer0.router is no point of this model"));
  EXPECT_THAT(ChoosePoints(engine->points(), "layer99.ot").status().message(),
              HasSubstr("'layer99.ot' is no point of this model"));
  EXPECT_THAT(ChoosePoints(engine->points(), "layer0.qq").status().message(),
              HasSubstr("the nearest is layer0.q"));
}

INSTANTIATE_TEST_SUITE_P(All, PointErrors, ::testing::Values("llama/tied_gqa"), Name);

TEST(ChoosePoints, TakesPatterns) {
  const std::vector<PointShape> points = {{{Point::kEmbed, -1}, 0, 8},
                                          {{Point::kQ, 0}, 2, 4},
                                          {{Point::kOut, 0}, 0, 8},
                                          {{Point::kOut, 10}, 0, 8},
                                          {{Point::kNorm, -1}, 0, 8}};
  const auto names = [&](const char* pattern) {
    std::vector<std::string> found;
    const auto chosen = ChoosePoints(points, pattern);
    if (!chosen.ok()) return found;
    for (const PointShape& point : *chosen) found.push_back(PointText(point.at));
    return found;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("embed"), Names({"embed"}));
  EXPECT_EQ(names("layer*.out"), Names({"layer0.out", "layer10.out"}));
  EXPECT_EQ(names("layer1*"), Names({"layer10.out"}));
  EXPECT_EQ(names("*or*"), Names({"norm"}));
  EXPECT_EQ(names("*").size(), points.size());
  EXPECT_EQ(names(""), Names());
  EXPECT_EQ(names("layer"), Names());
}

}  // namespace
}  // namespace ng
