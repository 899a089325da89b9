#include "core/runtime/engine/sampler_maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Chains are made of settings by a function that waits while the test holds it.
class SamplerMakerTest : public ::testing::Test {
 protected:
  SamplerMakerTest() { EXPECT_TRUE(maker_.Start().ok()); }

  absl::StatusOr<RequestSampler> Make(std::span<const std::string> settings,
                                      const RequestSamplers::Stop& stop) {
    std::unique_lock lock(mutex_);
    made_of_.push_back(settings.front());
    changed_.notify_all();
    if (settings.front() == "until it is stopped") {
      lock.unlock();
      while (!*stop) std::this_thread::yield();
      return InterruptedError("stopped");
    }
    if (settings.front() == "wrong") return UsageError("wrong");
    changed_.wait(lock, [&] { return !held_; });
    return RequestSampler{std::make_shared<SamplerChain>(std::vector<ChainStage>(), 8), 1};
  }
  void Hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  // Waits until so many have been begun.
  std::vector<std::string> Begun(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return made_of_.size() >= n; });
    return made_of_;
  }
  // Waits until so many have ended since the start, and takes those that nobody took.
  SamplerMaker::Jobs Take(size_t n_ended) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return n_ended_ >= n_ended; });
    }
    return maker_.Take();
  }
  std::vector<int64_t> TakeIds(size_t n_ended) {
    std::vector<int64_t> ids;
    for (const SamplerMaker::Job& job : Take(n_ended)) ids.push_back(job.id);
    return ids;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  std::vector<std::string> made_of_;
  size_t n_ended_ = 0;
  SamplerChain common_{std::vector<ChainStage>(), 8};
  RequestSamplers samplers_{
      common_, 1,
      [this](std::span<const std::string> settings, const std::shared_ptr<SamplerChain>& shared,
             const RequestSamplers::Stop& stop) {
        return shared == nullptr ? Make(settings, stop)
                                 : absl::StatusOr<RequestSampler>(RequestSampler{shared, 1});
      }};
  SamplerMaker maker_{samplers_, [this] {
                        const std::lock_guard lock(mutex_);
                        ++n_ended_;
                        changed_.notify_all();
                      }};
};

TEST_F(SamplerMakerTest, MakesTheShortestFirst) {
  Hold(true);
  maker_.Allow(8);
  maker_.Ask(1, {"the first of all"});
  Begun(1);
  maker_.Ask(2, {"a long one", "of two"});
  maker_.Ask(3, {"shorter"});
  maker_.Ask(4, {"shorter"});
  maker_.Ask(5, {"short"});
  Hold(false);
  EXPECT_THAT(TakeIds(5), ElementsAre(1, 5, 3, 4, 2));
  // Those with the same settings have one chain.
  EXPECT_THAT(Begun(4), ElementsAre("the first of all", "short", "shorter", "a long one"));
}

TEST_F(SamplerMakerTest, MakesNoMoreAheadThanItMay) {
  for (int i = 0; i < 4; ++i) maker_.Ask(i, {std::string(1, static_cast<char>('a' + i))});
  maker_.Allow(2);
  EXPECT_THAT(TakeIds(2), ElementsAre(0, 1));
  EXPECT_THAT(TakeIds(4), ElementsAre(2, 3));
  maker_.Allow(0);
  maker_.Ask(4, {"e"});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(maker_.Take(), IsEmpty());
  maker_.Allow(1);
  EXPECT_THAT(TakeIds(5), ElementsAre(4));
}

TEST_F(SamplerMakerTest, WhatIsDroppedIsMadeNoMore) {
  Hold(true);
  maker_.Allow(8);
  maker_.Ask(1, {"until it is stopped"});
  Begun(1);
  maker_.Ask(2, {"never"});
  maker_.Ask(3, {"wrong"});
  maker_.Drop(2);
  maker_.Drop(1);
  maker_.Drop(77);
  Hold(false);
  const SamplerMaker::Jobs jobs = Take(2);
  ASSERT_EQ(jobs.front().id, 3);
  EXPECT_EQ(ExitCode(jobs.front().sampler.status()), 2);
  maker_.Ask(4, {"once more"});
  EXPECT_THAT(TakeIds(3), ElementsAre(4));
  EXPECT_THAT(Begun(3), ElementsAre("until it is stopped", "wrong", "once more"));
}

TEST_F(SamplerMakerTest, StopEndsWhatIsMade) {
  maker_.Allow(8);
  maker_.Ask(1, {"until it is stopped"});
  maker_.Ask(2, {"never, for it is longer than that"});
  Begun(1);
  maker_.Stop();
  EXPECT_THAT(Begun(1), ElementsAre("until it is stopped"));
}

}  // namespace
}  // namespace ng
