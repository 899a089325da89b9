// A file that is not finished yet. None is left behind.
//
// Where the file system allows it, the file has no name until it is moved (O_TMPFILE), so the
// system removes it however the process ends. Otherwise, and for the moment in which it replaces
// another file, it has a name beside that place. A signal handler that ends the process removes
// this name by calling RemoveTemporaryFiles (ng/files.h).
#ifndef NG_CORE_BASE_TEMPORARY_FILE_H_
#define NG_CORE_BASE_TEMPORARY_FILE_H_

#include <memory>
#include <string>

#include "core/base/file.h"

namespace ng {

// Not thread-safe; several may be in use at the same time.
class TemporaryFile {
 public:
  // Makes a new file that can be moved to `target`. On failure it has no descriptor, and errno is
  // set.
  static TemporaryFile Create(const std::string& target);
  // The same, but the file always has a name.
  static TemporaryFile CreateNamed(const std::string& target);

  TemporaryFile();
  TemporaryFile(TemporaryFile&&) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) noexcept;
  ~TemporaryFile();  // removes it, unless it was moved

  int fd() const { return fd_.get(); }
  // Gives the file this name and replaces the file that has it. Returns false with errno set when
  // the system refuses. REQUIRES: `target` is that of Create; it is the last call.
  bool MoveTo(const std::string& target);

 private:
  class Name;
  friend void RemoveTemporaryFiles();

  FileDescriptor fd_;
  std::unique_ptr<Name> name_;  // null: it has no name
};

}  // namespace ng

#endif  // NG_CORE_BASE_TEMPORARY_FILE_H_
