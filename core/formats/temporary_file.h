// A file on its way to its place, and the promise that none is left behind.
//
// Where the file system can, it has no name until it is moved (O_TMPFILE): the system removes it
// whatever ends the process. Else, and for the moment in which it takes another file's place, it
// has a name beside that place, which a signal handler that ends the process removes by calling
// RemoveTemporaryFiles.
#ifndef NG_CORE_FORMATS_TEMPORARY_FILE_H_
#define NG_CORE_FORMATS_TEMPORARY_FILE_H_

#include <memory>
#include <string>

#include "core/formats/file.h"

namespace ng {

// Not thread-safe; several may be in use at the same time.
class TemporaryFile {
 public:
  // A new file that can be moved to `target`, or one without a descriptor and errno set.
  static TemporaryFile Create(const std::string& target);
  // The same, always with a name.
  static TemporaryFile CreateNamed(const std::string& target);

  TemporaryFile();
  TemporaryFile(TemporaryFile&&) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) noexcept;
  ~TemporaryFile();  // removes it, unless it was moved

  int fd() const { return fd_.get(); }
  // Gives it that name, in the place of the file that has it. False with errno set when the system
  // refuses. REQUIRES: `target` as created; the last call.
  bool MoveTo(const std::string& target);

 private:
  class Name;
  friend void RemoveTemporaryFiles();

  FileDescriptor fd_;
  std::unique_ptr<Name> name_;  // null: it has none
};

// Removes the names of all temporary files, and lets no file move or get a name any more. Only for
// a signal handler that then ends the process: async-signal-safe.
void RemoveTemporaryFiles();

}  // namespace ng

#endif  // NG_CORE_FORMATS_TEMPORARY_FILE_H_
