// Models in several GGUF files.
#ifndef NG_CORE_FORMATS_GGUF_SHARDS_H_
#define NG_CORE_FORMATS_GGUF_SHARDS_H_

#include "core/formats/gguf.h"
#include "ng/status.h"

namespace ng {

// The file with the tensors of those that follow it. They lie beside it, and their names differ in
// their numbers. Errors: ModelFileError naming the file: it is not the first, one is missing or is
// not what its name says, or they do not hold as many tensors as the first one says.
absl::StatusOr<GgufFile> WithFurtherGgufs(GgufFile first);

}  // namespace ng

#endif  // NG_CORE_FORMATS_GGUF_SHARDS_H_
