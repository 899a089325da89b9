// A conversation is read once: what was computed of a text, the answer too, is there for the next
// turn, in models of every kind, and every answer has the bits of a run by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "ng/session.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kSequenceTokens = 320;
constexpr int64_t kPage = 16;
constexpr int kSequences = 3;

// A model of the goldens with room for long texts.
std::string LongerModel(const test::TempDir& dir, const std::string& golden) {
  constexpr int64_t kContext = 2048;
  test::CopyWithContext(NG_TEST_DATA "/golden/" + golden, kContext, dir.path());
  return dir.path();
}

// A request, and what was told of it.
struct Asked {
  explicit Asked(Ids ids, int64_t its_mark = 0, int64_t most = 8, int64_t its_draw = 0)
      : prompt(std::move(ids)), mark(its_mark), max_new_tokens(most), draw(its_draw) {}

  Ids prompt;
  int64_t mark;
  int64_t max_new_tokens;
  int64_t draw;
  int64_t cancel_at = -1;  // tokens; -1: never
  // Told.
  std::atomic<int64_t> id = -1;
  Ids tokens = {};
  std::vector<std::vector<std::pair<int32_t, double>>> tops = {};
  absl::Status status = {};
  Completion completion = {};
};
using Round = std::vector<std::unique_ptr<Asked>>;

class Conversations : public ::testing::TestWithParam<std::string> {
 protected:
  ~Conversations() override { session_.reset(); }

  std::unique_ptr<Engine> Load(const std::vector<std::string>& more, int max_sequences) {
    EngineOptions options;
    options.overrides = {"model.path=" + path_, "run.stop_ids=", "sampler.chain=temperature",
                         "sampler.temperature.value=1.5", "run.prefill_chunk=32"};
    options.overrides.insert(options.overrides.end(), more.begin(), more.end());
    auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    needs_ = {.max_tokens = kSequenceTokens, .max_sequences = max_sequences};
    const absl::Status loaded = (*engine)->Load(needs_);
    EXPECT_TRUE(loaded.ok()) << loaded;
    return *std::move(engine);
  }

  void Start(const std::vector<std::string>& more = {"cache.checkpoints=12"}) {
    std::vector<std::string> options = {"cache.name=paged",
                                        absl::StrCat("cache.paged.page_tokens=", kPage),
                                        "run.check_plugins=true"};
    options.insert(options.end(), more.begin(), more.end());
    session_.reset();
    engine_ = Load(options, kSequences);
    session_ = Session::Start(*engine_, {.max_waiting = 32}).value();
  }

  SessionRequest Listen(Asked& asked) {
    SessionRequest request;
    request.request.prompt_ids = asked.prompt;
    request.request.max_new_tokens = asked.max_new_tokens;
    request.request.draw = asked.draw;
    request.request.top_logprobs = 5;
    request.mark = asked.mark;
    request.on_token = [this, &asked](const StepRecord& record) {
      asked.tokens.push_back(record.token_id);
      asked.tops.push_back(record.top_logprobs);
      if (std::ssize(asked.tokens) == asked.cancel_at && asked.id >= 0) session_->Cancel(asked.id);
    };
    request.on_done = [this, &asked](const absl::Status& status, Completion& completion) {
      const std::lock_guard lock(mutex_);
      asked.status = status;
      asked.completion = std::move(completion);
      ++n_done_;
      changed_.notify_all();
    };
    return request;
  }

