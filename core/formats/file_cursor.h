// FileCursor: reads a file from its beginning on, never past its end, with little of it in memory.
//
// For headers that say of themselves how long they are. Borrows the file.
#ifndef NG_CORE_FORMATS_FILE_CURSOR_H_
#define NG_CORE_FORMATS_FILE_CURSOR_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/formats/cursor.h"
#include "core/formats/file.h"
#include "ng/status.h"

namespace ng {

class FileCursor {
 public:
  // `most`: as far as it will read.
  FileCursor(const InputFile& file, uint64_t most) : file_(file), most_(most) {}

  uint64_t position() const { return begin_ + used_; }
  uint64_t left() const { return static_cast<uint64_t>(file_.size()) - position(); }

  // The next `count` bytes, borrowed until the next call. Errors: ModelFileError, with `what` they
  // are, where the file ends before; where they lie beyond `most`; what reading answers. Then
  // nothing is taken.
  absl::StatusOr<std::string_view> Bytes(uint64_t count, std::string_view what);
  // The next bytes as a number.
  absl::StatusOr<uint32_t> U32(std::string_view what);
  absl::StatusOr<uint64_t> U64(std::string_view what);

 private:
  const InputFile& file_;
  const uint64_t most_;
  std::string window_;  // of the file, from begin_ on
  uint64_t begin_ = 0;
  size_t used_ = 0;  // bytes of the window that were taken
};

}  // namespace ng

#endif  // NG_CORE_FORMATS_FILE_CURSOR_H_
