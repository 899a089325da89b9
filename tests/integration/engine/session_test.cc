// A session: requests from any thread, that join while others run, each with the bits of a lone
// run.
#include "ng/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

const std::vector<std::vector<std::string>> kSettings = {
    {},
    {"sampler.chain=temperature,top_k", "sampler.temperature.value=1.3", "sampler.seed=5"},
    {"sampler.chain=min_p,temperature", "sampler.temperature.value=0.7"},
    {"sampler.chain=temperature,top_k", "sampler.temperature.value=1.3", "sampler.seed=6"},
    {"sampler.chain=repetition_penalty,greedy"},
};

// What was told of a request.
struct Heard {
  std::vector<int32_t> tokens;
  int n_prompts = 0;
  int n_done = 0;
  absl::Status status;
  Completion completion;
};

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    model_.max_positions = 256;
    model_.WriteTo(dir_.path());
  }
  ~SessionTest() override { session_.reset(); }

  std::unique_ptr<Engine> Load(const RunNeeds& needs, std::vector<std::string> overrides = {}) {
    EngineOptions options;
    options.stop = &stop_;
    options.overrides = {"model.path=" + dir_.path(), "sampler.chain=greedy", "run.stop_ids=",
                         "plugins.path=" NG_BINARY_DIR
                         "/tests/fixtures/broken_plugins/sampler_faults:" NG_BINARY_DIR
                         "/tests/fixtures/broken_plugins/wraps_another:" NG_BINARY_DIR
                         "/tests/fixtures/broken_plugins/waits_in_create:" NG_BINARY_DIR
                         "/tests/fixtures/broken_plugins/attention_faults"};
    options.overrides.insert(options.overrides.end(), overrides.begin(), overrides.end());
    auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    const absl::Status loaded = (*engine)->Load(needs);
    EXPECT_TRUE(loaded.ok()) << loaded;
    return *std::move(engine);
  }

  void Start(int max_sequences, int max_waiting, std::vector<std::string> overrides = {}) {
    session_.reset();
    engine_ = Load({.max_tokens = 128, .max_sequences = max_sequences}, std::move(overrides));
    auto session = Session::Start(*engine_, {.max_waiting = max_waiting});
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  GenerateRequest Request(size_t prompt_len, int64_t max_new_tokens, size_t settings = 0) {
    GenerateRequest request;
    for (size_t i = 0; i < prompt_len; ++i) {
      request.prompt_ids.push_back(static_cast<int32_t>(random_() % 61));
    }
    request.max_new_tokens = max_new_tokens;
    request.settings = kSettings[settings % kSettings.size()];
    return request;
  }

  // Of a sampler that is made as soon as there is this file.
  std::vector<std::string> Slow(const std::string& file) const {
    return {"sampler.chain=waits_in_create,greedy",
            "sampler.waits_in_create.until=" + dir_.File(file)};
  }

  // Told into `heard`, which is read when the session has ended, or when on_done was seen.
  SessionRequest Listen(GenerateRequest request, Heard& heard) {
    SessionRequest asked;
    asked.request = std::move(request);
    asked.on_prompt = [&heard](const Completion&) { ++heard.n_prompts; };
    asked.on_token = [&heard](const StepRecord& record) {
      EXPECT_EQ(record.step, std::ssize(heard.tokens));
      heard.tokens.push_back(record.token_id);
    };
    asked.on_done = [this, &heard](const absl::Status& status, Completion& completion) {
      const std::lock_guard lock(mutex_);
      ++heard.n_done;
      heard.status = status;
      heard.completion = std::move(completion);
      ++n_done_;
      changed_.notify_all();
    };
    return asked;
  }
  absl::StatusOr<int64_t> Submit(SessionRequest asked) {
    std::vector<SessionRequest> one;
    one.push_back(std::move(asked));
    return session_->Submit(std::move(one));
  }
  // The counts are shown behind the turn in which a request has ended.
  void AwaitCount(int64_t SessionCounts::*count, int64_t n) {
    while (session_->counts().*count < n) std::this_thread::yield();
    EXPECT_EQ(session_->counts().*count, n);
  }
  void AwaitDone(int n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return n_done_ >= n; });
  }

  // What a run by itself gives to each, with draw 0.
  std::vector<std::vector<int32_t>> Alone(std::vector<GenerateRequest> requests) {
    const auto engine = Load({.max_tokens = 128});
    std::vector<std::vector<int32_t>> ids;
    for (GenerateRequest& request : requests) {
      const auto done = engine->Generate({&request, 1}, {});
      EXPECT_TRUE(done.ok()) << done.status();
      ids.push_back((*done)[0].ids);
    }
    return ids;
  }

  test::TinyNiels model_;
  test::TempDir dir_;
  std::mt19937_64 random_{7};
  std::atomic<bool> stop_ = false;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int n_done_ = 0;
};

