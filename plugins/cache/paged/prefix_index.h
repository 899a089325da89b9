// Full pages by what they hold: the ids of a page's tokens, and the page that they follow.
//
// A listed page has a number that no other page ever gets. Its key is its ids and the number of the
// page before it, so a match stands for all ids from position 0 on; a page whose predecessor is no
// longer listed is never found. Hashes only say where to look: the ids are compared.
#ifndef NG_PLUGINS_CACHE_PAGED_PREFIX_INDEX_H_
#define NG_PLUGINS_CACHE_PAGED_PREFIX_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ng {

class PrefixIndex {
 public:
  static constexpr uint64_t kStart = 0;  // in place of a predecessor: the first page of a text

  PrefixIndex(int32_t n_pages, int64_t page_tokens);

  // Room for the ids of a page. REQUIRES to change them: the page is not listed.
  std::span<int32_t> ids(int32_t page);

  // The number of a listed page; 0: it is not listed.
  uint64_t number(int32_t page) const { return entries_[static_cast<size_t>(page)].number; }

  // The listed page that holds `ids` behind the page with number `previous`; -1: none.
  // ids: [page_tokens]
  int32_t Find(uint64_t previous, std::span<const int32_t> ids) const;

  // Lists a page by its ids. REQUIRES: it is not listed, and Find finds none like it.
  void Add(int32_t page, uint64_t previous);
  // Forgets a page, listed or not.
  void Remove(int32_t page);

 private:
  struct Entry {
    uint64_t number = 0;
    uint64_t previous = 0;
    int32_t next = -1;  // in the same bucket
  };

  size_t Bucket(uint64_t previous, std::span<const int32_t> ids) const;
  std::span<const int32_t> ids(int32_t page) const;

  const size_t page_tokens_;
  std::vector<int32_t> ids_;      // [n_pages, page_tokens]
  std::vector<Entry> entries_;    // [n_pages]
  std::vector<int32_t> buckets_;  // the first page of each, -1: none; a power of two of them
  uint64_t last_number_ = kStart;
};

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_PAGED_PREFIX_INDEX_H_
