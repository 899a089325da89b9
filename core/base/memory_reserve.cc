#include "ng/memory_reserve.h"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>

namespace ng {
namespace {

thread_local MemoryReserve* innermost = nullptr;
// The embedding program's handler, which is called when no reserve helps.
std::atomic<std::new_handler> others_handler = nullptr;

}  // namespace

MemoryReserve::MemoryReserve(size_t bytes, For purpose)
    : memory_(std::malloc(bytes)), purpose_(purpose), outer_(innermost) {
  if (memory_ == nullptr) throw std::bad_alloc();
  innermost = this;
  // It stays installed. When there is no reserve, it does what would happen without it.
  if (std::get_new_handler() != OnFailedAllocation) {
    others_handler = std::set_new_handler(OnFailedAllocation);
  }
}

MemoryReserve::~MemoryReserve() {
  innermost = outer_;
  std::free(memory_);
}

void MemoryReserve::OnFailedAllocation() {
  for (MemoryReserve* reserve = innermost; reserve != nullptr; reserve = reserve->outer_) {
    const bool may = reserve->purpose_ == For::kEverything || std::uncaught_exceptions() > 0;
    if (reserve->used() || !may) continue;
    std::free(reserve->memory_);
    reserve->memory_ = nullptr;
    return;  // operator new tries again
  }
  const std::new_handler other = others_handler;
  if (other == nullptr) throw std::bad_alloc();
  other();
}

}  // namespace ng