// Holds the session's thread at a token until it is let go.
class Gate {
 public:
  void Hold() {
    std::unique_lock lock(mutex_);
    held_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void AwaitHeld() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  bool open_ = false;
};

TEST_F(SessionTest, EveryAnswerHasTheBitsOfALoneRun) {
  for (const char* cache : {"contiguous", "paged"}) {
    for (const size_t n : {1, 8, 20}) {
      std::vector<GenerateRequest> requests;
      const GenerateRequest beginning = Request(40, 0);
      for (size_t i = 0; i < n; ++i) {
        requests.push_back(Request(3 + i, 20 + static_cast<int64_t>(i), i));
        std::vector<int32_t>& ids = requests.back().prompt_ids;
        // Half of them begin alike.
        if (i % 2 == 1) {
          ids.insert(ids.begin(), beginning.prompt_ids.begin(), beginning.prompt_ids.end());
        }
      }
      const std::vector<std::vector<int32_t>> alone = Alone(requests);
      Start(8, 64, {absl::StrCat("cache.name=", cache), "cache.paged.page_tokens=16"});
      std::vector<Heard> heard(n);
      // From four threads, some of them while others are answered.
      std::vector<std::thread> clients;
      for (size_t client = 0; client < 4; ++client) {
        clients.emplace_back([&, client] {
          for (size_t i = client; i < n; i += 4) {
            const auto id = Submit(Listen(requests[i], heard[i]));
            EXPECT_TRUE(id.ok()) << id.status();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        });
      }
      for (std::thread& client : clients) client.join();
      session_->Drain();
      ASSERT_TRUE(session_->Wait().ok());
      int64_t n_shared = 0;
      for (size_t i = 0; i < n; ++i) {
        EXPECT_EQ(heard[i].status, absl::OkStatus());
        EXPECT_EQ(heard[i].completion.ids, alone[i]) << cache << " " << n << " " << i;
        EXPECT_EQ(heard[i].n_done, 1);
        EXPECT_EQ(heard[i].n_prompts, 1);
        EXPECT_EQ(std::ssize(heard[i].tokens), requests[i].max_new_tokens);
        n_shared += heard[i].completion.timings.shared_tokens;
      }
      const SessionCounts counts = session_->counts();
      EXPECT_EQ(counts.completed, static_cast<int64_t>(n));
      EXPECT_EQ(counts.accepted, static_cast<int64_t>(n));
      EXPECT_EQ(counts.waiting + counts.active + counts.failed + counts.cancelled, 0);
      EXPECT_EQ(counts.shared_tokens, n_shared);
      EXPECT_EQ(n_shared > 0, std::string(cache) == "paged" && n > 1);
      EXPECT_GT(counts.busy_s, 0.0);
      EXPECT_LE(counts.steps, counts.prefill_tokens + counts.decode_tokens);
    }
  }
}

TEST_F(SessionTest, SeveralAnswersToOnePromptAreThoseOfARunOfSeveral) {
  GenerateRequest request = Request(9, 20, 1);
  const std::vector<GenerateRequest> several(3, request);
  const auto engine = Load(Needs(several));
  const auto done = engine->Generate(several, {});
  ASSERT_TRUE(done.ok()) << done.status();
  Start(2, 4);
  std::vector<Heard> heard(3);
  std::vector<SessionRequest> asked;
  for (size_t i = 0; i < 3; ++i) {
    request.draw = static_cast<int64_t>(i);
    asked.push_back(Listen(request, heard[i]));
  }
  ASSERT_EQ(session_->Submit(std::move(asked)).value(), 0);
  AwaitDone(3);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(heard[i].completion.ids, (*done)[i].ids);
}

TEST_F(SessionTest, CancelEndsARequestThatRunsAndOneThatWaits) {
  const GenerateRequest goes_on = Request(5, 60);
  const std::vector<int32_t> alone = Alone({goes_on})[0];
  Start(2, 4);
  Heard first;
  Heard second;
  Heard third;
  Gate gate;
  SessionRequest held = Listen(Request(5, 100), first);
  held.on_token = [&](const StepRecord& record) {
    first.tokens.push_back(record.token_id);
    if (record.step == 10) gate.Hold();
  };
  const int64_t running = *Submit(std::move(held));
  EXPECT_TRUE(Submit(Listen(goes_on, second)).ok());
  const int64_t waiting = *Submit(Listen(Request(5, 30), third));
  gate.AwaitHeld();
  session_->Cancel(running);
  session_->Cancel(waiting);
  session_->Cancel(waiting);
  session_->Cancel(77);
  gate.Open();
  session_->Drain();
  ASSERT_TRUE(session_->Wait().ok());
  EXPECT_EQ(first.completion.stop_reason, StopReason::kInterrupted);
  EXPECT_EQ(first.tokens.size(), 11U);
  EXPECT_EQ(third.completion.stop_reason, StopReason::kInterrupted);
  EXPECT_EQ(second.completion.ids, alone);
  EXPECT_EQ(first.n_done + second.n_done + third.n_done, 3);
  EXPECT_EQ(session_->counts().cancelled, 2);
}

TEST_F(SessionTest, WhatIsWrongWithARequestEndsThisOneAlone) {
  const GenerateRequest sound = Request(6, 60);
  const std::vector<int32_t> alone = Alone({sound})[0];
  Start(4, 8);
  std::vector<GenerateRequest> wrong(4, Request(4, 20));
  wrong[0].settings = {"run.threads=1"};
  wrong[1].settings = {"sampler.top_p.p=0.5"};
  wrong[2].settings = {"sampler.chain=sampler_faults", "sampler.sampler_faults.fault=open_refuses"};
  wrong[3].settings = {"sampler.chain=sampler_faults",
                       "sampler.sampler_faults.fault=refuses_good_logits"};
  Heard heard;
  std::vector<Heard> failed(wrong.size());
  ASSERT_TRUE(Submit(Listen(sound, heard)).ok());
  for (size_t i = 0; i < wrong.size(); ++i) {
    const auto id = Submit(Listen(wrong[i], failed[i]));
    EXPECT_TRUE(id.ok()) << id.status();
  }
  AwaitDone(5);
  EXPECT_EQ(heard.completion.ids, alone);
  const int exit_codes[] = {2, 2, 4, 6};
  for (size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_EQ(ExitCode(failed[i].status), exit_codes[i]) << failed[i].status;
    EXPECT_EQ(failed[i].completion.stop_reason, StopReason::kError);
    EXPECT_TRUE(failed[i].tokens.empty());
    EXPECT_EQ(failed[i].n_done, 1);
  }
  EXPECT_THAT(std::string(failed[3].status.message()), HasSubstr("sampler_faults"));
  session_->Drain();
  EXPECT_TRUE(session_->Wait().ok());
  EXPECT_EQ(session_->counts().failed, 4);
}

// A server that is asked for ever for other settings must not remember them all.
TEST_F(SessionTest, WhatChainsOfRequestsAreMadeOfIsForgotten) {
  const auto engine = Load({.max_tokens = 128});
  // All but the memory, of which the machine has now more and now less.
  const auto parts = [&] {
    const std::string all = engine->Describe({.max_tokens = 128}).value_or("");
    return all.substr(0, all.find("\nmemory for"));
  };
  const std::string before = parts();
  EXPECT_THAT(before, HasSubstr("greedy"));
  for (int k = 1; k <= 5; ++k) {
    GenerateRequest request = Request(4, 3);
    request.settings = {"sampler.chain=wraps_another", "sampler.wraps_another.stage=top_k",
                        "sampler.wraps_another.option=k",
                        absl::StrCat("sampler.wraps_another.value=", k)};
    const auto done = engine->Generate({&request, 1}, {});
    ASSERT_TRUE(done.ok()) << done.status();
  }
  EXPECT_EQ(parts(), before);
}

TEST_F(SessionTest, RequestsThatNeverFitAreRefusedAtOnce) {
  Start(2, 4);
  Heard heard;
  const auto message = [&](const GenerateRequest& request) {
    return Submit(Listen(request, heard)).status().ToString();
  };
  EXPECT_THAT(message(Request(100, 40)), HasSubstr("= 140 > 128 session tokens"));
  EXPECT_THAT(message(Request(0, 40)), HasSubstr("the prompt is empty"));
  GenerateRequest with = Request(5, 5);
  with.prompt_ids[2] = 61;
  EXPECT_THAT(message(with), HasSubstr("token id 61"));
  with = Request(5, 5);
  with.save_cache = "file";
  EXPECT_THAT(message(with), HasSubstr("no sequence and no snapshot"));
  // All or none.
  std::vector<SessionRequest> both;
  both.push_back(Listen(Request(5, 5), heard));
  both.push_back(Listen(Request(100, 40), heard));
  EXPECT_FALSE(session_->Submit(std::move(both)).ok());
  session_->Drain();
  EXPECT_TRUE(session_->Wait().ok());
  EXPECT_EQ(heard.n_done, 0);
  EXPECT_EQ(session_->counts().accepted, 0);
}

TEST_F(SessionTest, AFullSessionSaysSoAtOnce) {
  Start(1, 2);
  std::vector<Heard> heard(5);
  Gate gate;
  SessionRequest held = Listen(Request(5, 5), heard[0]);
  held.on_token = [&](const StepRecord& record) {
    if (record.step == 0) gate.Hold();
  };
  EXPECT_TRUE(Submit(std::move(held)).ok());
  gate.AwaitHeld();
  EXPECT_TRUE(Submit(Listen(Request(5, 5), heard[1])).ok());
  EXPECT_TRUE(Submit(Listen(Request(5, 5), heard[2])).ok());
  EXPECT_EQ(session_->counts().waiting, 3);  // the step that is held has not ended
  const absl::Status busy = Submit(Listen(Request(5, 5), heard[3])).status();
  EXPECT_TRUE(IsBusy(busy)) << busy;
  EXPECT_EQ(ExitCode(busy), 5);
  std::vector<SessionRequest> many;
  for (int i = 0; i < 4; ++i) many.push_back(Listen(Request(5, 5), heard[3]));
  const absl::Status never = session_->Submit(std::move(many)).status();
  EXPECT_EQ(ExitCode(never), 5);
  EXPECT_FALSE(IsBusy(never)) << never;
  gate.Open();
  AwaitDone(3);
  EXPECT_TRUE(Submit(Listen(Request(5, 5), heard[4])).ok());
  AwaitDone(4);
  EXPECT_EQ(session_->counts().refused, 1);
  EXPECT_EQ(heard[3].n_done, 0);
}

TEST_F(SessionTest, DrainAnswersWhatItHasAndTakesNoMore) {
  Start(1, 8);
  std::vector<Heard> heard(5);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Submit(Listen(Request(5, 30), heard[i])).ok());
  session_->Drain();
  const absl::Status closed = Submit(Listen(Request(5, 5), heard[4])).status();
  EXPECT_THAT(closed.ToString(), HasSubstr("the session is closed"));
  EXPECT_FALSE(IsBusy(closed));
  EXPECT_TRUE(session_->Wait().ok());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(heard[i].completion.ids.size(), 35U);
}

TEST_F(SessionTest, StopAndItsEndAndTheStopFlagInterruptEverything) {
  for (const char* how : {"stop", "destroy", "flag"}) {
    Start(2, 8);
    std::vector<Heard> heard(4);
    Gate gate;
    SessionRequest held = Listen(Request(5, 100), heard[0]);
    held.on_token = [&](const StepRecord& record) {
      if (record.step == 3) gate.Hold();
    };
    EXPECT_TRUE(Submit(std::move(held)).ok());
    for (int i = 1; i < 4; ++i) EXPECT_TRUE(Submit(Listen(Request(5, 100), heard[i])).ok());
    gate.AwaitHeld();
    std::thread opener;
    if (how == std::string("stop")) session_->Stop();
    if (how == std::string("flag")) stop_ = true;
    if (how == std::string("destroy")) {
      opener = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        gate.Open();
      });
      session_.reset();
      opener.join();
    } else {
      gate.Open();
      EXPECT_TRUE(session_->Wait().ok());
      EXPECT_FALSE(Submit(Listen(Request(5, 5), heard[0])).ok());
    }
    for (const Heard& one : heard) {
      EXPECT_EQ(one.n_done, 1) << how;
      EXPECT_EQ(one.completion.stop_reason, StopReason::kInterrupted) << how;
      EXPECT_LT(one.completion.ids.size(), 105U);
    }
    stop_ = false;
  }
}

