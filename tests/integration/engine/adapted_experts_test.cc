// Adapters of mixtures: pairs of parameters that hold a matrix of every expert.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/integration/engine/adapted_model.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

// A model whose experts' matrices are all added to by one pair a parameter.
struct ExpertsCase {
  const char* model;
  const char* experts;  // of a layer
  // How the parameters are stored, and which of their extents PEFT takes for the inputs.
  bool apart = false;         // [outputs, inputs] of each expert, gate and up too
  bool inputs_first = false;  // [experts, inputs, outputs], else [experts, outputs, inputs]
  bool turned = false;
};

// A matrix of an expert in a parameter: its elements.
using ExpertElement = std::function<float&(int64_t expert, int64_t out, int64_t in)>;

class ExpertsModel {
 public:
  explicit ExpertsModel(const ExpertsCase& of)
      : of_(of), tensors_(TensorsOf(absl::StrCat(NG_TEST_DATA, "/golden/", of.model))) {}

  // Adds to both parameters of each layer that has experts.
  void AddTo(Adapter& adapter) {
    for (int layer = 0; layer < 8; ++layer) {
      const std::string experts = absl::StrReplaceAll(of_.experts, {{"{}", absl::StrCat(layer)}});
      const auto down = Find(experts + (of_.apart ? ".0.down_proj.weight" : ".down_proj"));
      if (down == tensors_.end()) continue;
      const int64_t width = of_.apart ? down->shape[0] : down->shape[of_.inputs_first ? 2 : 1];
      const int64_t inner = of_.apart ? down->shape[1] : down->shape[of_.inputs_first ? 1 : 2];
      n_experts_ = of_.apart ? 0 : down->shape[0];
      while (of_.apart &&
             Find(absl::StrCat(experts, ".", n_experts_, ".down_proj.weight")) != tensors_.end()) {
        ++n_experts_;
      }
      AddPair(adapter, experts + ".base_layer", 2 * inner, width,
              [&](int64_t expert, int64_t out, int64_t in) -> float& {
                if (!of_.apart) return Stacked(experts + ".gate_up_proj", expert, out, in);
                return Apart(
                    absl::StrCat(experts, ".", expert, out < inner ? ".gate_proj" : ".up_proj"),
                    out % inner, in);
              });
      AddPair(adapter, experts, width, inner,
              [&](int64_t expert, int64_t out, int64_t in) -> float& {
                if (!of_.apart) return Stacked(experts + ".down_proj", expert, out, in);
                return Apart(absl::StrCat(experts, ".", expert, ".down_proj"), out, in);
              });
    }
  }

  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  std::vector<NamedTensor>::iterator Find(const std::string& name) {
    return std::ranges::find(tensors_, name, &NamedTensor::name);
  }
  float& Apart(const std::string& module, int64_t out, int64_t in) {
    NamedTensor& tensor = *Find(module + ".weight");
    return tensor.data[static_cast<size_t>(out * tensor.shape[1] + in)];
  }
  float& Stacked(const std::string& name, int64_t expert, int64_t out, int64_t in) {
    NamedTensor& tensor = *Find(name);
    const int64_t row = of_.inputs_first ? in : out;
    const int64_t column = of_.inputs_first ? out : in;
    return tensor
        .data[static_cast<size_t>((expert * tensor.shape[1] + row) * tensor.shape[2] + column)];
  }
  // PEFT: einsum("o r e, e r i -> e o i") of b [o, r, e] and a [e, r, i]
  void AddPair(Adapter& adapter, const std::string& module, int64_t n_outputs, int64_t n_inputs,
               const ExpertElement& at) {
    if (of_.turned) std::swap(n_outputs, n_inputs);
    const std::vector<float> a =
        adapter.Make(module + ".lora_A.weight", {n_experts_ * kAdapterRank, n_inputs}, 0.2F).data;
    const std::vector<float> b =
        adapter.Make(module + ".lora_B.weight", {n_outputs, kAdapterRank * n_experts_}, 0.2F).data;
    for (int64_t expert = 0; expert < n_experts_; ++expert) {
      for (int64_t out = 0; out < n_outputs; ++out) {
        for (int64_t in = 0; in < n_inputs; ++in) {
          double sum = 0.0;
          for (int64_t r = 0; r < kAdapterRank; ++r) {
            sum += double{a[static_cast<size_t>((expert * kAdapterRank + r) * n_inputs + in)]} *
                   b[static_cast<size_t>((out * kAdapterRank + r) * n_experts_ + expert)];
          }
          (of_.turned ? at(expert, in, out) : at(expert, out, in)) += static_cast<float>(2.0 * sum);
        }
      }
    }
  }

  const ExpertsCase& of_;
  std::vector<NamedTensor> tensors_;
  int64_t n_experts_ = 0;
};

TEST(Adapters, AddToAllExpertsAtOnce) {
  const ExpertsCase cases[] = {
      {.model = "qwen3_moe/tiny", .experts = "model.layers.{}.mlp.experts"},
      {.model = "deepseek_v3/tiny", .experts = "model.layers.{}.mlp.experts", .apart = true},
      {.model = "gpt_oss/tiny", .experts = "model.layers.{}.mlp.experts", .inputs_first = true},
      {.model = "llama4/tiny",
       .experts = "model.layers.{}.feed_forward.experts",
       .inputs_first = true,
       .turned = true}};
  for (const ExpertsCase& of : cases) {
    const TempDir dir;
    const std::string base = absl::StrCat(NG_TEST_DATA, "/golden/", of.model);
    ExpertsModel model(of);
    Adapter adapter(31);
    model.AddTo(adapter);
    ASSERT_FALSE(adapter.tensors().empty());
    const std::string path = adapter.WriteTo(
        dir.File("adapter"), {{"target_parameters", {"gate_up_proj", "experts.down_proj"}}});
    WriteModel(base, model.tensors(), dir.File("merged"));
    const std::vector<float> adapted = AdaptedLogits(base, path);
    EXPECT_LT(ApartBy(adapted, AdaptedLogits(dir.File("merged"), "")), 1e-4F) << of.model;
    EXPECT_GT(ApartBy(adapted, AdaptedLogits(base, "")), 1e-3F) << of.model;
  }
}

}  // namespace
}  // namespace ng::test
