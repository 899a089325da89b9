// The model families as GGUF files have them: how each one's key-values are read, and what its
// tensors are called. Beside families.h, a second table of the same rows.
#ifndef NG_CORE_MODEL_GGUF_FAMILIES_H_
#define NG_CORE_MODEL_GGUF_FAMILIES_H_

#include <string>

#include "core/formats/json.h"
#include "core/model/families.h"
#include "ng/status.h"

namespace ng {

// The family that general.architecture names. Whether its head is tied is in no key: it is where
// the file holds no head. Errors: ModelFileError listing those that are known.
absl::StatusOr<const Family*> FindGgufFamily(const JsonFields& metadata, const std::string& path);

}  // namespace ng

#endif  // NG_CORE_MODEL_GGUF_FAMILIES_H_