TEST_F(SessionTest, NobodyWaitsWhileTheSamplerOfAnotherIsMade) {
  std::vector<GenerateRequest> requests = {Request(5, 20), Request(6, 30), Request(7, 10, 1),
                                           Request(8, 10, 2)};
  const std::vector<std::vector<int32_t>> alone = Alone(requests);
  Start(4, 8);
  std::vector<Heard> heard(6);
  EXPECT_TRUE(Submit(Listen(requests[2], heard[0])).ok());
  AwaitDone(1);
  // Now its chain is known.
  requests[0].settings = Slow("a");
  EXPECT_TRUE(Submit(Listen(requests[0], heard[1])).ok());
  for (const int i : {1, 2}) {
    EXPECT_TRUE(Submit(Listen(requests[static_cast<size_t>(i)], heard[i + 1])).ok());
  }
  AwaitDone(3);
  EXPECT_EQ(heard[2].completion.ids, alone[1]);
  EXPECT_EQ(heard[3].completion.ids, alone[2]);
  // The counts are shown behind the turn in which a request has ended.
  while (session_->counts().active > 0) std::this_thread::yield();
  EXPECT_EQ(session_->counts().waiting, 1);
  // A short one need not wait for a longer one that came before it.
  GenerateRequest longer = requests[0];
  longer.settings = Slow("one that has a longer name");
  EXPECT_TRUE(Submit(Listen(longer, heard[4])).ok());
  EXPECT_TRUE(Submit(Listen(requests[3], heard[5])).ok());
  std::ofstream(dir_.File("a")) << "";
  AwaitDone(5);
  EXPECT_EQ(heard[1].completion.ids, alone[0]);
  EXPECT_EQ(heard[5].completion.ids, alone[3]);
  EXPECT_EQ(heard[4].n_done, 0);
  std::ofstream(dir_.File("one that has a longer name")) << "";
  AwaitDone(6);
  EXPECT_EQ(heard[4].completion.ids, alone[0]);
  AwaitCount(&SessionCounts::completed, 6);
}

