// Requests with settings and draws of their own, what they are told of their tokens, and the run
// that is taken step by step.
#include "ng/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ng/engine.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kSampled = {"sampler.chain=temperature,top_k",
                                           "sampler.temperature.value=1.3", "sampler.seed=5"};
const std::vector<std::string> kOther = {"sampler.chain=min_p,temperature",
                                         "sampler.temperature.value=0.7", "sampler.seed=8"};

class GenerationTest : public ::testing::Test {
 protected:
  GenerationTest() {
    model_.max_positions = 512;
    model_.WriteTo(dir_.path());
  }

  std::unique_ptr<Engine> Load(const RunNeeds& needs, std::vector<std::string> overrides = {}) {
    EngineOptions options;
    options.stop = &stop_;
    options.overrides = {"model.path=" + dir_.path(), "sampler.chain=greedy", "run.stop_ids="};
    options.overrides.insert(options.overrides.end(), overrides.begin(), overrides.end());
    auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    const absl::Status loaded = (*engine)->Load(needs);
    EXPECT_TRUE(loaded.ok()) << loaded;
    return *std::move(engine);
  }

  // What an engine of this config answers to one request.
  Completion Alone(GenerateRequest request, std::vector<std::string> overrides = {}) {
    const auto engine = Load(Needs({&request, 1}), std::move(overrides));
    auto done = engine->Generate({&request, 1}, {});
    EXPECT_TRUE(done.ok()) << done.status();
    return done.ok() ? std::move((*done)[0]) : Completion();
  }

  std::vector<int32_t> RandomIds(size_t n) {
    std::vector<int32_t> ids(n);
    for (int32_t& id : ids) id = static_cast<int32_t>(random_() % 61);
    return ids;
  }

  GenerateRequest With(std::vector<std::string> settings, int64_t draw = 0) {
    GenerateRequest request{RandomIds(7), 24, {}};
    request.settings = std::move(settings);
    request.draw = draw;
    return request;
  }

  test::TinyNiels model_;
  test::TempDir dir_;
  std::mt19937_64 random_{7};
  std::atomic<bool> stop_ = false;
};

TEST_F(GenerationTest, ARequestsOwnSettingsGiveWhatAConfigWithThemGives) {
  const std::vector<GenerateRequest> requests = {With({}), With(kSampled), With(kOther),
                                                 With(kSampled), With({"sampler.seed=3"})};
  const auto engine = Load(Needs(requests));
  const auto done = engine->Generate(requests, {});
  ASSERT_TRUE(done.ok()) << done.status();
  for (size_t i = 0; i < requests.size(); ++i) {
    GenerateRequest alone = requests[i];
    alone.settings.clear();
    EXPECT_EQ((*done)[i].ids, Alone(alone, requests[i].settings).ids) << i;
  }
}

TEST_F(GenerationTest, SettingsStandOnWhatSetHasSet) {
  GenerateRequest request = With({"sampler.top_k.k=3"});
  const auto engine = Load(Needs({&request, 1}));
  ASSERT_TRUE(engine->Set(kSampled).ok());
  const auto done = engine->Generate({&request, 1}, {});
  ASSERT_TRUE(done.ok()) << done.status();
  std::vector<std::string> all = kSampled;
  all.insert(all.end(), request.settings.begin(), request.settings.end());
  request.settings.clear();
  EXPECT_EQ((*done)[0].ids, Alone(request, all).ids);
}

TEST_F(GenerationTest, WrongSettingsAreNamedBeforeAnythingIsComputed) {
  const std::pair<const char*, const char*> cases[] = {
      {"run.threads=1", "run.threads = 1: no setting of a request"},
      {"sampler.top_p.p=0.5", "not used: sampler.top_p.p"},
      {"sampler.chain=nothing", "nothing"},
      {"sampler.seed=-3", "sampler.seed=-3"},
      {"sampler.temperature.value=0", "sampler.temperature.value=0"},
  };
  for (const auto& [setting, said] : cases) {
    std::vector<GenerateRequest> requests = {With({}), With(kSampled)};
    requests[1].settings.emplace_back(setting);
    const auto engine = Load(Needs(requests));
    GenerateOptions options;
    options.on_step = [](int, const StepRecord&) { return RuntimeError("a step"); };
    const auto done = engine->Generate(requests, options);
    EXPECT_THAT(std::string(done.status().message()), HasSubstr(said)) << setting;
    // The engine is as it was.
    requests[1].settings.clear();
    EXPECT_TRUE(engine->Generate(requests, {}).ok());
  }
}

TEST_F(GenerationTest, DrawsAreThoseOfTheNumberThatTheRequestSays) {
  std::vector<GenerateRequest> requests(3, With({}, -1));
  const auto engine = Load(Needs(requests), kSampled);
  const auto in_order = engine->Generate(requests, {});
  ASSERT_TRUE(in_order.ok()) << in_order.status();
  EXPECT_NE((*in_order)[0].ids, (*in_order)[1].ids);
  for (size_t i = 0; i < 3; ++i) requests[i].draw = static_cast<int64_t>(2 - i);
  const auto turned = engine->Generate(requests, {});
  ASSERT_TRUE(turned.ok()) << turned.status();
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*turned)[i].ids, (*in_order)[2 - i].ids) << i;
}

