// The files of a run: texts are read without waiting for ever, outputs are written whole or not at
// all, and no output overwrites an input.
#ifndef NG_FILES_H_
#define NG_FILES_H_

#include <sys/stat.h>

#include <atomic>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

// Reads a text that a user gives: a regular file, or a pipe (/dev/stdin, <(command)) up to its end.
// A pipe that nobody writes to is empty. Waits for a writer until `stop` is set; `stop` may be
// null. Errors: ModelFileError: it cannot be read, is another kind of file, or is larger than
// max_bytes; InterruptedError.
absl::StatusOr<std::string> ReadText(const std::string& path, int64_t max_bytes,
                                     const std::atomic<bool>* stop);

// Which file it is, whatever name it was opened by.
struct FileId {
  explicit FileId(const struct stat& status) : device(status.st_dev), inode(status.st_ino) {}
  uint64_t device;
  uint64_t inode;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 means the 0 that <=> gives
  auto operator<=>(const FileId&) const = default;
};

// The files that ng opens for reading while the log lives, on the thread that made the log. No
// output of the same run may overwrite them.
class InputLog {
 public:
  InputLog();
  ~InputLog();
  InputLog(const InputLog&) = delete;
  InputLog& operator=(const InputLog&) = delete;

  // The path by which the file was opened, or null if it was not opened.
  const std::string* Find(const FileId& id) const;
  // Called by code that opens files, also a program's own: notes the file in the thread's innermost
  // log, if there is one.
  static void Note(const struct stat& status, const std::string& path);

 private:
  std::map<FileId, std::string> paths_;
  InputLog* const outer_;
};

// A file that a program is told to write, and what told it so.
struct NamedOutput {
  const char* option;  // "--save"
  std::string path;    // empty: not given
};

// Checks, before anything is computed, that each file can be written, that none of them is in
// `inputs`, and that no two of them are the same file; stdout and stderr count too. Errors:
// OutputError for the first, UsageError for the others.
absl::Status CheckOutputs(std::span<const NamedOutput> outputs, const InputLog& inputs);

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
  AtomicFileWriter(AtomicFileWriter&& other) noexcept;
  AtomicFileWriter& operator=(AtomicFileWriter&& other) noexcept;
  ~AtomicFileWriter();

  // Buffered, so an error may be returned by a later call.
  absl::Status Write(std::string_view bytes);
  // Hands everything written so far to the system.
  absl::Status Flush();
  // Flushes, closes and moves into place. REQUIRES: the last call.
  absl::Status Commit();

 private:
  struct __attribute__((visibility("hidden"))) State;
  explicit AtomicFileWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Removes the names of all files that are not finished yet. After this none can be finished. Only
// for a signal handler that then ends the process; async-signal-safe.
void RemoveTemporaryFiles();

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_FILES_H_