TEST_F(SessionTest, TheMakingOfASamplerEndsWithItsRequest) {
  const GenerateRequest sound = Request(6, 20, 1);
  const std::vector<int32_t> alone = Alone({sound})[0];
  for (const bool wrapped : {false, true}) {
    Start(2, 8);
    std::vector<Heard> heard(3);
    GenerateRequest never = Request(5, 20);
    never.settings = Slow("no such file");
    if (wrapped) {
      never.settings = {"sampler.chain=wraps_another",
                        "sampler.wraps_another.stage=waits_in_create",
                        "sampler.waits_in_create.until=" + dir_.File("no such file")};
    }
    const int n = n_done_;
    const int64_t first = *Submit(Listen(never, heard[0]));
    const int64_t second = *Submit(Listen(never, heard[1]));
    session_->Cancel(second);
    AwaitDone(n + 1);
    EXPECT_TRUE(Submit(Listen(sound, heard[2])).ok());
    session_->Cancel(first);
    AwaitDone(n + 3);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(heard[i].completion.stop_reason, StopReason::kInterrupted);
      EXPECT_EQ(heard[i].completion.ids, never.prompt_ids);
      EXPECT_TRUE(heard[i].status.ok()) << heard[i].status;
    }
    EXPECT_EQ(heard[2].completion.ids, alone);
    AwaitCount(&SessionCounts::cancelled, 2);
  }
}

