// What a plugin's policy does wrong becomes an error that names the plugin.
#include "core/plugin/guarded_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ng {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ScoreBody = std::function<absl::Status(std::span<float>)>;

class PolicyHere final : public Policy {
 public:
  PolicyHere(ScoreBody body, std::vector<std::string_view> needs)
      : body_(std::move(body)), needs_(std::move(needs)) {}
  std::span<const std::string_view> needs() const override { return needs_; }
  absl::Status Score(const HeldTokens& /*tokens*/, std::span<float> scores) const override {
    return body_(scores);
  }

 private:
  const ScoreBody body_;
  const std::vector<std::string_view> needs_;
};

absl::StatusOr<std::unique_ptr<Policy>> PolicyGuarded(ScoreBody body,
                                                      std::vector<std::string_view> needs = {
                                                          kNeedKeys}) {
  static constexpr PluginDescriptor kDescriptor = EveryCpuPlugin("policy", "here", "1", "", {});
  return GuardedPolicy::Make({&kDescriptor, "/lib/here.so"},
                             std::make_unique<PolicyHere>(std::move(body), std::move(needs)));
}

absl::Status ScoreOf(ScoreBody body) {
  const auto policy = PolicyGuarded(std::move(body)).value();
  static constexpr int32_t kPositions[] = {3, 5, 8};
  HeldTokens tokens;
  tokens.layer = 2;
  tokens.kv_head = 1;
  tokens.positions = kPositions;
  std::vector<float> scores(3);
  return policy->Score(tokens, scores);
}

TEST(GuardedPolicy, HandsOnScoresAndNeeds) {
  const auto policy = PolicyGuarded([](auto) { return absl::OkStatus(); });
  ASSERT_TRUE(policy.ok());
  EXPECT_THAT((*policy)->needs(), ElementsAre(kNeedKeys));
  EXPECT_TRUE(ScoreOf([](std::span<float> scores) {
                scores[1] = -INFINITY;
                return absl::OkStatus();
              }).ok());
}

TEST(GuardedPolicy, NamesThePluginOfWhateverFails) {
  const absl::Status refuses = ScoreOf([](auto) { return RuntimeError("no"); });
  EXPECT_EQ(ExitCode(refuses), 4);
  EXPECT_THAT(std::string(refuses.message()),
              HasSubstr("policy plugin 'here' 1 (/lib/here.so): no"));
  const absl::Status throws =
      ScoreOf([](auto) -> absl::Status { throw std::runtime_error("no such thing"); });
  EXPECT_EQ(ExitCode(throws), 4);
  EXPECT_THAT(std::string(throws.message()), HasSubstr("threw: no such thing"));
}

TEST(GuardedPolicy, RefusesAScoreThatIsNan) {
  const absl::Status nan = ScoreOf([](std::span<float> scores) {
    scores[1] = std::nanf("");
    return absl::OkStatus();
  });
  EXPECT_EQ(ExitCode(nan), 6);
  EXPECT_THAT(
      std::string(nan.message()),
      AllOf(HasSubstr("'here'"), HasSubstr("layer 2, kv head 1: the score of position 5 is NaN")));
}

TEST(GuardedPolicy, RefusesANeedWithoutAName) {
  const auto policy = PolicyGuarded([](auto) { return absl::OkStatus(); }, {"the weather"});
  EXPECT_EQ(ExitCode(policy.status()), 4);
  EXPECT_THAT(std::string(policy.status().message()),
              HasSubstr("needs() lists 'the weather', there are: keys, values, attended"));
}

}  // namespace
}  // namespace ng
