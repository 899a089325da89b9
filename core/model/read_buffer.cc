#include "core/model/read_buffer.h"

#include <sys/mman.h>

#include <new>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

}  // namespace

void ReadBuffer::Free::operator()(std::byte* memory) const {
  ::operator delete(memory, std::align_val_t(kHugePage));
}

absl::StatusOr<std::byte*> ReadBuffer::Get(int64_t bytes) {
  if (bytes <= size_) return memory_.get();
  memory_.reset();
  size_ = 0;
  memory_.reset(static_cast<std::byte*>(
      ::operator new(static_cast<size_t>(bytes), std::align_val_t(kHugePage), std::nothrow)));
  if (memory_ == nullptr) {
    return LimitError(absl::StrCat("cannot allocate ", bytes, " bytes to read a tensor"));
  }
  size_ = bytes;
  // Whole pages only: what lies behind the buffer is somebody else's.
  const int64_t whole = bytes - bytes % kHugePage;
  if (whole > 0) madvise(memory_.get(), static_cast<size_t>(whole), MADV_HUGEPAGE);  // a hint
  return memory_.get();
}

}  // namespace ng