TEST_F(SessionTest, TheMakingOfSamplersEndsWithTheSession) {
  for (const char* how : {"stop", "destroy", "flag", "drain"}) {
    Start(2, 8);
    std::vector<Heard> heard(3);
    GenerateRequest never = Request(5, 20);
    never.settings = Slow("no such file");
    for (Heard& one : heard) EXPECT_TRUE(Submit(Listen(never, one)).ok());
    if (how == std::string("stop")) session_->Stop();
    if (how == std::string("flag")) stop_ = true;
    if (how == std::string("drain")) session_->Drain();
    if (how == std::string("destroy")) {
      session_.reset();
    } else {
      EXPECT_TRUE(session_->Wait().ok());
    }
    for (const Heard& one : heard) {
      EXPECT_EQ(one.n_done, 1) << how;
      EXPECT_EQ(one.completion.stop_reason, StopReason::kInterrupted) << how;
      EXPECT_EQ(one.completion.ids, never.prompt_ids) << how;
    }
    stop_ = false;
  }
}

TEST_F(SessionTest, AnErrorOfTheEngineEndsAllOfThem) {
  Start(2, 8, {"attention.name=attention_faults", "attention.attention_faults.fault=run_throws"});
  std::vector<Heard> heard(3);
  std::vector<SessionRequest> asked;
  for (Heard& one : heard) asked.push_back(Listen(Request(5, 20), one));
  EXPECT_TRUE(session_->Submit(std::move(asked)).ok());
  const absl::Status ended = session_->Wait();
  EXPECT_FALSE(ended.ok());
  for (const Heard& one : heard) {
    EXPECT_EQ(one.n_done, 1);
    EXPECT_EQ(one.status, ended);
    EXPECT_EQ(one.completion.stop_reason, StopReason::kError);
  }
  EXPECT_EQ(Submit(Listen(Request(5, 20), heard[0])).status(), ended);
}

