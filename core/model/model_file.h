// A model on disk, recognised and checked, before any weight is read.
//
// A family is data: how its config.json is read, and what its tensors are called. The decoder
// below it is one and the same.
#ifndef NG_CORE_MODEL_MODEL_FILE_H_
#define NG_CORE_MODEL_MODEL_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/formats/tensor_source.h"
#include "ng/plugin.h"
#include "ng/status.h"

namespace ng {

// What the decoder needs to know about a model.
struct ModelSpec {
  std::string family;  // "niels-gpt"
  ModelShape shape;
  int64_t width = 0;      // the residual stream
  int64_t ffn_width = 0;  // the feed-forward layer's inner width
  float norm_eps = 0.0F;  // RMSNorm
  double rope_theta = 0.0;

  int64_t q_width() const { return int64_t{shape.n_heads} * shape.head_dim; }
  int64_t kv_width() const { return int64_t{shape.n_kv_heads} * shape.head_dim; }
};

// The places in the decoder that weights go to. The first group occurs once, the second per layer.
enum class TensorRole {
  kTokenEmbedding,
  kHead,
  kFinalNorm,
  kAttnNorm,
  kQkv,
  kAttnOut,
  kMlpNorm,
  kMlpGate,
  kMlpGateBias,
  kMlpUp,
  kMlpUpBias,
  kMlpDown,
  kMlpDownBias,
};

// One tensor of the file and where it goes.
struct TensorBinding {
  TensorRole role = TensorRole::kTokenEmbedding;
  int layer = -1;  // -1: not in a layer
  const TensorInfo* tensor = nullptr;
};

struct ModelFile {
  ModelSpec spec;
  std::unique_ptr<TensorSource> source;
  std::vector<TensorBinding> bindings;    // every role that the family has, each once
  std::vector<const TensorInfo*> unused;  // tensors in the file that nothing asks for
  // The head is tied to the embedding; a second copy in the file is bound and must be equal.
  bool head_copy = false;

  const TensorInfo* Find(TensorRole role, int layer = -1) const;
};

// Opens a folder with config.json and *.safetensors. Errors: ModelFileError naming the file, the
// key or tensor, what was found and what is expected; also when the layers in the file and the
// config's count differ.
absl::StatusOr<ModelFile> OpenModel(const std::string& path);

}  // namespace ng

#endif  // NG_CORE_MODEL_MODEL_FILE_H_
