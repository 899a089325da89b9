// run.on_full = recompute: a text that grows beyond the context, as nanoGPT's generate has it.
// beyond_context.json beside the golden models is what tests/peers/nanogpt_ids.py printed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"

namespace ng {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

class BeyondContext : public ::testing::TestWithParam<std::string> {
 protected:
  std::string Dir() const { return absl::StrCat(NG_TEST_DATA, "/golden/nanogpt/", GetParam()); }

  // All ids that nanoGPT has generated, and how many of them were its prompt.
  Ids Expected(size_t* prompt_len) const {
    nlohmann::json file;
    std::ifstream(Dir() + "/beyond_context.json") >> file;
    *prompt_len = file["prompt_ids"].size();
    return file["ids"].get<Ids>();
  }

  std::unique_ptr<Engine> Open(const std::vector<std::string>& more) const {
    EngineOptions options;
    options.overrides = {"model.path=" + Dir(), "sampler.chain=greedy", "run.on_full=recompute"};
    options.overrides.insert(options.overrides.end(), more.begin(), more.end());
    auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  absl::StatusOr<std::vector<Completion>> Run(const std::vector<std::string>& more,
                                              const std::vector<GenerateRequest>& requests,
                                              const GenerateOptions& options = {}) const {
    const auto engine = Open(more);
    const absl::Status loaded = engine->Load(Needs(requests));
    if (!loaded.ok()) return loaded;
    return engine->Generate(requests, options);
  }

  // `ids` cut after `prompt_len`, to be continued to their end.
  static GenerateRequest Continue(const Ids& ids, size_t prompt_len) {
    GenerateRequest request;
    request.prompt_ids.assign(ids.begin(), ids.begin() + static_cast<int64_t>(prompt_len));
    request.max_new_tokens = static_cast<int64_t>(ids.size() - prompt_len);
    return request;
  }
};

TEST_P(BeyondContext, EveryWayGivesNanoGptsIds) {
  size_t prompt_len = 0;
  const Ids ids = Expected(&prompt_len);
  // The prompt itself may be longer than the context.
  for (const size_t cut : {prompt_len, ids.size() / 2, ids.size() - 3}) {
    for (const char* attention : {"reference", "flash"}) {
      for (const char* use_cache : {"true", "false"}) {
        for (const char* chunk : {"0", "7"}) {
          const auto done = Run({absl::StrCat("attention.name=", attention), "run.threads=2",
                                 absl::StrCat("run.use_cache=", use_cache),
                                 absl::StrCat("run.prefill_chunk=", chunk)},
                                {Continue(ids, cut)});
          ASSERT_TRUE(done.ok()) << done.status();
          EXPECT_EQ((*done)[0].ids, ids)
              << cut << ' ' << attention << ' ' << use_cache << ' ' << chunk;
          EXPECT_EQ((*done)[0].stop_reason, StopReason::kMaxNewTokens);
        }
      }
    }
  }
}

TEST_P(BeyondContext, RaggedBatchGivesTheSingleRuns) {
  size_t prompt_len = 0;
  const Ids ids = Expected(&prompt_len);
  const std::vector<GenerateRequest> requests = {Continue(ids, ids.size() - 5),
                                                 Continue(ids, prompt_len), Continue(ids, 50)};
  for (const char* at_a_time : {"0", "2"}) {
    const auto done = Run({absl::StrCat("cache.max_sequences=", at_a_time)}, requests);
    ASSERT_TRUE(done.ok()) << done.status();
    for (const Completion& completion : *done) EXPECT_EQ(completion.ids, ids);
  }
}

// A smaller cache is a smaller context, cached or not; and the rows of attention show its size.
TEST_P(BeyondContext, CacheTokensLimitWhatTheModelSees) {
  size_t prompt_len = 0;
  const Ids ids = Expected(&prompt_len);
  std::vector<Ids> results;
  for (const char* use_cache : {"true", "false"}) {
    std::vector<size_t> n_keys;
    GenerateOptions options;
    options.trace_layers = {0};
    options.on_step = [&](int, const StepRecord& record) {
      n_keys.push_back(record.attn_rows.at(0).probs.size());
      return absl::OkStatus();
    };
    const auto done = Run({"cache.max_tokens=10", absl::StrCat("run.use_cache=", use_cache)},
                          {Continue(ids, prompt_len)}, options);
    ASSERT_TRUE(done.ok()) << done.status();
    results.push_back((*done)[0].ids);
    for (size_t step = 0; step < n_keys.size(); ++step) {
      EXPECT_EQ(n_keys[step], std::min<size_t>(10, prompt_len + step)) << step;
    }
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[0], ids);
}

TEST_P(BeyondContext, RefusesTensorsThatAreNeverComputed) {
  size_t prompt_len = 0;
  const Ids ids = Expected(&prompt_len);
  GenerateOptions logits;
  logits.capture_logits = true;
  EXPECT_TRUE(Run({}, {Continue(ids, prompt_len)}, logits).ok());
  EXPECT_THAT(Run({}, {Continue(ids, 60)}, logits).status().message(),
              HasSubstr("logits are kept of what fits the context only: prompt length exceeds "
                        "context tokens: prompt 60 > "));
  GenerateOptions rows;
  rows.trace_layers = {0};
  rows.capture_attn_full = true;
  EXPECT_THAT(Run({}, {Continue(ids, prompt_len)}, rows).status().message(),
              HasSubstr("attention is kept of what fits the context only: prompt 8 + "));
}

TEST_P(BeyondContext, RefusesMoreTokensThanIdsAreCountedTo) {
  GenerateRequest request;
  request.prompt_ids = {1, 2};
  request.max_new_tokens = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(Open({})->CheckRequest(request).message(),
              HasSubstr("9223372036854775809 > 2147483647 tokens"));
}

INSTANTIATE_TEST_SUITE_P(NanoGpt, BeyondContext, ::testing::Values("bias", "nobias"));

}  // namespace
}  // namespace ng