  // Answers all of them, at the same time.
  void Answer(const Round& round) {
    n_done_ = 0;
    for (const std::unique_ptr<Asked>& asked : round) {
      std::vector<SessionRequest> one;
      one.push_back(Listen(*asked));
      const auto id = session_->Submit(std::move(one));
      ASSERT_TRUE(id.ok()) << id.status();
      asked->id = *id;
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return n_done_ == std::ssize(round); });
  }
  std::unique_ptr<Asked> Ask(Ids prompt, int64_t mark = 0, int64_t max_new_tokens = 8) {
    Round round;
    round.push_back(std::make_unique<Asked>(std::move(prompt), mark, max_new_tokens));
    Answer(round);
    EXPECT_TRUE(round[0]->status.ok()) << round[0]->status;
    return std::move(round[0]);
  }
  static int64_t Shared(const Asked& asked) { return asked.completion.timings.shared_tokens; }

  // That a request had the bits of a run by itself, as far as it went.
  void ExpectAsAlone(const Asked& asked) {
    if (plain_ == nullptr) plain_ = Load({"cache.name=contiguous"}, 1);
    GenerateRequest request;
    request.prompt_ids = asked.prompt;
    request.max_new_tokens = asked.max_new_tokens;
    request.draw = asked.draw;
    request.top_logprobs = 5;
    Ids tokens;
    std::vector<std::vector<std::pair<int32_t, double>>> tops;
    GenerateOptions options;
    options.on_step = [&](int /*index*/, const StepRecord& record) {
      tokens.push_back(record.token_id);
      tops.push_back(record.top_logprobs);
      return absl::OkStatus();
    };
    const auto alone = plain_->Generate({&request, 1}, options);
    ASSERT_TRUE(alone.ok()) << alone.status();
    if (asked.cancel_at >= 0) {
      ASSERT_LE(asked.tokens.size(), tokens.size());
      tokens.resize(asked.tokens.size());
      tops.resize(asked.tops.size());
    }
    EXPECT_EQ(asked.tokens, tokens);
    EXPECT_EQ(asked.tops, tops);
  }

  Ids RandomIds(int64_t n) {
    Ids ids;
    for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>(Below(40)));
    return ids;
  }
  static Ids Joined(const Ids& a, const Ids& b) {
    Ids both = a;
    both.insert(both.end(), b.begin(), b.end());
    return both;
  }
  static Ids First(const Ids& ids, int64_t n) { return {ids.begin(), ids.begin() + n}; }
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  static int64_t PlaceBefore(int64_t position) { return position - position % kPage; }

  const test::TempDir dir_;
  const std::string path_ = LongerModel(dir_, GetParam());
  std::mt19937_64 random_{11};
  RunNeeds needs_;
  std::unique_ptr<Engine> plain_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t n_done_ = 0;
};

TEST_P(Conversations, GoOnFromWhereTheAnswerEnds) {
  Start();
  const auto first = Ask(RandomIds(150), 147, 45);
  EXPECT_EQ(Shared(*first), 0);
  const Ids text = first->completion.ids;
  // All but the last token of the answer was fed.
  const auto second = Ask(Joined(text, RandomIds(20)), 212);
  EXPECT_EQ(Shared(*second), PlaceBefore(std::ssize(text) - 1));
  const auto third = Ask(Joined(second->completion.ids, RandomIds(9)), 230);
  EXPECT_EQ(Shared(*third), PlaceBefore(std::ssize(second->completion.ids) - 1));
  for (const auto* one : {&first, &second, &third}) ExpectAsAlone(**one);
}

TEST_P(Conversations, GoOnFromTheMarkWhereTheAnswerIsWrittenInAnotherWay) {
  Start();
  const Ids prompt = RandomIds(150);
  const auto first = Ask(prompt, 131, 90);
  const auto second = Ask(Joined(First(prompt, 131), RandomIds(40)), 165);
  EXPECT_GE(Shared(*second), PlaceBefore(131));
  ExpectAsAlone(*second);
}

TEST_P(Conversations, ShareThePromptWithTheSameOneAgain) {
  Start();
  const Ids prompt = RandomIds(150);
  for (const bool first : {true, false}) {
    const auto asked = Ask(prompt, 131, 20);
    EXPECT_EQ(Shared(*asked), first ? 0 : PlaceBefore(149));
    ExpectAsAlone(*asked);
  }
}

TEST_P(Conversations, ShareOneReadingWhereAPromptHasSeveralAnswers) {
  Start();
  const Ids prompt = RandomIds(150);
  Round round;
  for (int64_t draw = 0; draw < 5; ++draw) {
    round.push_back(std::make_unique<Asked>(prompt, 140, 24, draw));
  }
  Answer(round);
  int64_t n_alone = 0;
  for (const auto& asked : round) {
    n_alone += Shared(*asked) == 0 ? 1 : 0;
    ExpectAsAlone(*asked);
  }
  EXPECT_EQ(n_alone, 1);
  EXPECT_NE(round[0]->tokens, round[1]->tokens);
}

