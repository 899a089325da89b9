#include "core/model/load/read_buffer.h"

#include "absl/strings/str_cat.h"
#include "ng/pages.h"

namespace ng {

absl::StatusOr<std::byte*> ReadBuffer::Get(int64_t bytes) {
  if (bytes <= size_) return memory_.get();
  memory_.reset();
  size_ = 0;
  memory_ = MapPages(bytes);
  if (memory_ == nullptr) {
    return LimitError(absl::StrCat("cannot allocate ", bytes, " bytes to read a tensor"));
  }
  size_ = bytes;
  return memory_.get();
}

}  // namespace ng
