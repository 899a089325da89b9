// Budgets by layer: how many tokens each keeps, and what that takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/machine/executor.h"
#include "ng/conform/cache.h"
#include "plugins/attention/flash/flash_attention.h"
#include "plugins/attention/reference/reference_attention.h"
#include "plugins/cache/budget/budget_store.h"
#include "plugins/policy/keydiff/keydiff.h"
#include "plugins/policy/snapkv/snapkv.h"
#include "tests/plugins/cache/make_budget.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::string_view kPyramidLayouts[] = {kLayoutTiles16};

std::vector<int64_t> KeptByLayer(const BudgetOptions& options, int64_t length, int n_layers) {
  std::vector<int64_t> kept;
  for (int layer = 0; layer < n_layers; ++layer) {
    kept.push_back(options.KeptIn(length, layer, n_layers));
  }
  return kept;
}

// Figures of kvpress's formula (PyramidKVPress.get_layer_budget).
TEST(Pyramid, FallsByEqualStepsAsKvpressHasIt) {
  BudgetOptions options{.recent = 16, .at_mark = true, .ratio = 0.25, .beta = 4};
  EXPECT_THAT(KeptByLayer(options, 400, 3), ElementsAre(175, 100, 25));
  options.ratio = 0.75;  // the first layer keeps no more than 400 - 16
  EXPECT_THAT(KeptByLayer(options, 400, 3), ElementsAre(384, 300, 216));
  options.beta = 20;  // the last one would keep 5, fewer than 16: all keep as many
  options.ratio = 0.25;
  EXPECT_THAT(KeptByLayer(options, 400, 3), ElementsAre(100, 100, 100));
  options.ratio = 1.0;
  EXPECT_THAT(KeptByLayer(options, 400, 3), ElementsAre(400, 400, 400));
  options = {.recent = 16, .at_mark = true, .ratio = 0.5, .beta = 4};
  EXPECT_THAT(KeptByLayer(options, 400, 1), ElementsAre(200));  // there kvpress keeps more
}

TEST(Pyramid, HasTheSameBudgetsAtEveryBoundary) {
  const BudgetOptions options{.tokens = 100, .sinks = 4, .recent = 16, .every = 32, .beta = 5};
  EXPECT_THAT(KeptByLayer(options, 1000, 5), ElementsAre(180, 140, 100, 60, 20));
  EXPECT_THAT(KeptByLayer(options, 128, 5), ElementsAre(128, 128, 100, 60, 20));
}

CacheSpec PyramidSpec(int n_layers = 5) {
  return {.n_layers = n_layers,
          .n_kv_heads = 2,
          .head_dim = 5,
          .max_tokens = 400,
          .max_sequences = 2,
          .layouts = kPyramidLayouts};
}

class PyramidStore : public ::testing::Test {
 protected:
  PyramidStore() { context_.executor = executor_.get(); }

  BudgetShape ShapeOf(const CacheSpec& spec, const BudgetOptions& options) const {
    const std::vector<BudgetRule> rules =
        test::OneRule(options, std::make_unique<KeydiffPolicy>(context_));
    return ShapeOfBudget(spec, rules).value();
  }

  std::unique_ptr<Executor> executor_ = MakeExecutor(2);
  PluginContext context_;
};

TEST_F(PyramidStore, LayersHoldTheirOwnNumbersOfTokens) {
  const BudgetOptions options{
      .policy = "mine", .tokens = 100, .sinks = 4, .recent = 16, .every = 32, .beta = 5};
  const CacheSpec spec = PyramidSpec();
  auto store =
      test::MakeBudget(context_, spec, options, std::make_unique<KeydiffPolicy>(context_)).value();
  const SequenceId id = store->Open(400).value();
  std::vector<float> rows(32 * 2 * 5);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i * 7 % 31) - 15.0F;
  const TensorView<const float, 3> view(rows.data(), {32, 2, 5});
  for (int64_t begin = 0; begin < 320; begin += 32) {
    const SequenceRows entry{.sequence = id, .start_pos = begin, .n_tokens = 32};
    for (int layer = 0; layer < 5; ++layer) {
      ASSERT_TRUE(store->Append(layer, {&entry, 1}, view, view).ok());
    }
    ASSERT_TRUE(store->Commit({&entry, 1}).ok());
  }
  std::vector<int64_t> held;
  for (int layer = 0; layer < 5; ++layer) held.push_back(store->View(layer, id, 320).n_slots());
  EXPECT_THAT(held, ElementsAre(180, 140, 100, 60, 20));
  // As much as even budgets take, but for whole tiles.
  BudgetOptions even = options;
  even.beta = 0;
  const auto bytes = [&](const BudgetOptions& of) { return ShapeOf(spec, of).pages.page_bytes; };
  EXPECT_NEAR(static_cast<double>(bytes(options)), static_cast<double>(bytes(even)), 8000);
  EXPECT_EQ(store->plan().slots, 180 + 32);
}

// The layers of a group keep what they keep among all layers of the run.
TEST_F(PyramidStore, GoesByTheLayersOfTheRun) {
  const BudgetOptions options{
      .policy = "mine", .tokens = 100, .sinks = 4, .recent = 16, .every = 32, .beta = 5};
  CacheSpec spec = PyramidSpec(2);
  const int layers[] = {1, 4};
  spec.layers = layers;
  spec.n_run_layers = 5;
  const BudgetShape shape = ShapeOf(spec, options);
  EXPECT_EQ(shape.slots, 140 + 32);
  EXPECT_EQ(shape.layers[1].page_tokens, 64);  // whole tiles of 20 + 32
}

TEST_F(PyramidStore, Conforms) {
  for (const bool at_mark : {false, true}) {
    const BudgetOptions options{.policy = "mine",
                                .tokens = 10,
                                .sinks = 1,
                                .recent = 2,
                                .every = 8,
                                .at_mark = at_mark,
                                .beta = 3};
    const conform::CacheSubject subject{
        .settings = {.quick = true},
        .make =
            [options](const PluginContext& context, const CacheSpec& spec) {
              return test::MakeBudget(context, spec, options,
                                      std::make_unique<SnapkvPolicy>(4, 3, false));
            },
        .backends = {{"reference", CreateReferenceAttention}, {"flash", CreateFlashAttention}}};
    EXPECT_THAT(conform::CheckCache(subject), IsEmpty()) << at_mark;
  }
}

}  // namespace
}  // namespace ng
