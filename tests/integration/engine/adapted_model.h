// Adapters made up on the spot, as PEFT writes them, and the same added to the weights of a model.
#ifndef NG_TESTS_INTEGRATION_ENGINE_ADAPTED_MODEL_H_
#define NG_TESTS_INTEGRATION_ENGINE_ADAPTED_MODEL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/files/model_file.h"
#include "core/model/weights/tensor_roles.h"
#include "ng/engine.h"
#include "ng/safetensors.h"
#include "tests/integration/engine/last_logits.h"

namespace ng::test {

inline constexpr int64_t kAdapterRank = 3;

// A matrix of a model that an adapter may add to.
struct AdapterTarget {
  std::string name;
  int64_t n_outputs = 0;
  int64_t n_inputs = 0;
  bool turned = false;  // stored as [inputs, outputs]
};

inline std::vector<NamedTensor> TensorsOf(const std::string& path) {
  std::vector<NamedTensor> tensors;
  const auto file = OpenModel(path);
  EXPECT_TRUE(file.ok()) << file.status();
  for (const TensorInfo& tensor : file->source->tensors()) {
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.n_bytes));
    EXPECT_TRUE(file->source->Read(tensor, bytes).ok());
    NamedTensor& read = tensors.emplace_back(NamedTensor{tensor.name, tensor.shape, {}});
    read.data.resize(static_cast<size_t>(tensor.n_elements));
    ConvertToF32(tensor.dtype, bytes.data(), read.data);
  }
  return tensors;
}

// Every linear layer of the model that is one tensor.
inline std::vector<AdapterTarget> TargetsOf(const std::string& path) {
  const auto file = OpenModel(path);
  EXPECT_TRUE(file.ok()) << file.status();
  std::vector<AdapterTarget> targets;
  std::set<std::string> seen;
  for (const TensorBinding& binding : file->bindings) {
    const TensorInfo& tensor = *binding.tensor;
    const bool of_head = binding.role == TensorRole::kKUp || binding.role == TensorRole::kVUp;
    if (!IsMatrix(binding.role) || tensor.shape.size() != 2 || !tensor.name.ends_with(".weight") ||
        (binding.n_parts > 1 && !of_head) || binding.role == TensorRole::kTokenEmbedding ||
        binding.role == TensorRole::kLayerEmbedding ||
        (file->head_copy && binding.role == TensorRole::kHead) ||
        !seen.insert(tensor.name).second) {
      continue;
    }
    const bool turned = binding.transposed && !of_head;
    targets.push_back(
        {tensor.name, tensor.shape[turned ? 1 : 0], tensor.shape[turned ? 0 : 1], turned});
  }
  return targets;
}

// A folder as PEFT writes it, and the same added to the weights of a model.
class Adapter {
 public:
  explicit Adapter(uint32_t seed) : random_(seed) {}

  // Random a and b for a target, times `scale` when they are added to `model`. With `magnitudes`
  // each output becomes one of another norm too.
  void Add(const AdapterTarget& target, double scale, bool magnitudes,
           std::vector<NamedTensor>& model) {
    const std::string module = target.name.substr(0, target.name.size() - 7);
    const NamedTensor& a = Make(module + ".lora_A.weight", {kAdapterRank, target.n_inputs}, 0.2F);
    const std::vector<float> of_a = a.data;
    const NamedTensor& b = Make(module + ".lora_B.weight", {target.n_outputs, kAdapterRank}, 0.2F);
    const std::vector<float> of_b = b.data;
    std::vector<float> norms;
    if (magnitudes) {
      norms = Make(module + ".lora_magnitude_vector", {target.n_outputs}, 0.5F).data;
      for (float& norm : norms) norm = std::abs(norm) + 0.5F;
      tensors_.back().data = norms;
    }
    NamedTensor& weight = *std::ranges::find(model, target.name, &NamedTensor::name);
    for (int64_t out = 0; out < target.n_outputs; ++out) {
      const auto at = [&](int64_t in) -> float& {
        return weight.data[static_cast<size_t>(target.turned ? in * target.n_outputs + out
                                                             : out * target.n_inputs + in)];
      };
      double squares = 0.0;
      for (int64_t in = 0; in < target.n_inputs; ++in) {
        double sum = 0.0;
        for (int64_t r = 0; r < kAdapterRank; ++r) {
          sum += double{of_b[static_cast<size_t>(out * kAdapterRank + r)]} *
                 of_a[static_cast<size_t>(r * target.n_inputs + in)];
        }
        at(in) += static_cast<float>(scale * sum);
        squares += double{at(in)} * at(in);
      }
      for (int64_t in = 0; in < target.n_inputs && magnitudes; ++in) {
        at(in) *= static_cast<float>(norms[static_cast<size_t>(out)] / std::sqrt(squares));
      }
    }
  }

