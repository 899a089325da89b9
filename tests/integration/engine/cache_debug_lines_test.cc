// The cache debug lines, and what a guide to debugging a cache checks in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

using ::testing::ElementsAre;

class CacheDebugLines : public ::testing::Test {
 protected:
  CacheDebugLines() {
    model_.max_positions = 128;
    model_.WriteTo(dir_.path());
  }

  std::vector<std::string> Lines(const std::vector<GenerateRequest>& requests, int layer,
                                 std::vector<std::string> overrides = {}) {
    EngineOptions options;
    options.overrides = {"model.path=" + dir_.path(), "sampler.chain=greedy"};
    options.overrides.insert(options.overrides.end(), overrides.begin(), overrides.end());
    const auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    EXPECT_TRUE((*engine)->Load(Needs(requests)).ok());
    std::vector<std::string> lines;
    GenerateOptions keep;
    keep.cache_debug_layer = layer;
    keep.on_cache_debug = [&](std::string_view line) { lines.emplace_back(line); };
    EXPECT_TRUE((*engine)->Generate(requests, keep).ok());
    return lines;
  }

  static std::vector<std::string> With(const std::vector<std::string>& lines,
                                       const std::string& part) {
    std::vector<std::string> found;
    for (const std::string& line : lines) {
      if (absl::StrContains(line, part)) found.push_back(line);
    }
    return found;
  }

  test::TinyNiels model_;
  test::TempDir dir_;
};

TEST_F(CacheDebugLines, ADecodeStepPrintsItsLines) {
  EXPECT_THAT(
      Lines({{{1, 2, 3, 4, 5}, 2, {}}}, 0),
      ElementsAre("[KVDBG][GPT] kv_cache=None b=1 t=5 pos=[0, 1, 2, 3, 4]",
                  "[KVDBG][Attn L0] init_cache T=5 max_ctx=128",
                  "[KVDBG][Attn L0] mask T_q=5 T_k=5",
                  "[KVDBG][GPT] kv_cache=present b=1 t=1 cache_pos=5 pos=[5]",
                  "[KVDBG][Attn L0] cache_pos=5 T=1 new_cache_pos=6 max_ctx=128",
                  "[KVDBG][Attn L0] using cache T_k=6", "[KVDBG][Attn L0] mask T_q=1 T_k=6"));
}

// Checks 1 and 2 of the guide.
TEST_F(CacheDebugLines, CachePositionIncrementsAndPositionsMatchIt) {
  const auto lines = With(Lines({{{1, 2, 3, 4, 5, 6}, 20, {}}}, 0), "kv_cache=present");
  ASSERT_EQ(lines.size(), 19U);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i], absl::StrCat("[KVDBG][GPT] kv_cache=present b=1 t=1 cache_pos=", 6 + i,
                                     " pos=[", 6 + i, "]"));
  }
}

// Checks 3 and 4 of the guide.
TEST_F(CacheDebugLines, CacheIsInitialisedOnceAndKeysGrowByOne) {
  const auto lines = Lines({{{1, 2, 3, 4, 5, 6}, 20, {}}}, 1);
  EXPECT_EQ(With(lines, "init_cache"),
            std::vector<std::string>{"[KVDBG][Attn L1] init_cache T=6 max_ctx=128"});
  const auto keys = With(lines, "mask T_q=");
  ASSERT_EQ(keys.size(), 20U);
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(absl::EndsWith(keys[i], absl::StrCat(" T_k=", 6 + i))) << keys[i];
  }
}

TEST_F(CacheDebugLines, WithoutCacheEveryStepBeginsAnew) {
  const auto lines = Lines({{{1, 2, 3}, 4, {}}}, 0, {"run.use_cache=false"});
  EXPECT_EQ(With(lines, "kv_cache=None").size(), 4U);
  EXPECT_TRUE(With(lines, "kv_cache=present").empty());
}

TEST_F(CacheDebugLines, ALayerIsChosenAndLongPromptsAreShortened) {
  std::vector<int32_t> prompt(17, 1);
  const auto lines = Lines({{prompt, 1, {}}}, 1);
  EXPECT_THAT(lines, ElementsAre("[KVDBG][GPT] kv_cache=None b=1 t=17 pos[0]=0 pos[-1]=16",
                                 "[KVDBG][Attn L1] init_cache T=17 max_ctx=128",
                                 "[KVDBG][Attn L1] mask T_q=17 T_k=17"));
}

TEST_F(CacheDebugLines, EqualSequencesMakeOneLineAndRaggedOnesTheirOwn) {
  const auto lines = With(Lines({{{1, 2}, 1, {}}, {{3, 4}, 1, {}}, {{5}, 1, {}}}, 0), "[GPT]");
  EXPECT_THAT(lines, ElementsAre("[KVDBG][GPT] kv_cache=None b=2 t=2 pos=[0, 1]",
                                 "[KVDBG][GPT] kv_cache=None b=1 t=1 pos=[0]"));
}

}  // namespace
}  // namespace ng
