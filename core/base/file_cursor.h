// FileCursor: reads a file from its beginning on, never past its end, and keeps little of it in
// memory.
//
// For headers that say themselves how long they are. Borrows the file.
#ifndef NG_CORE_BASE_FILE_CURSOR_H_
#define NG_CORE_BASE_FILE_CURSOR_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/cursor.h"
#include "core/base/file.h"
#include "ng/status.h"

namespace ng {

class FileCursor {
 public:
  // It reads at most the first `most` bytes of the file.
  FileCursor(const InputFile& file, uint64_t most) : file_(file), most_(most) {}

  uint64_t position() const { return begin_ + used_; }
  uint64_t left() const { return static_cast<uint64_t>(file_.size()) - position(); }

  // The next `count` bytes, borrowed until the next call. Errors: ModelFileError naming `what` the
  // bytes are, when the file ends before them, when they are beyond `most`, or when reading fails.
  // After an error the position is unchanged.
  absl::StatusOr<std::string_view> Bytes(uint64_t count, std::string_view what);
  // The next 4 or 8 bytes as a number.
  absl::StatusOr<uint32_t> U32(std::string_view what);
  absl::StatusOr<uint64_t> U64(std::string_view what);

 private:
  const InputFile& file_;
  const uint64_t most_;
  std::string window_;  // a part of the file, from begin_ on
  uint64_t begin_ = 0;
  size_t used_ = 0;  // bytes of the window that were taken
};

}  // namespace ng

#endif  // NG_CORE_BASE_FILE_CURSOR_H_
