#include "plugins/cache/paged/page_pool.h"

#include <algorithm>
#include <cassert>

namespace ng {

PagePool::PagePool(int32_t n_pages) : head_(n_pages), pages_(static_cast<size_t>(n_pages) + 1) {
  At(head_) = {.holders = 0, .copies = 0, .next = head_, .previous = head_};
  for (int32_t page = 0; page < n_pages; ++page) Link(page, head_);
}

void PagePool::PromiseCopy(int32_t page) {
  if (At(page).copies >= At(page).holders - 1) return;
  ++At(page).copies;
  Promise(1);
}

bool PagePool::EndPromiseOfCopy(int32_t page) {
  if (At(page).copies == 0) return false;
  --At(page).copies;
  EndPromise(1);
  return true;
}

int32_t PagePool::Take() {
  assert(n_free_ > 0);
  const int32_t page = At(head_).next;
  Hold(page);
  return page;
}

void PagePool::Hold(int32_t page) {
  if (At(page).holders++ == 0) Unlink(page);
}

void PagePool::Release(int32_t page, bool keep) {
  const int32_t holders = --At(page).holders;
  // The last holder writes in place.
  if (At(page).copies > std::max(0, holders - 1)) EndPromiseOfCopy(page);
  if (holders == 0) Link(page, keep ? head_ : At(head_).next);
}

void PagePool::Link(int32_t page, int32_t before) {
  const int32_t previous = At(before).previous;
  At(page).next = before;
  At(page).previous = previous;
  At(previous).next = page;
  At(before).previous = page;
  ++n_free_;
}

void PagePool::Unlink(int32_t page) {
  At(At(page).previous).next = At(page).next;
  At(At(page).next).previous = At(page).previous;
  --n_free_;
}

}  // namespace ng
