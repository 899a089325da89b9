// Models whose layers differ in heads, widths and keys (Gemma 4), as GGUF files: they give the
// logits of the files they are made from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/files/model_file.h"
#include "tests/integration/engine/captured_run.h"
#include "tests/support/gguf_model.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using test::GgufBuilder;
using ::testing::HasSubstr;

// What a test changes of a file.
struct Changes {
  std::string without = {};  // a key
  std::string pattern = {};  // bools; empty: the model's
  int64_t n_shared = -1;     // -1: the model's
};

class GgufLayers : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    path_ = absl::StrCat(NG_TEST_DATA, "/golden/gemma4/", GetParam());
    auto opened = OpenModel(path_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    model_ = *std::move(opened);
  }

  const SelfAttentionSpec& AttentionOf(const LayerSpec& layer) const {
    return model_.spec.AttentionOf(layer.front());
  }
  const SelfAttentionSpec& First(bool full) const {
    return AttentionOf(*std::ranges::find_if(model_.spec.layers, [&](const LayerSpec& layer) {
      return (AttentionOf(layer).window == 0) == full;
    }));
  }

  void AddHeads(const Changes& changes, GgufBuilder* gguf) const {
    std::string counts;
    std::string pattern;
    uint32_t n_shared = 0;
    for (const LayerSpec& layer : model_.spec.layers) {
      counts += test::Raw(static_cast<uint32_t>(AttentionOf(layer).n_kv_heads));
      pattern += static_cast<char>(AttentionOf(layer).window > 0);
      n_shared += AttentionOf(layer).has_keys() ? 0 : 1;
    }
    if (!changes.pattern.empty()) pattern = changes.pattern;
    if (changes.n_shared >= 0) n_shared = static_cast<uint32_t>(changes.n_shared);
    gguf->Array("gemma4.attention.head_count_kv", GgufType::kU32, counts.size() / 4, counts)
        .Array("gemma4.attention.sliding_window_pattern", GgufType::kBool, pattern.size(), pattern)
        .U32("gemma4.attention.shared_kv_layers", n_shared);
    for (const bool full : {true, false}) {
      const std::string ending = full ? "" : "_swa";
      const SelfAttentionSpec& attention = First(full);
      const RopeSpec& rope = model_.spec.ropes[static_cast<size_t>(attention.rope)];
      const auto head_dim = static_cast<uint32_t>(attention.head_dim);
      gguf->U32("gemma4.attention.key_length" + ending, head_dim)
          .U32("gemma4.attention.value_length" + ending, head_dim)
          .U32("gemma4.rope.dimension_count" + ending, static_cast<uint32_t>(rope.n_dims))
          .F32("gemma4.rope.freq_base" + ending, static_cast<float>(rope.theta));
    }
  }

  void AddWidths(GgufBuilder* gguf) const {
    std::string widths;
    for (const LayerSpec& layer : model_.spec.layers) {
      const BlockSpec& block = layer[1];
      const int64_t width = block.operation == Operation::kMixture
                                ? model_.spec.mixtures[0].shared.width
                                : model_.spec.FeedForwardOf(block).width;
      widths += test::Raw(static_cast<uint32_t>(width));
    }
    gguf->Array("gemma4.feed_forward_length", GgufType::kU32, widths.size() / 4, widths);
    for (const MixtureSpec& mixture : model_.spec.mixtures) {
      gguf->U32("gemma4.expert_count", static_cast<uint32_t>(mixture.router.n_experts))
          .U32("gemma4.expert_used_count", static_cast<uint32_t>(mixture.router.n_used))
          .U32("gemma4.expert_feed_forward_length", static_cast<uint32_t>(mixture.expert.width));
    }
  }

  // Pairs of a head that stand still have a factor that makes their angle 0.
  void AddFactors(GgufBuilder* gguf) const {
    const RopeSpec& rope = model_.spec.ropes[static_cast<size_t>(First(true).rope)];
    std::vector<float> factors(static_cast<size_t>(rope.n_dims / 2), 1e30F);
    std::fill_n(factors.begin(), rope.n_turning, 1.0F);
    const std::vector<int64_t> shape = {rope.n_dims / 2};
    gguf->Tensor("rope_freqs.weight", shape, DType::kF32, factors);
  }

  std::string Write(const Changes& changes) const {
    const ModelSpec& spec = model_.spec;
    GgufBuilder gguf;
    gguf.Text("general.architecture", "gemma4")
        .U32("gemma4.vocab_size", static_cast<uint32_t>(spec.shape.vocab_size))
        .U32("gemma4.context_length", static_cast<uint32_t>(spec.shape.max_positions))
        .U32("gemma4.embedding_length", static_cast<uint32_t>(spec.width))
        .U32("gemma4.block_count", static_cast<uint32_t>(spec.shape.n_layers))
        .U32("gemma4.attention.head_count", static_cast<uint32_t>(spec.shape.n_heads))
        .F32("gemma4.attention.layer_norm_rms_epsilon", spec.head.norm.eps)
        .F32("gemma4.final_logit_softcapping", spec.head.soft_cap)
        .U32("gemma4.embedding_length_per_layer_input",
             static_cast<uint32_t>(spec.layer_input.width));
    if (changes.without != "sliding_window") {
      gguf.U32("gemma4.attention.sliding_window", static_cast<uint32_t>(First(false).window));
    }
    AddHeads(changes, &gguf);
    AddWidths(&gguf);
    AddFactors(&gguf);
    test::AddTensors(
        model_,
        [](GgufBuilder& to, const std::string& name, const std::vector<int64_t>& shape,
           const std::vector<float>& values) { to.Tensor(name, shape, DType::kF32, values); },
        &gguf);
    return dir_.Write("model.gguf", gguf.Bytes());
  }

  static absl::StatusOr<Completion> Run(const std::string& path) {
    EngineOptions options;
    options.overrides = {"model.path=" + path, "model.weights=f32", "sampler.chain=greedy",
                         "run.stop_ids="};
    return test::CapturedRun(options, {5, 1, 33, 7, 20, 2, 40, 11, 9, 3}, 6);
  }
  std::string ErrorOf(const Changes& changes) const {
    const absl::Status status = OpenModel(Write(changes)).status();
    EXPECT_EQ(ExitCode(status), 3) << status;
    return std::string(status.message());
  }

  test::TempDir dir_;
  std::string path_;
  ModelFile model_;
};

TEST_P(GgufLayers, GiveTheLogitsOfTheirOriginal) {
  test::ExpectSameLogits(Run(Write({})), Run(path_));
}

TEST_P(GgufLayers, ErrorsNameWhatWasFound) {
  EXPECT_THAT(ErrorOf({.without = "sliding_window"}),
              HasSubstr("key \"gemma4.attention.sliding_window\" is missing"));
  EXPECT_THAT(ErrorOf({.pattern = std::string("\1\0", 2)}),
              HasSubstr("sliding_window_pattern\" lists 2 layers, gemma4.block_count is "));
  EXPECT_THAT(ErrorOf({.n_shared = model_.spec.shape.n_layers}),
              HasSubstr("key \"gemma4.attention.shared_kv_layers\" = "));
}

INSTANTIATE_TEST_SUITE_P(Gemma4, GgufLayers, ::testing::Values("inputs", "experts"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ng
