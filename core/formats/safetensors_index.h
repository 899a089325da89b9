// Weights in several .safetensors files, listed by a model.safetensors.index.json.
#ifndef NG_CORE_FORMATS_SAFETENSORS_INDEX_H_
#define NG_CORE_FORMATS_SAFETENSORS_INDEX_H_

#include <memory>
#include <string>
#include <vector>

#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

struct SafetensorsIndex {
  std::unique_ptr<TensorSource> source;  // its path() is the index
  std::vector<std::string> doubts;       // what is odd about it, each a line that names the index
};

// Opens every file that the index names, all in its folder. The index is the authority: a tensor is
// read from the file that it names. One that it does not name, or not for a file that holds it, is
// read from the last file that does, and doubted; so is each copy that is not read, and a name that
// no file holds. Errors: ModelFileError naming the index or the file, the value found and the value
// allowed.
absl::StatusOr<SafetensorsIndex> OpenSafetensorsIndex(const std::string& index_path);

}  // namespace ng

#endif  // NG_CORE_FORMATS_SAFETENSORS_INDEX_H_