TEST_F(SessionTest, HasTheEngineUntilItIsGone) {
  engine_ = Load({.max_tokens = 128});
  EXPECT_FALSE(Session::Start(*engine_, {.max_waiting = 0}).ok());
  {
    auto session = Session::Start(*engine_, {});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_THAT(Session::Start(*engine_, {}).status().ToString(), HasSubstr("the engine is taken"));
  }
  const GenerateRequest request = Request(5, 5);
  EXPECT_TRUE(engine_->Generate({&request, 1}, {}).ok());
  EngineOptions options;
  options.overrides = {"model.path=" + dir_.path()};
  auto fresh = Engine::Open(options);
  ASSERT_TRUE(fresh.ok());
  EXPECT_THAT(Session::Start(**fresh, {}).status().ToString(), HasSubstr("nothing is loaded"));
}

// The session's callbacks may use it.
TEST_F(SessionTest, ACallbackSubmitsAndCancels) {
  Start(2, 4);
  Heard first;
  Heard second;
  SessionRequest asked = Listen(Request(5, 40), first);
  asked.on_token = [&](const StepRecord& record) {
    if (record.step == 2) {
      EXPECT_TRUE(Submit(Listen(Request(5, 20), second)).ok());
    }
    if (record.step == 5) session_->Cancel(0);
  };
  EXPECT_EQ(*Submit(std::move(asked)), 0);
  AwaitDone(2);
  EXPECT_EQ(first.completion.ids.size(), 11U);
  EXPECT_EQ(second.completion.ids.size(), 25U);
}

}  // namespace
}  // namespace ng