TEST_P(Conversations, ThatBeginAlikeShareTheirBeginningFromTheThirdOn) {
  Start();
  const Ids system = RandomIds(100);
  std::vector<int64_t> shared;
  for (int i = 0; i < 4; ++i) {
    const auto asked = Ask(Joined(system, RandomIds(50)), 140, 4);
    shared.push_back(Shared(*asked));
    ExpectAsAlone(*asked);
  }
  EXPECT_EQ(shared[2], PlaceBefore(100));
  EXPECT_EQ(shared[3], PlaceBefore(100));
}

// Turns, branches, edits, dropped thoughts, the same again, several at a time, some left in the
// middle: with room, and with so little that what was kept must make room.
TEST_P(Conversations, OfManyKindsHaveTheBitsOfRunsAlone) {
  for (const bool narrow : {false, true}) {
    SCOPED_TRACE(narrow ? "narrow" : "wide");
    Start(narrow ? std::vector<std::string>{"cache.checkpoints=3", "cache.paged.pool_tokens=352"}
                 : std::vector<std::string>{"cache.checkpoints=9"});
    std::vector<Ids> texts(4);
    int64_t n_shared = 0;
    for (int turn = 0; turn < 24; ++turn) {
      Round round;
      std::vector<size_t> of;
      for (int64_t i = 1 + Below(4); i-- > 0;) {
        const auto at = static_cast<size_t>(Below(4));
        Ids& text = texts[at];
        if (Below(6) == 0) text = texts[static_cast<size_t>(Below(4))];      // a branch
        if (Below(5) == 0) text = First(text, Below(std::ssize(text) + 1));  // an edit
        if (text.size() > 200) text = First(text, PlaceBefore(Below(100)) + Below(3));
        if (Below(4) != 0 || text.empty()) text = Joined(text, RandomIds(1 + Below(45)));
        auto asked = std::make_unique<Asked>(text);
        asked->mark = std::max<int64_t>(0, std::ssize(text) - Below(12));
        asked->max_new_tokens = 1 + Below(60);
        asked->draw = Below(3);
        if (Below(4) == 0) asked->cancel_at = 1 + Below(8);
        round.push_back(std::move(asked));
        of.push_back(at);
      }
      Answer(round);
      for (size_t i = 0; i < round.size(); ++i) {
        ASSERT_TRUE(round[i]->status.ok()) << round[i]->status;
        ExpectAsAlone(*round[i]);
        n_shared += Shared(*round[i]);
        const bool thought = Below(4) == 0;
        texts[of[i]] = thought ? First(round[i]->prompt, round[i]->mark) : round[i]->completion.ids;
      }
      if (HasFailure()) return;
    }
    EXPECT_GT(n_shared, narrow ? 0 : 500);
    session_->Drain();
    EXPECT_TRUE(session_->Wait().ok());
  }
}

TEST_P(Conversations, TakeNothingWhereTheCacheSharesNothing) {
  const auto contiguous = Load({"cache.name=contiguous", "cache.checkpoints=12"}, kSequences);
  EXPECT_EQ(contiguous->Plan(needs_)->checkpoints, 0);
  const auto alone = Load(
      {"cache.name=paged", "cache.paged.share_prefixes=false", "cache.checkpoints=12"}, kSequences);
  EXPECT_EQ(alone->Plan(needs_)->checkpoints, 0);
}

TEST_P(Conversations, HaveTheirCheckpointsInThePlan) {
  const auto none = Load({"cache.name=paged"}, kSequences);
  const auto some = Load({"cache.name=paged", "cache.checkpoints=12"}, kSequences);
  const RunPlan less = none->Plan(needs_).value();
  const RunPlan more = some->Plan(needs_).value();
  const bool needed = GetParam().starts_with("llama") ? false : true;
  EXPECT_EQ(less.checkpoints, 0);
  EXPECT_EQ(more.checkpoints, needed ? 12 : 0);
  EXPECT_EQ(more.needed_bytes() > less.needed_bytes(), needed);
  EXPECT_EQ(some->Describe(needs_)->find("12 checkpoints") != std::string::npos, needed);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Conversations,
                         ::testing::Values("llama/tied_gqa", "gemma3/tiny", "mistral/window",
                                           "gemma4/inputs", "qwen3_5/tiny", "granite_hybrid/tiny",
                                           "lfm2/tiny", "nemotron_h/tiny"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace ng
