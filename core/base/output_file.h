// Output files. Each appears whole or not at all, and its place is known before it is written.
#ifndef NG_CORE_BASE_OUTPUT_FILE_H_
#define NG_CORE_BASE_OUTPUT_FILE_H_

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/file.h"
#include "core/base/temporary_file.h"
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

// A file that appears whole or not at all. It is written beside its target. Commit moves it over
// the target; without Commit the destructor removes it. A target that is written in place is opened
// once and gets the bytes as they come.
//
// Errors: OutputError naming the path and the system's reason; InterruptedError when `stop`, which
// may be null, is set while nobody reads a pipe. After the first error every later call returns the
// same one. The process is expected to ignore SIGPIPE and SIGXFSZ. Not thread-safe.
class AtomicFileWriter {
 public:
  static absl::StatusOr<AtomicFileWriter> Create(const std::string& path,
                                                 const std::atomic<bool>* stop = nullptr);

  // Buffered, so an error may be returned by a later call.
  absl::Status Write(std::string_view bytes);
  // Hands everything written so far to the system.
  absl::Status Flush();
  // Flushes, closes and moves into place. REQUIRES: the last call.
  absl::Status Commit();

 private:
  AtomicFileWriter(std::string path, OutputPlace place, const std::atomic<bool>* stop)
      : path_(std::move(path)), place_(std::move(place)), stop_(stop) {}
  absl::Status Open();
  absl::Status OpenInPlace();
  absl::Status WriteThrough(std::string_view bytes);
  absl::Status WaitForReader(int* waited);
  absl::Status Fail(std::string_view action);

  std::string path_;  // as the caller wrote it: what errors name
  OutputPlace place_;
  const std::atomic<bool>* stop_;
  FileDescriptor in_place_;
  TemporaryFile temporary_;
  std::string buffer_;
  absl::Status status_;
};

}  // namespace ng

#endif  // NG_CORE_BASE_OUTPUT_FILE_H_
