// Files: reading with positions and without mappings, writing beside the target and renaming.
#ifndef NG_CORE_FORMATS_FILE_H_
#define NG_CORE_FORMATS_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "ng/status.h"

namespace ng {

// An open file descriptor, closed on destruction.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return fd_; }
  // Closes now; false with errno set when the system reports a failure.
  bool Close();

 private:
  int fd_ = -1;
};

// A regular file opened for reading. ReadAt may be called from any thread.
class InputFile {
 public:
  // Errors: ModelFileError (cannot be opened, not a regular file).
  static absl::StatusOr<InputFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // when it was opened

  // Fills `out` from `offset`. Errors: ModelFileError (read error, or the file ends before).
  absl::Status ReadAt(int64_t offset, std::span<std::byte> out) const;

 private:
  InputFile(std::string path, FileDescriptor fd, int64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  std::string path_;
  FileDescriptor fd_;
  int64_t size_ = 0;
};

// The bytes of a whole regular file. Errors: ModelFileError (as above, or larger than max_bytes).
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t max_bytes);

// Whether something is at `path`. What cannot be looked at counts as there, so that opening it
// gives the reason.
bool MayExist(const std::string& path);

// The names in a directory, sorted, without "." and "..". Not std::filesystem's iterator: in
// libstdc++ 12 that one ends the process when an allocation fails. Returns the system's error, if
// any.
std::error_code ListDirectory(const std::string& path, std::vector<std::string>* names);

// A file that appears whole or not at all: written beside its target, renamed over it by Commit and
// removed when destroyed without one. A target that is no regular file (/dev/full, /dev/stdout, a
// FIFO) cannot be renamed over: the bytes go straight into it.
//
// Errors: OutputError naming the path and the system's reason; the first one stays, and every later
// call returns it. The process is expected to ignore SIGPIPE. Not thread-safe.
class AtomicFileWriter {
 public:
  static absl::StatusOr<AtomicFileWriter> Create(const std::string& path);
  AtomicFileWriter(AtomicFileWriter&& other) noexcept;
  AtomicFileWriter& operator=(AtomicFileWriter&&) = delete;
  ~AtomicFileWriter();

  // Buffered: an error may come up in a later call.
  absl::Status Write(std::string_view bytes);
  // Hands everything written so far to the system.
  absl::Status Flush();
  // Flushes, closes and renames. REQUIRES: the last call.
  absl::Status Commit();

 private:
  AtomicFileWriter(std::string path, std::string target);
  absl::Status WriteThrough(std::string_view bytes);
  absl::Status Fail(std::string_view action);

  std::string path_;       // as the caller wrote it: what errors name
  std::string target_;     // with symbolic links resolved
  std::string temporary_;  // empty: written directly, or no longer there
  FileDescriptor fd_;
  std::string buffer_;
  absl::Status status_;
};

}  // namespace ng

#endif  // NG_CORE_FORMATS_FILE_H_
