// An adapter on disk, recognised and checked against the model that it is for, before any of its
// values is read: a folder with adapter_config.json and adapter_model.safetensors (PEFT), or a GGUF
// file (general.type = adapter).
#ifndef NG_CORE_MODEL_ADAPTERS_ADAPTER_FILE_H_
#define NG_CORE_MODEL_ADAPTERS_ADAPTER_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/formats/key_policy.h"
#include "core/formats/tensor_source.h"
#include "core/model/files/model_file.h"
#include "ng/status.h"

namespace ng {

// The bindings of each tensor of a model. Borrows the model.
using BindingsByTensor = absl::flat_hash_map<std::string_view, std::vector<const TensorBinding*>>;
BindingsByTensor BindingsByTensorOf(const ModelFile& model);

// What an adapter adds to one tensor of the model: scale * b * a.
struct AdapterPair {
  std::string target;                     // the model's tensor
  const TensorInfo* a = nullptr;          // [rank, inputs]
  const TensorInfo* b = nullptr;          // [outputs, rank]
  const TensorInfo* magnitude = nullptr;  // [outputs] in any shape; null: none (DoRA)
  double scale = 1.0;
  // Of an embedding, a is what is looked up: [rank, vocab_size], and with `rows_first` the other
  // way round. Then outputs are the model's width.
  bool of_embedding = false;
  bool rows_first = false;
  // Of all experts of this layer at once, where target is the name of a parameter, gate_up_proj or
  // down_proj: a is [experts * rank, inputs], b is [outputs, rank * experts], the expert fastest.
  // With `turned` the product is of the tensor as it is stored, [experts, inputs, outputs]: a is
  // [experts * rank, outputs], b is [inputs, rank * experts].
  int experts_layer = -1;
  bool turned = false;
  int64_t n_experts = 1;
};

struct AdapterFile {
  std::string path;
  std::unique_ptr<TensorSource> source;
  std::vector<AdapterPair> pairs;
  // The adapter's own tensors that stand in place of the model's, with the name that these have.
  struct Replaced {
    std::string target;
    const TensorInfo* tensor = nullptr;
  };
  std::vector<Replaced> replaced;

  static int64_t RankOf(const AdapterPair& pair) { return pair.b->shape[1] / pair.n_experts; }
};

// Errors: ModelFileError naming the file, the tensor or key, what was found and what is allowed: a
// tensor that the model lacks, or of another shape; a folder for a model from a GGUF file or the
// other way round.
absl::StatusOr<AdapterFile> OpenAdapter(const std::string& path, const ModelFile& model,
                                        const KeyPolicy& keys);

}  // namespace ng

#endif  // NG_CORE_MODEL_ADAPTERS_ADAPTER_FILE_H_