  NamedTensor& Make(const std::string& name, const std::vector<int64_t>& shape, float deviation) {
    int64_t n = 1;
    for (const int64_t extent : shape) n *= extent;
    NamedTensor& made = tensors_.emplace_back(NamedTensor{"base_model.model." + name, shape, {}});
    std::normal_distribution<float> draw(0.0F, deviation);
    for (int64_t i = 0; i < n; ++i) made.data.push_back(draw(random_));
    return made;
  }

  std::vector<NamedTensor>& tensors() { return tensors_; }

  std::string WriteTo(const std::string& folder, const nlohmann::json& changes = {}) const {
    std::filesystem::create_directories(folder);
    nlohmann::json config = {
        {"peft_type", "LORA"}, {"r", kAdapterRank}, {"lora_alpha", 2 * kAdapterRank}};
    config.update(changes.is_null() ? nlohmann::json::object() : changes);
    std::ofstream(folder + "/adapter_config.json") << config.dump();
    EXPECT_TRUE(WriteSafetensors(folder + "/adapter_model.safetensors", tensors_).ok());
    return folder;
  }

 private:
  std::mt19937 random_;
  std::vector<NamedTensor> tensors_;
};

inline void WriteModel(const std::string& like, const std::vector<NamedTensor>& tensors,
                       const std::string& folder) {
  std::filesystem::create_directories(folder);
  for (const char* name : {"config.json", "generation_config.json"}) {
    const std::string from = absl::StrCat(like, "/", name);
    if (std::filesystem::exists(from)) std::filesystem::copy(from, absl::StrCat(folder, "/", name));
  }
  ASSERT_TRUE(WriteSafetensors(folder + "/model.safetensors", tensors).ok());
}

inline const std::vector<int32_t> kAdaptedTokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};

inline absl::StatusOr<std::unique_ptr<Engine>> OpenAdapted(
    const std::string& model, const std::string& adapters,
    const std::vector<std::string>& more = {}) {
  EngineOptions options;
  options.overrides = {"model.path=" + model, "model.weights=f32", "run.threads=2",
                       "tokenizer.chat_template=none"};
  if (!adapters.empty()) options.overrides.push_back("model.adapters=" + adapters);
  options.overrides.insert(options.overrides.end(), more.begin(), more.end());
  return Engine::Open(options);
}

// The logits after kAdaptedTokens, fed `chunk` tokens at a time.
inline std::vector<float> AdaptedLogits(const std::string& model, const std::string& adapters,
                                        const std::vector<std::string>& more = {},
                                        size_t chunk = 100) {
  const auto engine = OpenAdapted(model, adapters, more);
  EXPECT_TRUE(engine.ok()) << engine.status();
  if (!engine.ok()) return {};
  RunNeeds needs;
  needs.max_tokens = std::ssize(kAdaptedTokens);
  const absl::Status loaded = (*engine)->Load(needs);
  EXPECT_TRUE(loaded.ok()) << loaded;
  if (!loaded.ok()) return {};
  const auto sequence = (*engine)->OpenSequence(std::ssize(kAdaptedTokens));
  EXPECT_TRUE(sequence.ok()) << sequence.status();
  std::vector<float> logits;
  for (size_t at = 0; at < kAdaptedTokens.size(); at += chunk) {
    const size_t end = std::min(at + chunk, kAdaptedTokens.size());
    logits = LastLogits(**engine, *sequence,
                        {kAdaptedTokens.begin() + static_cast<int64_t>(at),
                         kAdaptedTokens.begin() + static_cast<int64_t>(end)});
  }
  return logits;
}

// The largest difference, as a part of the largest logit.
inline float ApartBy(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float most = 0.0F;
  float largest = 0.0F;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return most / largest;
}

}  // namespace ng::test

#endif  // NG_TESTS_INTEGRATION_ENGINE_ADAPTED_MODEL_H_
