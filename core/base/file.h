// Input files. Each is opened once, never waited for, and checked to be what it must be.
#ifndef NG_CORE_BASE_FILE_H_
#define NG_CORE_BASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "ng/files.h"
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
  // Errors: ModelFileError: it cannot be opened, is not a regular file, or is a Git LFS pointer in
  // place of the file.
  static absl::StatusOr<InputFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // at the time when it was opened
  // When it was last written, in nanoseconds since 1970; at the time when it was opened.
  int64_t modified_ns() const { return modified_ns_; }

  // Fills `out` from `offset` on. Errors: ModelFileError: it cannot be read, or ends too early.
  absl::Status ReadAt(int64_t offset, std::span<std::byte> out) const;
  // Tells the system that these bytes will be read soon, so that it fetches them meanwhile. Does
  // not wait for them, and never fails. REQUIRES: the range lies in the file. [any thread]
  void Announce(int64_t offset, int64_t n_bytes) const;
  // `bytes` bytes from `offset` on as memory to read, which the system fills when it is touched and
  // shares with all that map the file. The file must not be cut while it is mapped: a read of what
  // is gone ends the process (SIGBUS). Errors: ModelFileError. REQUIRES: the range lies in the
  // file; `offset` is that of a page.
  absl::StatusOr<std::shared_ptr<std::byte>> Map(int64_t offset, int64_t bytes) const;
  // Reads the whole file. Errors: ModelFileError, as above, or when it is larger than max_bytes, or
  // has more bytes than its size says.
  absl::StatusOr<std::string> ReadAll(int64_t max_bytes) const;

 private:
  InputFile(std::string path, FileDescriptor fd, int64_t size, int64_t modified_ns)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size), modified_ns_(modified_ns) {}

  std::string path_;
  FileDescriptor fd_;
  int64_t size_ = 0;
  int64_t modified_ns_ = 0;
};

// Opens a file and reads all of it. Errors: as above.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t max_bytes);

// The hash of all of a file's bytes. Errors: as above.
absl::StatusOr<uint64_t> HashOfFile(const std::string& path);

// The folder of the file that a path names: "." for a plain name.
std::string FolderOf(const std::string& path);

// What an error adds to the name of a path that does not exist: nothing, or that only the shell
// knows what a "~" in it means.
std::string HomeHint(const std::string& path);

// Whether there is an entry with that name; a link that leads nowhere is one too. An entry that
// cannot be looked at counts as existing, so that opening it gives the reason.
bool MayExist(const std::string& path);

// The names in a directory, sorted, without "." and "..". It does not use the iterator of
// std::filesystem, which in libstdc++ 12 ends the process when an allocation fails. Returns the
// system's error, if any.
std::error_code ListDirectory(const std::string& path, std::vector<std::string>* names);

}  // namespace ng

#endif  // NG_CORE_BASE_FILE_H_