TEST_F(GenerationTest, NumbersOutOfRangeAreNamed) {
  GenerateRequest request = With({});
  const auto engine = Load(Needs({&request, 1}));
  request.draw = -2;
  EXPECT_THAT(engine->CheckRequest(request).ToString(), HasSubstr("a request's draw = -2"));
  request.draw = 0;
  request.top_logprobs = 62;
  EXPECT_THAT(engine->CheckRequest(request).ToString(), HasSubstr("top_logprobs = 62"));
}

double LogprobOf(std::span<const float> row, int32_t token) {
  double total = 0.0;
  for (const float logit : row) total += std::exp(static_cast<double>(logit));
  return row[static_cast<size_t>(token)] - std::log(total);
}

// Of 300 tokens, which are more than are scored in a step.
TEST_F(GenerationTest, PromptLogprobsAreThoseOfThePromptsLogits) {
  GenerateRequest plain{RandomIds(300), 0, {}};
  GenerateOptions keep;
  keep.capture_logits = true;
  RunNeeds needs = Needs({&plain, 1});
  needs.prompt_logits = true;
  const auto whole = Load(needs)->Generate({&plain, 1}, keep);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::vector<float>& logits = (*whole)[0].captured.logits;

  GenerateRequest scored = plain;
  scored.prompt_top_logprobs = 3;
  std::vector<GenerateRequest> batch = {scored, With(kSampled), scored};
  batch[2].max_new_tokens = 5;
  for (const char* option : {"run.use_cache=true", "run.use_cache=false", "run.prefill_chunk=7"}) {
    const auto done = Load(Needs(batch), {option})->Generate(batch, {});
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_EQ((*done)[0].ids, plain.prompt_ids);
    EXPECT_TRUE((*done)[1].prompt_logprobs.empty());
    ASSERT_EQ((*done)[0].prompt_logprobs.size(), 299U);
    for (size_t i = 0; i < 299; ++i) {
      const TokenLogprob& token = (*done)[0].prompt_logprobs[i];
      const std::span<const float> row = std::span(logits).subspan(i * 61, 61);
      ASSERT_EQ(token.token_id, plain.prompt_ids[i + 1]);
      ASSERT_NEAR(token.logprob, LogprobOf(row, token.token_id), 1e-12);
      ASSERT_EQ(token.top.size(), 3U);
      const auto best = std::ranges::max_element(row) - row.begin();
      ASSERT_EQ(token.top[0].first, best);
      ASSERT_NEAR(token.top[0].second, LogprobOf(row, static_cast<int32_t>(best)), 1e-12);
      ASSERT_GE(token.top[1].second, token.top[2].second);
      // The same bits for whom else the step fed.
      ASSERT_EQ(token.logprob, (*done)[2].prompt_logprobs[i].logprob);
    }
  }
}

TEST_F(GenerationTest, TopLogprobsAreThoseOfTheRecord) {
  std::vector<GenerateRequest> requests = {With(kSampled), With({})};
  requests[0].top_logprobs = 4;
  GenerateOptions options;
  int n_asked = 0;
  options.on_step = [&](int index, const StepRecord& record) {
    if (index == 1) {
      EXPECT_TRUE(record.top_logprobs.empty());
      return absl::OkStatus();
    }
    ++n_asked;
    EXPECT_EQ(record.top_logprobs.size(), 4U);
    EXPECT_LT(record.logprob, 0.0);
    for (const auto& [id, logprob] : record.top_logprobs) {
      const auto same = std::ranges::find(record.top_k, id, &std::pair<int32_t, float>::first);
      if (!record.top_k.empty()) {
        EXPECT_NEAR(std::exp(logprob), same->second, 1e-6);
      }
      if (id == record.token_id) {
        EXPECT_EQ(logprob, record.logprob);
      }
    }
    return absl::OkStatus();
  };
  const auto engine = Load(Needs(requests));
  ASSERT_TRUE(engine->Generate(requests, options).ok());
  options.steps = true;
  ASSERT_TRUE(engine->Generate(requests, options).ok());
  EXPECT_EQ(n_asked, 48);
}

// What happens in a run, a line each.
GenerateOptions Watch(std::vector<std::string>& lines) {
  GenerateOptions options;
  options.on_prompt = [&](int index, const Completion& completion) {
    lines.push_back(std::to_string(index) + " prompt " + std::to_string(completion.prompt_len));
  };
  options.on_step = [&](int index, const StepRecord& record) {
    lines.push_back(std::to_string(index) + " token " + std::to_string(record.token_id));
    return absl::OkStatus();
  };
  options.on_done = [&](int index, const Completion& completion) {
    lines.push_back(std::to_string(index) + " done " +
                    std::string(StopReasonName(completion.stop_reason)));
    return absl::OkStatus();
  };
  return options;
}

