// Layers that ask for the same attention share a plan of the backend's.
#include "core/model/ops/layer_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace ng {
namespace {

using ::testing::ElementsAre;

// Remembers what it is asked; the scratch that it wants is its plan's window.
class Witness final : public AttentionBackend {
 public:
  std::span<const std::string_view> layouts() const override {
    static constexpr std::array kLayouts = {kLayoutAny};
    return kLayouts;
  }
  absl::Status Supports(const AttentionSpec&, const CacheFormat&) const override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<AttentionPlan>> NewPlan(const AttentionSpec& spec) override {
    if (spec.window == fails_at) return LimitError("no plan");
    made.push_back(spec.layer);
    return std::make_unique<AttentionPlan>(spec);
  }
  absl::Status Plan(std::span<const SequenceRows> rows, AttentionPlan& plan) override {
    plan.scratch_floats = plan.spec.window * rows[0].n_tokens;
    plan.bytes = 100;
    return absl::OkStatus();
  }
  absl::Status Run(const AttentionPlan& plan, const AttentionRun& run) override {
    ran.push_back(plan.spec.layer * 10 + run.layer);
    return absl::OkStatus();
  }

  int64_t fails_at = -1;
  std::vector<int> made;
  std::vector<int> ran;  // the plan's layer and the run's
};

ModelSpec FourLayers() {
  ModelSpec spec;
  spec.shape = {.n_layers = 4, .n_heads = 2, .n_kv_heads = 1, .head_dim = 16};
  for (const int64_t window : {0, 5, 0, 5}) {
    SelfAttentionSpec attention = AttentionOfShape(spec.shape);
    attention.window = window;
    attention.qkv_bias = window == 0;  // nothing that attention is asked for
    spec.AddLayer(PreNormLayer({}), {attention, {}});
  }
  return spec;
}

TEST(LayerAttention, AsksForAWindowInTheLayersThatHaveOne) {
  const auto specs = AttentionSpecsOf(FourLayers(), /*with_window=*/true);
  std::vector<std::pair<int, int64_t>> asked;
  for (const AttentionSpec& spec : specs) asked.emplace_back(spec.layer, spec.window);
  EXPECT_THAT(asked,
              ElementsAre(std::pair(0, 0), std::pair(1, 5), std::pair(0, 0), std::pair(1, 5)));
  EXPECT_EQ(specs[1].head_dim, 16);
  EXPECT_EQ(specs[1].v_head_dim, 16);
  EXPECT_EQ(specs[1].scale, 0.25F);
  for (const AttentionSpec& spec : AttentionSpecsOf(FourLayers(), /*with_window=*/false)) {
    EXPECT_EQ(spec.layer, 0);
    EXPECT_EQ(spec.window, 0);
  }
}

TEST(LayerAttention, HasOnePlanForLayersThatAskForTheSame) {
  Witness backend;
  auto attention = LayerAttention::Make(backend, AttentionSpecsOf(FourLayers(), true));
  ASSERT_TRUE(attention.ok()) << attention.status();
  EXPECT_THAT(backend.made, ElementsAre(0, 1));
  const SequenceRows rows{.n_tokens = 3};
  ASSERT_TRUE(attention->Plan({&rows, 1}).ok());
  EXPECT_EQ(attention->scratch_floats(), 15);
  EXPECT_EQ(attention->plan_bytes(), 200);
  AttentionRun run;
  for (run.layer = 0; run.layer < 4; ++run.layer) ASSERT_TRUE(attention->Run(run).ok());
  EXPECT_THAT(backend.ran, ElementsAre(0, 11, 2, 13));
}

TEST(LayerAttention, HandsOnThatAPlanCannotBeMade) {
  Witness backend;
  backend.fails_at = 5;
  const auto attention = LayerAttention::Make(backend, AttentionSpecsOf(FourLayers(), true));
  EXPECT_EQ(attention.status(), LimitError("no plan"));
}

}  // namespace
}  // namespace ng
