// What the probes do to rows, without an engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <utility>
#include <vector>

#include "plugins/probe/ablate/ablate.h"
#include "plugins/probe/capture/capture.h"
#include "plugins/probe/logit_lens/logit_lens.h"
#include "plugins/probe/patch/patch.h"
#include "plugins/probe/steer/steer.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::ElementsAre;

using Texts = std::vector<std::string_view>;

const std::vector<PointShape> kPoints = {{{Point::kEmbed, -1}, 0, 4},
                                         {{Point::kQ, 0}, 2, 2},
                                         {{Point::kOut, 0}, 0, 4},
                                         {{Point::kOut, 1}, 0, 4}};

ProbeModel Model() { return {.points = kPoints}; }

// Rows of one request at positions 0, 1, ...: row p is [10 p, 10 p + 1, ...].
struct Rows {
  explicit Rows(const PointShape& point, int64_t n_rows = 4) : shape(point) {
    for (int64_t pos = 0; pos < n_rows; ++pos) {
      tokens.push_back({.sequence = 3, .pos = pos, .token = 7, .request = 0});
      for (int64_t i = 0; i < shape.values(); ++i) {
        data.push_back(static_cast<float>(10 * pos + i));
      }
    }
  }
  PointRows rows() {
    return {.at = shape.at,
            .data = data.data(),
            .stride = shape.values(),
            .n_heads = std::max<int64_t>(1, shape.n_heads),
            .width = shape.width,
            .tokens = tokens};
  }
  PointShape shape;
  std::vector<TokenRow> tokens;
  std::vector<float> data;
};

// The first value of each row behind a probe that begins with a prompt of two tokens.
std::vector<float> Behind(Probe& probe, const PointShape& point) {
  const std::vector<int32_t> prompt = {7, 7};
  EXPECT_TRUE(probe.Begin({.index = 0, .prompt_ids = prompt}).ok());
  Rows rows(point);
  EXPECT_TRUE(probe.OnPoint(rows.rows()).ok());
  return rows.data;
}

bool Has(const Texts& items, int64_t pos) {
  const auto positions = Positions::Parse(items, "key");
  EXPECT_TRUE(positions.ok()) << positions.status();
  return positions->Has(pos, /*prompt_len=*/10);
}

TEST(Positions, CountFromTheBeginningOrThePromptsEnd) {
  for (const auto& [items, has, has_not] :
       {std::tuple(Texts{"all"}, std::vector{0, 9, 10, 99}, std::vector<int>{}),
        std::tuple(Texts{"prompt"}, std::vector{0, 9}, std::vector{10}),
        std::tuple(Texts{"answer"}, std::vector{10, 99}, std::vector{9}),
        std::tuple(Texts{"3", "5..6"}, std::vector{3, 5, 6}, std::vector{0, 4, 7}),
        std::tuple(Texts{"-1"}, std::vector{9}, std::vector{8, 10}),
        std::tuple(Texts{"-3..-2"}, std::vector{7, 8}, std::vector{6, 9}),
        std::tuple(Texts{"2..-8"}, std::vector{2}, std::vector{1, 3})}) {
    for (const int pos : has) EXPECT_TRUE(Has(items, pos)) << items[0] << " at " << pos;
    for (const int pos : has_not) EXPECT_FALSE(Has(items, pos)) << items[0] << " at " << pos;
  }
  for (const char* bad : {"", "x", "1..", "..2", "3..2", "-1..-2", "1.5", "1..2..3"}) {
    EXPECT_EQ(ExitCode(Positions::Parse(Texts{bad}, "key").status()), 2) << bad;
  }
  EXPECT_EQ(ExitCode(Positions::Parse({}, "key").status()), 2);
}

TEST(Steer, AddsTheVectorAtItsPositions) {
  const test::TempDir dir;
  ASSERT_TRUE(WriteSafetensors(dir.File("v"), {{"v", {4}, {1, 2, 3, 4}}}).ok());
  const Texts points = {"layer1.out"};
  const Texts positions = {"answer"};
  const std::string file = dir.File("v");
  auto steer = Steer::Create(
      {.points = points, .file = file, .coefficient = 2.0, .positions = positions}, Model());
  ASSERT_TRUE(steer.ok()) << steer.status();
  EXPECT_THAT(Behind(**steer, kPoints[3]),
              ElementsAre(0, 1, 2, 3, 10, 11, 12, 13, 22, 25, 28, 31, 32, 35, 38, 41));
  EXPECT_EQ((*steer)->Report(), "edited 2 rows at 1 point");
}

