#include "core/runtime/assembly/request_samplers.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace ng {
namespace {

using Settings = std::vector<std::string>;

std::unique_ptr<SamplerChain> NewChain() {
  return std::make_unique<SamplerChain>(std::vector<ChainStage>(), 8);
}

class RequestSamplersTest : public ::testing::Test {
 protected:
  // The chain that these settings have.
  std::shared_ptr<SamplerChain> Chain(const Settings& settings) {
    return samplers_.For(settings)->chain;
  }

  std::unique_ptr<SamplerChain> common_ = NewChain();
  int n_made_ = 0;
  RequestSamplers samplers_{
      *common_, 7,
      [this](std::span<const std::string> settings, const std::shared_ptr<SamplerChain>& shared,
             const RequestSamplers::Stop& /*stop*/) -> absl::StatusOr<RequestSampler> {
        if (settings.back() == "wrong") return UsageError("wrong");
        if (shared == nullptr) ++n_made_;
        return RequestSampler{shared == nullptr ? NewChain() : shared, std::ssize(settings)};
      }};
};

TEST_F(RequestSamplersTest, WithoutSettingsTheEnginesChainIsShared) {
  EXPECT_EQ(Chain({}).get(), common_.get());
  EXPECT_EQ(samplers_.For({})->seed, 7);
  EXPECT_EQ(n_made_, 0);
}

TEST_F(RequestSamplersTest, TheSameSettingsShareAChainWhateverTheSeed) {
  const auto first = Chain({"sampler.chain=greedy", "sampler.seed=1"});
  EXPECT_EQ(Chain({"sampler.chain=greedy"}), first);
  EXPECT_EQ(Chain({"sampler.seed=2", "sampler.chain=greedy"}), first);
  EXPECT_NE(Chain({"sampler.chain=top_k"}), first);
  EXPECT_EQ(samplers_.For(Settings{"sampler.chain=greedy", "sampler.seed=1"})->seed, 2);
  EXPECT_EQ(n_made_, 2);
}

TEST_F(RequestSamplersTest, WhatIsKnownNeedsNothingToBeMade) {
  EXPECT_EQ(samplers_.Known({})->chain.get(), common_.get());
  EXPECT_FALSE(samplers_.Known(Settings{"sampler.chain=greedy"}));
  const auto chain = Chain({"sampler.chain=greedy", "sampler.seed=1"});
  EXPECT_EQ(samplers_.Known(Settings{"sampler.chain=greedy"})->chain, chain);
  EXPECT_EQ(samplers_.Known(Settings{"sampler.chain=greedy"})->seed, 7);
  const Settings twice = {"sampler.seed=3", "sampler.chain=greedy", "sampler.seed=12"};
  EXPECT_EQ(samplers_.Known(twice)->seed, 12);
  EXPECT_EQ(n_made_, 1);
  // Whether these are seeds is for the config to say.
  for (const char* seed : {"sampler.seed=-1", "sampler.seed= 3", "sampler.seed=x",
                           "sampler.seed=", "sampler.seed=99999999999999999999", "seed=3"}) {
    EXPECT_FALSE(samplers_.Known(Settings{"sampler.chain=greedy", seed})) << seed;
  }
}

TEST_F(RequestSamplersTest, AChainIsKeptWhileARequestHasItAndForSomeOthersMore) {
  const auto held = Chain({"a"});
  std::weak_ptr<SamplerChain> let_go = Chain({"b"});
  EXPECT_FALSE(let_go.expired());
  for (const char* other : {"c", "d", "e", "f"}) Chain({other});
  EXPECT_TRUE(let_go.expired());
  EXPECT_EQ(Chain({"a"}), held);
  EXPECT_EQ(n_made_, 6);
}

TEST_F(RequestSamplersTest, AnErrorIsNotKept) {
  EXPECT_FALSE(samplers_.For(Settings{"wrong"}).ok());
  EXPECT_FALSE(samplers_.For(Settings{"wrong"}).ok());
  EXPECT_TRUE(samplers_.For(Settings{"right"}).ok());
  RequestSamplers none(*common_, 1);
  EXPECT_FALSE(none.For(Settings{"right"}).ok());
  EXPECT_TRUE(none.For({}).ok());
}

}  // namespace
}  // namespace ng
