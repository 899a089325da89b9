// Small models made up on the spot, written to a folder of their own.
#ifndef NG_TESTS_SUPPORT_TINY_MODEL_H_
#define NG_TESTS_SUPPORT_TINY_MODEL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/formats/safetensors.h"

namespace ng::test {

// A folder that goes away with the object.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file and gives its path.
  std::string Write(const std::string& name, const std::string& content) const;

 private:
  std::string path_;
};

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

}  // namespace ng::test

#endif  // NG_TESTS_SUPPORT_TINY_MODEL_H_
