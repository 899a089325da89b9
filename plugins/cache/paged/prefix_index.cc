#include "plugins/cache/paged/prefix_index.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>

namespace ng {

PrefixIndex::PrefixIndex(int32_t n_pages, int64_t page_tokens)
    : page_tokens_(static_cast<size_t>(page_tokens)),
      ids_(static_cast<size_t>(n_pages) * page_tokens_),
      entries_(static_cast<size_t>(n_pages)),
      buckets_(std::bit_ceil(static_cast<size_t>(n_pages)), -1) {}

std::span<int32_t> PrefixIndex::ids(int32_t page) {
  return std::span(ids_).subspan(static_cast<size_t>(page) * page_tokens_, page_tokens_);
}

std::span<const int32_t> PrefixIndex::ids(int32_t page) const {
  return std::span(ids_).subspan(static_cast<size_t>(page) * page_tokens_, page_tokens_);
}

size_t PrefixIndex::Bucket(uint64_t previous, std::span<const int32_t> ids) const {
  return XXH3_64bits_withSeed(ids.data(), ids.size_bytes(), previous) & (buckets_.size() - 1);
}

int32_t PrefixIndex::Find(uint64_t previous, std::span<const int32_t> ids) const {
  int32_t page = buckets_[Bucket(previous, ids)];
  while (page >= 0) {
    const Entry& entry = entries_[static_cast<size_t>(page)];
    if (entry.previous == previous && std::ranges::equal(this->ids(page), ids)) return page;
    page = entry.next;
  }
  return -1;
}

void PrefixIndex::Add(int32_t page, uint64_t previous) {
  int32_t& first = buckets_[Bucket(previous, ids(page))];
  entries_[static_cast<size_t>(page)] = {++last_number_, previous, first};
  first = page;
}

void PrefixIndex::Remove(int32_t page) {
  Entry& removed = entries_[static_cast<size_t>(page)];
  if (removed.number == 0) return;
  int32_t* at = &buckets_[Bucket(removed.previous, ids(page))];
  while (*at != page) at = &entries_[static_cast<size_t>(*at)].next;
  *at = removed.next;
  removed = {};
}

}  // namespace ng
