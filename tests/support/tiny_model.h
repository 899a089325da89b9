// Small models made up on the spot, written to a folder of their own.
#ifndef NG_TESTS_SUPPORT_TINY_MODEL_H_
#define NG_TESTS_SUPPORT_TINY_MODEL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/formats/safetensors.h"
#include "tests/support/temp_dir.h"

namespace ng::test {

// A niels-gpt with random weights.
struct TinyNiels {
  int64_t vocab_size = 61;
  int64_t max_positions = 64;
  int64_t width = 24;
  int64_t n_layers = 2;
  int64_t n_heads = 3;
  int64_t ffn_width = 40;
  double rope_theta = 10000.0;
  uint64_t seed = 1;

  std::string ConfigJson() const;
  // Every tensor of the model, seeded.
  std::vector<NamedTensor> Tensors() const;
  // Writes config.json and model.safetensors into `dir`; `edit` may change the tensors first.
  void WriteTo(const std::string& dir,
               const std::function<void(std::vector<NamedTensor>&)>& edit = {}) const;
};

// An edit that makes all values of a tensor `value`.
inline std::function<void(std::vector<NamedTensor>&)> Filling(std::string name, float value) {
  return [name = std::move(name), value](std::vector<NamedTensor>& tensors) {
    for (NamedTensor& tensor : tensors) {
      if (tensor.name == name) tensor.data.assign(tensor.data.size(), value);
    }
  };
}

// Copies a model's folder with another context to write into.
void CopyWithContext(const std::string& from, int64_t context, const std::string& to);

}  // namespace ng::test

#endif  // NG_TESTS_SUPPORT_TINY_MODEL_H_
