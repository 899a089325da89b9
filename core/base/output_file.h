// Where the bytes for an output go. The files themselves are written with ng/files.h.
#ifndef NG_CORE_BASE_OUTPUT_FILE_H_
#define NG_CORE_BASE_OUTPUT_FILE_H_

#include <optional>
#include <string>

#include "ng/files.h"
#include "ng/status.h"

namespace ng {

// Where the bytes for a path go.
struct OutputPlace {
  std::string target;  // with symbolic links resolved
  // A device, a pipe or a file that somebody has open (/dev/stdout). It is written directly,
  // because another file could not take its place.
  bool in_place = false;
  bool is_pipe = false;
  std::optional<FileId> file;    // the file that exists there; none: a new file
  std::optional<FileId> folder;  // the folder of the file
};

// Looks for the place without opening anything. Errors: OutputError naming the path: there is no
// such folder, the path is a folder, or a link leads nowhere or in a circle.
absl::StatusOr<OutputPlace> FindOutputPlace(const std::string& path);

// Whether both places are the same file, so that one output would overwrite the other. Always false
// for what is written in place.
bool IsSameFile(const OutputPlace& a, const OutputPlace& b);

// Checks that a file can be written there. Does not open what would be written in place. Errors:
// OutputError.
absl::Status CheckWritable(const std::string& path, const OutputPlace& place);

}  // namespace ng

#endif  // NG_CORE_BASE_OUTPUT_FILE_H_
