// Files that are written: whole or not at all, and where they lie known before that.
#ifndef NG_CORE_FORMATS_OUTPUT_FILE_H_
#define NG_CORE_FORMATS_OUTPUT_FILE_H_

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "core/formats/file.h"
#include "core/formats/temporary_file.h"
#include "ng/status.h"

namespace ng {

// Where the bytes for a path go.
struct OutputPlace {
  std::string target;  // with symbolic links resolved
  // A device, a pipe or a file that somebody has open (/dev/stdout): written as it is, since
  // another could not take its place.
  bool in_place = false;
  bool is_pipe = false;
  std::optional<FileId> file;    // what is there; none: a new file
  std::optional<FileId> folder;  // that holds it
};

// Looks without opening anything. Errors: OutputError naming the path (no such folder, a folder
// where a file must be, a link that leads nowhere or in a circle).
absl::StatusOr<OutputPlace> FindOutputPlace(const std::string& path);

// Whether both are one file, which only one of two outputs could keep; never of what is written in
// place.
bool IsSameFile(const OutputPlace& a, const OutputPlace& b);

// That a file can be written there. Opens nothing that would be written in place. Errors:
// OutputError.
absl::Status CheckWritable(const std::string& path, const OutputPlace& place);

// A file that appears whole or not at all: written beside its target, moved over it by Commit and
// removed when destroyed without one. What is written in place is opened once, and gets the bytes
// as they come.
//
// Errors: OutputError naming the path and the system's reason; InterruptedError once `stop`, which
// may be null, is set while nobody reads a pipe. The first one stays, and every later call returns
// it. The process is expected to ignore SIGPIPE and SIGXFSZ. Not thread-safe.
class AtomicFileWriter {
 public:
  static absl::StatusOr<AtomicFileWriter> Create(const std::string& path,
                                                 const std::atomic<bool>* stop = nullptr);

  // Buffered: an error may come up in a later call.
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

#endif  // NG_CORE_FORMATS_OUTPUT_FILE_H_
