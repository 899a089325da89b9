#include "ng/pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace ng {

std::shared_ptr<std::byte> MapPages(int64_t bytes) {
  constexpr int64_t kHugePage = int64_t{2} << 20;
  // Maps more than is needed, so that the memory can begin at a huge page.
  const auto room = static_cast<size_t>(bytes) + (bytes >= kHugePage ? kHugePage : 0);
  void* mapped =
      mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const std::shared_ptr<std::byte> whole(static_cast<std::byte*>(mapped),
                                         [room](std::byte* p) { munmap(p, room); });
  std::byte* begin = whole.get();
  if (bytes >= kHugePage) {
    const auto past = reinterpret_cast<uintptr_t>(begin) % kHugePage;
    if (past != 0) begin += kHugePage - past;
    madvise(begin, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // a hint
  }
  return {whole, begin};
}

}  // namespace ng
