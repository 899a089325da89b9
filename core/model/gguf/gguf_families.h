// The model families as GGUF files have them. Beside families.h, a second table of the same rows:
// what an architecture's models are made of is a LlamaRow (gguf_rows.h), and its tensors' names are
// in gguf_names.h.
#ifndef NG_CORE_MODEL_GGUF_GGUF_FAMILIES_H_
#define NG_CORE_MODEL_GGUF_GGUF_FAMILIES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/formats/gguf.h"
#include "core/formats/tensor_source.h"
#include "core/model/families/families.h"
#include "core/model/spec/model_spec.h"
#include "ng/status.h"

namespace ng {

// What a file's key-values and the names of its tensors say.
struct GgufModel {
  Family family;  // borrows `renamed` and `without`
  ModelSpec spec;
  std::vector<Renamed> renamed;
  std::vector<TensorRole> without;
  int64_t n_further_layers = 0;  // behind those of the spec; nobody asks for them
};

// The model of the architecture that general.architecture names. No key says whether its head is
// tied, or which biases there are: the tensors do. Errors: ModelFileError naming the file, the key,
// the value found and what is allowed.
absl::StatusOr<std::unique_ptr<GgufModel>> ReadGgufModel(const GgufMetadata& metadata,
                                                         const TensorSource& tensors);

// Whether a tensor is one that a model is not bound to when it is opened: factors of RoPE for runs
// beyond the positions that it was first trained on (UseLongContext, model_file.h), or a product of
// others.
bool IsUnaskedGgufTensor(std::string_view name);

}  // namespace ng

#endif  // NG_CORE_MODEL_GGUF_GGUF_FAMILIES_H_