TEST(Ablate, SetsHeadsToZeroAndElementsToMeans) {
  const test::TempDir dir;
  const Texts points = {"layer0.q"};
  const Texts all = {"all"};
  const int64_t head = 1;
  auto heads = Ablate::Create({.points = points, .heads = {&head, 1}, .positions = all}, Model());
  ASSERT_TRUE(heads.ok()) << heads.status();
  EXPECT_THAT(Behind(**heads, kPoints[1]),
              ElementsAre(0, 1, 0, 0, 10, 11, 0, 0, 20, 21, 0, 0, 30, 31, 0, 0));
  ASSERT_TRUE(WriteSafetensors(dir.File("m"), {{"layer0.q", {2, 2}, {5, 6, 7, 8}}}).ok());
  const std::string means = dir.File("m");
  auto elements = Ablate::Create(
      {.points = points, .elements = {&head, 1}, .means = means, .positions = all}, Model());
  ASSERT_TRUE(elements.ok()) << elements.status();
  EXPECT_THAT(Behind(**elements, kPoints[1]),
              ElementsAre(0, 6, 2, 3, 10, 6, 12, 13, 20, 6, 22, 23, 30, 6, 32, 33));
}

TEST(Patch, TakesRowsByPositionAndLeavesWhatTheFileHasNot) {
  const test::TempDir dir;
  ASSERT_TRUE(
      WriteSafetensors(dir.File("p"), {{"embed.1", {2, 4}, {-1, -2, -3, -4, -5, -6, -7, -8}}})
          .ok());
  const Texts points = {"embed"};
  const Texts all = {"all"};
  const std::string file = dir.File("p");
  auto patch = Patch::Create(
      {.points = points, .file = file, .request = 1, .shift = -1, .positions = all}, Model());
  ASSERT_TRUE(patch.ok()) << patch.status();
  EXPECT_THAT(Behind(**patch, kPoints[0]),
              ElementsAre(0, 1, 2, 3, -1, -2, -3, -4, -5, -6, -7, -8, 30, 31, 32, 33));
  EXPECT_EQ((*patch)->Report(), "edited 2 rows at 1 point");
}

TEST(Capture, KeepsEachPositionOnce) {
  const test::TempDir dir;
  const Texts points = {"layer*.out"};
  const std::string file = dir.File("c");
  auto capture = Capture::Create({.points = points, .file = file}, {}, Model());
  ASSERT_TRUE(capture.ok()) << capture.status();
  const std::vector<int32_t> prompt = {7, 7};
  ASSERT_TRUE((*capture)->Begin({.index = 0, .prompt_ids = prompt}).ok());
  for (const int64_t n_rows : {2, 4}) {  // all are fed again
    for (size_t point : {2, 3}) {
      Rows rows(kPoints[point], n_rows);
      ASSERT_TRUE((*capture)->OnPoint(rows.rows()).ok());
    }
  }
  Rows interrupted(kPoints[2], 5);  // the step never reached the next point
  ASSERT_TRUE((*capture)->OnPoint(interrupted.rows()).ok());
  ASSERT_TRUE((*capture)->EndRun({.failed = false, .config = {}, .identity = {}}).ok());
  auto read = SafetensorsReader::Open(file);
  for (const char* name : {"layer0.out.0", "layer1.out.0"}) {
    const NamedTensor tensor = *read->Read(name);
    EXPECT_THAT(tensor.shape, ElementsAre(4, 4));
    EXPECT_THAT(tensor.data,
                ElementsAre(0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33));
  }
  // What belongs to no whole run is not written.
  ASSERT_TRUE(WriteSafetensors(file, {}).ok());
  ASSERT_TRUE((*capture)->EndRun({.failed = true, .config = {}, .identity = {}}).ok());
  EXPECT_TRUE(SafetensorsReader::Open(file)->tensors().empty());
}

}  // namespace
}  // namespace ng
