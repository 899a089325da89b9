// The shapes of a decode step, and the three masking regimes of a cached run, which here are one
// rule.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

constexpr int64_t kVocab = 61;

class CausalMask : public ::testing::TestWithParam<std::string> {
 protected:
  // B = 2, n_layer = 3, n_head = 4, n_embd = 32, head_dim = 8.
  CausalMask() {
    model_.n_layers = 3;
    model_.n_heads = 4;
    model_.width = 32;
    model_.WriteTo(dir_.path());
  }

  std::unique_ptr<Engine> Open(int prefill_chunk) {
    EngineOptions options;
    options.overrides = {"model.path=" + dir_.path(), "sampler.chain=greedy",
                         "attention.name=" + GetParam(),
                         absl::StrCat("run.prefill_chunk=", prefill_chunk)};
    auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  // The logits of every prompt row, fed in chunks.
  std::vector<float> PromptLogits(const std::vector<int32_t>& ids, int prefill_chunk) {
    const auto engine = Open(prefill_chunk);
    const GenerateRequest request{ids, 1, {}};
    EXPECT_TRUE(engine->Load(Needs({&request, 1})).ok());
    GenerateOptions keep;
    keep.capture_logits = true;
    auto done = engine->Generate({&request, 1}, keep);
    EXPECT_TRUE(done.ok()) << done.status();
    return (*done)[0].captured.logits;
  }

  // The first row whose logits differ between two prompts of one length.
  static int64_t FirstDifferentRow(const std::vector<float>& a, const std::vector<float>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) return static_cast<int64_t>(i) / kVocab;
    }
    return static_cast<int64_t>(a.size()) / kVocab;
  }

  test::TinyNiels model_;
  test::TempDir dir_;
};

std::vector<int32_t> FirstIds(int n) {
  std::vector<int32_t> ids;
  for (int i = 0; i < n; ++i) ids.push_back((7 * i + 3) % static_cast<int>(kVocab));
  return ids;
}

TEST_P(CausalMask, ToyExampleDecodeStepHasTheContractsShapes) {
  const auto engine = Open(0);
  ASSERT_TRUE(engine->Load({16, 2}).ok());
  EXPECT_EQ(engine->model_shape().head_dim, 8);
  EXPECT_EQ(engine->model_shape().n_layers, 3);
  const auto a = engine->OpenSequence(16);
  const auto b = engine->OpenSequence(16);
  ASSERT_TRUE(a.ok() && b.ok());
  const std::vector<SequenceId> batch = {*a, *b};
  const std::vector<std::vector<int32_t>> prompts = {FirstIds(10), FirstIds(10)};
  ASSERT_TRUE(engine->Prefill(batch, prompts).ok());  // T_past = 10
  const auto step = engine->DecodeStep(batch, std::vector<int32_t>{1, 2});
  ASSERT_TRUE(step.ok());
  EXPECT_EQ(step->logits.extent[0], 2);  // (B, 1, vocab_size)
  EXPECT_EQ(step->logits.extent[1], kVocab);
  EXPECT_EQ(engine->SequenceLength(*a), 11);  // T_total = 11
  EXPECT_EQ(engine->SequenceLength(*b), 11);
}

// Regime 1: the full sequence is given; a causal mask is required.
TEST_P(CausalMask, PrefillMasksCausally) {
  const std::vector<int32_t> ids = FirstIds(12);
  const std::vector<float> logits = PromptLogits(ids, 0);
  for (int changed = 1; changed < 12; ++changed) {
    std::vector<int32_t> other = ids;
    other[static_cast<size_t>(changed)] = (ids[static_cast<size_t>(changed)] + 1) % 61;
    // Rows before the changed token do not see it; its own row does.
    EXPECT_EQ(FirstDifferentRow(logits, PromptLogits(other, 0)), changed);
  }
}

// Regime 2: one new token; every cached key is visible and no mask is needed.
TEST_P(CausalMask, DecodeStepSeesEveryCachedKey) {
  const std::vector<int32_t> ids = FirstIds(11);
  const std::vector<float> logits = PromptLogits(ids, 1);
  EXPECT_EQ(logits, PromptLogits(ids, 0));
  for (size_t changed = 0; changed < 10; ++changed) {
    std::vector<int32_t> other = ids;
    other[changed] = (ids[changed] + 1) % 61;
    const std::vector<float> changed_logits = PromptLogits(other, 1);
    const std::vector<float> last(logits.end() - kVocab, logits.end());
    const std::vector<float> changed_last(changed_logits.end() - kVocab, changed_logits.end());
    EXPECT_NE(last, changed_last) << "key " << changed << " is not seen";
  }
}

// Regime 3: several new tokens behind cached ones; token i sees keys up to T_past + i.
TEST_P(CausalMask, ChunkedDecodeMasksWithAnOffset) {
  const std::vector<int32_t> ids = FirstIds(14);
  const std::vector<float> logits = PromptLogits(ids, 10);  // T_past = 10, T_new = 4
  EXPECT_EQ(logits, PromptLogits(ids, 0));
  for (int i = 0; i < 4; ++i) {
    std::vector<int32_t> other = ids;
    const auto changed = size_t{10} + static_cast<size_t>(i);
    other[changed] = (ids[changed] + 1) % 61;
    EXPECT_EQ(FirstDifferentRow(logits, PromptLogits(other, 10)), 10 + i);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, CausalMask, ::testing::Values("reference", "flash"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ng