TEST_F(GenerationTest, StepsGiveWhatGenerateGives) {
  std::vector<GenerateRequest> requests = {With({}), With(kSampled), With(kOther)};
  requests[1].max_new_tokens = 3;
  const auto engine = Load(Needs(requests), {"cache.max_sequences=2"});
  std::vector<std::string> lines;
  std::vector<std::string> stepped;
  const auto done = engine->Generate(requests, Watch(lines));
  ASSERT_TRUE(done.ok()) << done.status();
  auto generation = engine->Begin(requests, Watch(stepped));
  ASSERT_TRUE(generation.ok()) << generation.status();
  int n_steps = 0;
  for (bool more = true; more; ++n_steps) {
    const auto step = (*generation)->Step();
    ASSERT_TRUE(step.ok()) << step.status();
    more = *step;
  }
  EXPECT_GE(n_steps, 24);
  const auto finished = (*generation)->Finish();
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(stepped, lines);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*finished)[i].ids, (*done)[i].ids);
  EXPECT_FALSE((*generation)->Step().ok());
  EXPECT_FALSE((*generation)->Finish().ok());
}

TEST_F(GenerationTest, RequestsJoinAndLeaveBetweenSteps) {
  const GenerateRequest first = With({});
  const GenerateRequest second = With(kSampled);
  const auto engine = Load({.max_tokens = 64, .max_sequences = 2});
  std::vector<std::string> lines;
  auto generation = engine->Begin({first}, Watch(lines));
  ASSERT_TRUE(generation.ok()) << generation.status();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE((*generation)->Step().ok());
  EXPECT_EQ(*(*generation)->Add(second), 1);
  EXPECT_EQ(*(*generation)->Add(With(kOther)), 2);
  EXPECT_FALSE((*generation)->Add(GenerateRequest()).ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE((*generation)->Step().ok());
  ASSERT_TRUE((*generation)->Cancel(0).ok());
  ASSERT_TRUE((*generation)->Cancel(2).ok());  // it waits
  ASSERT_TRUE((*generation)->Cancel(2).ok());
  EXPECT_FALSE((*generation)->Cancel(3).ok());
  for (bool more = true; more; more = *(*generation)->Step()) {
  }
  const auto done = (*generation)->Finish();
  ASSERT_TRUE(done.ok()) << done.status();
  const std::vector<int32_t> whole = Alone(first).ids;
  EXPECT_EQ((*done)[0].stop_reason, StopReason::kInterrupted);
  EXPECT_EQ((*done)[0].ids, std::vector<int32_t>(whole.begin(), whole.begin() + 17));
  EXPECT_EQ((*done)[1].ids, Alone(second).ids);
  EXPECT_EQ((*done)[1].stop_reason, StopReason::kMaxNewTokens);
  EXPECT_EQ((*done)[2].stop_reason, StopReason::kInterrupted);
  EXPECT_EQ((*done)[2].ids.size(), 7U);
  EXPECT_EQ(std::ranges::count(lines, "0 done interrupted"), 1);
  EXPECT_EQ(std::ranges::count(lines, "2 done interrupted"), 1);
}

TEST_F(GenerationTest, HasTheEngineUntilItIsGone) {
  const GenerateRequest request = With({});
  const auto engine = Load(Needs({&request, 1}));
  {
    auto generation = engine->Begin({request}, {});
    ASSERT_TRUE(generation.ok()) << generation.status();
    ASSERT_TRUE((*generation)->Step().ok());
    for (const absl::Status& refused :
         {engine->Generate({&request, 1}, {}).status(), engine->Begin({}, {}).status(),
          engine->Load({}), engine->Set({})}) {
      EXPECT_THAT(refused.ToString(), HasSubstr("the engine is taken"));
    }
  }
  EXPECT_TRUE(engine->Generate({&request, 1}, {}).ok());
}

TEST_F(GenerationTest, TheStopFlagAndErrorsEndIt) {
  const GenerateRequest request = With({});
  const auto engine = Load(Needs({&request, 1}));
  std::vector<std::string> lines;
  auto generation = engine->Begin({request}, Watch(lines));
  ASSERT_TRUE(*(*generation)->Step());
  stop_ = true;
  EXPECT_FALSE(*(*generation)->Step());
  EXPECT_EQ(lines.back(), "0 done interrupted");
  EXPECT_TRUE((*generation)->Finish().ok());
  generation->reset();

  stop_ = false;
  GenerateOptions failing = Watch(lines);
  failing.on_step = [](int, const StepRecord&) { return OutputError("full"); };
  generation = engine->Begin({request}, failing);
  EXPECT_EQ((*generation)->Step().status(), OutputError("full"));
  EXPECT_EQ(lines.back(), "0 done error");
  EXPECT_EQ((*generation)->Step().status(), OutputError("full"));
  EXPECT_EQ((*generation)->Add(request).status(), OutputError("full"));
  EXPECT_EQ((*generation)->Finish().status(), OutputError("full"));
}

}  // namespace
}  // namespace ng
