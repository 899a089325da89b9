// A model on disk, recognised and checked, before any weight is read.
//
// Its family (families.h) says how config.json is read and what its tensors are called; the decoder
// is one and the same.
#ifndef NG_CORE_MODEL_FILES_MODEL_FILE_H_
#define NG_CORE_MODEL_FILES_MODEL_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/gguf.h"
#include "core/formats/key_policy.h"
#include "core/formats/tensor_source.h"
#include "core/model/families/families.h"
#include "core/model/files/suggested_sampling.h"
#include "core/model/spec/model_spec.h"
#include "ng/status.h"

namespace ng {

// Rows of a matrix; of = 0: all.
struct RowRange {
  int64_t first = 0;
  int64_t n = 0;
  int64_t of = 0;  // that the matrix has

  // What so many of its rows have of what all have.
  int64_t Share(int64_t all, int64_t n_rows) const { return of == 0 ? all : all / of * n_rows; }
};

// One tensor of the file, or one of its equal parts, or rows of that, and where it goes.
struct TensorBinding {
  TensorRole role = TensorRole::kTokenEmbedding;
  TensorSite at = {};
  const TensorInfo* tensor = nullptr;
  bool transposed = false;  // a matrix of [inputs, outputs]
  int64_t part = 0;
  int64_t n_parts = 1;
  StoredOrder order = StoredOrder::kPlain;
  RowRange rows = {};  // of the part

  int64_t n_elements() const { return rows.Share(tensor->n_elements / n_parts, rows.n); }
  int64_t n_bytes() const { return rows.Share(tensor->n_bytes / n_parts, rows.n); }
  int64_t first_byte() const {
    const int64_t bytes = tensor->n_bytes / n_parts;
    return part * bytes + (rows.of == 0 ? 0 : rows.Share(bytes, rows.first));
  }
};

struct ModelFile {
  ModelSpec spec;
  std::unique_ptr<TensorSource> source;
  std::vector<TensorBinding> bindings;    // every role that the family has, each once
  std::vector<const TensorInfo*> unused;  // tensors in the file that nothing asks for
  // A tied head that the file holds a second time; it is bound and must equal the embedding.
  bool head_copy = false;
  bool random_weights = false;  // the weights are random
  bool of_gguf = false;         // a GGUF file
  // How the file's matrices are quantised, and what its format rounds beside them and ng does not;
  // empty: not, but for types of GGUF.
  std::string quantised;
  std::vector<std::string> not_rounded;
  // What the user should know about the file though it can run: lines that name it.
  std::vector<std::string> warnings;
  // The tokens that end a text by the model's own metadata, which may name ids that its vocabulary
  // does not have; and where they were found.
  std::vector<int32_t> eos_ids;
  std::string eos_origin;
  // What the model suggests to the sampler.
  SamplingSuggestions sampling;
  // Of a GGUF file all key-values: it holds its tokenizer and chat template too.
  std::optional<GgufMetadata> metadata;

  const TensorInfo* Find(TensorRole role, int layer = -1) const;
};

// Opens a folder with config.json and *.safetensors, or a GGUF file. Keys and tensors that nobody
// uses are in doubt (key_policy.h); those of a GGUF file once its tokenizer was read too, by
// CheckGgufKeys. Errors: ModelFileError naming the file, the key or tensor, what was found and what
// is expected; also when the layers in the file and the config's count differ, and for a tensor of
// a GGUF file that has no place in the model.
absl::StatusOr<ModelFile> OpenModel(const std::string& path, KeyPolicy& keys);

// Makes the model that of runs beyond spec.shape.max_positions: ModelSpec::UseLongContext, and the
// tensor of RoPE's factors where a GGUF file has one. REQUIRES: spec.far_positions > 0. Errors:
// ModelFileError: that tensor has another shape.
absl::Status UseLongContext(ModelFile* file);

// The model that a config.json of any family describes, with random weights (random_source.h).
// Errors: ModelFileError naming the file and the key.
absl::StatusOr<ModelFile> OpenRandomModel(const std::string& config_path, KeyPolicy& keys);

// The same with no key left out, and nobody hears of a doubt.
inline absl::StatusOr<ModelFile> OpenModel(const std::string& path) {
  KeyPolicy keys;
  return OpenModel(path, keys);
}
inline absl::StatusOr<ModelFile> OpenRandomModel(const std::string& config_path) {
  KeyPolicy keys;
  return OpenRandomModel(config_path, keys);
}

// What the model at `path` suggests to the sampler, without a look at its weights; nothing where no
// model is there. Errors: ModelFileError.
absl::StatusOr<SamplingSuggestions> ReadSamplingOf(const std::string& path, KeyPolicy& keys);

// The keys of a GGUF file that nobody read are in doubt, but those that begin with one of
// `unasked`: what they say the user has from elsewhere.
absl::Status CheckGgufKeys(const GgufMetadata& metadata, const std::string& family,
                           const std::vector<std::string>& unasked, const KeyPolicy& keys);

}  // namespace ng

#endif  // NG_CORE_MODEL_FILES_MODEL_FILE_H_
