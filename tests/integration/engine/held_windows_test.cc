// Layers with a sliding window may hold no more than the window: the same bits in less memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "ng/engine.h"
#include "tests/integration/engine/last_logits.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kTokens = 64;  // the models' context; their windows are 6 tokens
constexpr int64_t kStep = 8;

// The model, the cache store and its codec.
using HeldCase = std::tuple<std::string, std::string, std::string>;

class HeldWindows : public ::testing::TestWithParam<HeldCase> {
 protected:
  enum class Hold { kWindows, kAll };

  std::unique_ptr<Engine> Open(Hold hold, const std::vector<std::string>& more = {}) {
    const auto& [model, cache, codec] = GetParam();
    EngineOptions options;
    options.overrides = {"model.path=" NG_TEST_DATA "/golden/" + model,
                         "cache.name=" + cache,
                         "cache.codec=" + codec,
                         "run.stop_ids=",
                         "sampler.chain=greedy",
                         "run.check_plugins=true",
                         "run.prefill_chunk=" + std::to_string(kStep)};
    if (cache == "paged") options.overrides.emplace_back("cache.paged.page_tokens=16");
    options.overrides.insert(options.overrides.end(), more.begin(), more.end());
    auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    const absl::Status loaded = (*engine)->Load(NeedsOf(hold));
    EXPECT_TRUE(loaded.ok()) << loaded;
    return *std::move(engine);
  }

  // Snapshots have all tokens.
  static RunNeeds NeedsOf(Hold hold) {
    RunNeeds needs = {.max_tokens = kTokens, .max_sequences = 3};
    needs.snapshots = hold == Hold::kAll;
    return needs;
  }

  std::vector<int32_t> RandomTokens(int64_t n) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n; ++i) {
      tokens.push_back(static_cast<int32_t>(random_() % static_cast<uint64_t>(kVocabulary)));
    }
    return tokens;
  }
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  static constexpr int64_t kVocabulary = 40;  // all have so many tokens
  std::mt19937_64 random_{7};
};

TEST_P(HeldWindows, GiveTheBitsOfAllTokensInLessMemory) {
  const std::unique_ptr<Engine> some = Open(Hold::kWindows);
  const std::unique_ptr<Engine> all = Open(Hold::kAll);
  EXPECT_LT(some->Plan(NeedsOf(Hold::kWindows))->cache.bytes,
            all->Plan(NeedsOf(Hold::kAll))->cache.bytes);
  for (int round = 0; round < 3; ++round) {
    const SequenceId a[2] = {some->OpenSequence(kTokens).value(),
                             some->OpenSequence(kTokens).value()};
    const SequenceId b[2] = {all->OpenSequence(kTokens).value(),
                             all->OpenSequence(kTokens).value()};
    int64_t lengths[2] = {};
    while (std::min(lengths[0], lengths[1]) < kTokens) {
      const auto i = static_cast<size_t>(lengths[0] <= lengths[1] ? 0 : 1);
      const int64_t most = std::min(kTokens - lengths[i], Below(4) == 0 ? kTokens : kStep);
      const std::vector<int32_t> tokens = RandomTokens(1 + Below(most));
      lengths[i] += std::ssize(tokens);
      ASSERT_EQ(test::LastLogits(*some, a[i], tokens), test::LastLogits(*all, b[i], tokens))
          << lengths[i];
    }
    for (const SequenceId id : a) some->CloseSequence(id);
    for (const SequenceId id : b) all->CloseSequence(id);
  }
}

TEST_P(HeldWindows, GoBackAsFarAsTheyReach) {
  const std::unique_ptr<Engine> some = Open(Hold::kWindows);
  const std::unique_ptr<Engine> all = Open(Hold::kAll);
  const SequenceId a = some->OpenSequence(kTokens).value();
  const SequenceId b = all->OpenSequence(kTokens).value();
  const std::vector<int32_t> tokens = RandomTokens(60);
  test::LastLogits(*some, a, tokens);
  test::LastLogits(*all, b, tokens);
  const absl::Status refused = some->TruncateSequence(a, 20);
  EXPECT_TRUE(IsUnsupported(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("of a window of 6 those before"));
  EXPECT_EQ(some->SequenceLength(a), 60);
  for (const int64_t length : {58, 57}) {
    ASSERT_TRUE(some->TruncateSequence(a, length).ok());
    ASSERT_TRUE(all->TruncateSequence(b, length).ok());
    EXPECT_EQ(test::LastLogits(*some, a, {1, 2}), test::LastLogits(*all, b, {1, 2}));
  }
  ASSERT_TRUE(some->TruncateSequence(a, 0).ok());
  ASSERT_TRUE(all->TruncateSequence(b, 0).ok());
  EXPECT_EQ(test::LastLogits(*some, a, tokens), test::LastLogits(*all, b, tokens));
}

TEST_P(HeldWindows, AreOfOneStepAtATime) {
  const std::unique_ptr<Engine> engine = Open(Hold::kWindows);
  const SequenceId sequence = engine->OpenSequence(kTokens).value();
  const std::vector<int32_t> tokens = RandomTokens(kStep + 1);
  const absl::Status refused =
      engine->Extend({&sequence, 1}, {&tokens, 1}, LogitRows::kAll).status();
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("the logits of 9 tokens at once are asked for: the cache holds windows and "
                        "takes 8 tokens at a time"));
  EXPECT_EQ(engine->SequenceLength(sequence), 0);
}

// Prompts that begin alike share what both groups of layers still have; in a pool that is too small
// for all they wait for one another.
TEST_P(HeldWindows, RunsInABatchGiveTheIdsOfRunsAlone) {
  std::vector<GenerateRequest> requests;
  const std::vector<int32_t> common = RandomTokens(34);
  for (int i = 0; i < 7; ++i) {
    GenerateRequest& request = requests.emplace_back();
    request.prompt_ids = common;
    for (const int32_t id : RandomTokens(1 + i % 3)) request.prompt_ids.push_back(id);
    request.max_new_tokens = 20 + i % 4;
  }
  const bool paged = std::get<1>(GetParam()) == "paged";
  const std::unique_ptr<Engine> some =
      Open(Hold::kWindows, {paged ? "cache.paged.pool_tokens=80" : "run.threads=2"});
  const auto together = some->Generate(requests, {});
  ASSERT_TRUE(together.ok()) << together.status();
  const std::unique_ptr<Engine> all = Open(Hold::kAll);
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto alone = all->Generate({&requests[i], 1}, {});
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ((*together)[i].ids, alone->front().ids);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, HeldWindows,
    ::testing::Combine(::testing::Values("mistral/window", "gemma3/tiny", "gpt_oss/tiny",
                                         "llama4/tiny", "gemma4/inputs"),
                       ::testing::Values("contiguous", "paged"), ::testing::Values("f32", "int8")),
    [](const auto& test) {
      std::string name =
          std::get<0>(test.param) + "_" + std::get<1>(test.param) + "_" + std::get<2>(test.param);
      std::ranges::replace(name, '/', '_');
      return name;
    });

}  // namespace
}  // namespace ng
