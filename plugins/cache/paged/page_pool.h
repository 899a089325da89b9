// Which pages are free, how many sequences hold each of the others, and how many of the free ones
// are promised. Pages are numbers here; the store knows what is in them.
#ifndef NG_PLUGINS_CACHE_PAGED_PAGE_POOL_H_
#define NG_PLUGINS_CACHE_PAGED_PAGE_POOL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ng {

class PagePool {
 public:
  // All pages are free.
  explicit PagePool(int32_t n_pages);

  int64_t n_pages() const { return static_cast<int64_t>(pages_.size()) - 1; }
  int64_t n_held() const { return n_pages() - n_free_; }
  // Free pages that nobody has been promised.
  int64_t n_unpromised() const { return n_free_ - n_promised_; }
  int32_t holders(int32_t page) const { return At(page).holders; }

  // Promises n more free pages. REQUIRES: 0 <= n <= n_unpromised().
  void Promise(int64_t n) { n_promised_ += n; }
  // They have been taken, or are no longer wanted.
  void EndPromise(int64_t n) { n_promised_ -= n; }

  // Promises a free page for a copy of a held one, which several may want to write to; nothing
  // when every holder but one has such a promise. REQUIRES: n_unpromised() > 0.
  void PromiseCopy(int32_t page);
  // Ends one such promise; false when there is none.
  bool EndPromiseOfCopy(int32_t page);

  // The free page to take next, now held once: first those that nothing was kept in, then the one
  // that has been free longest. REQUIRES: one is free.
  int32_t Take();
  // One more holder. A free page is free no longer.
  void Hold(int32_t page);
  // One holder less; without any the page is free. `keep`: what it holds may be asked for again.
  void Release(int32_t page, bool keep);

 private:
  struct Page {
    int32_t holders = 0;
    int32_t copies = 0;  // promised
    // The neighbours of a free page, in a ring: the head's next is the one to take first.
    int32_t next = 0;
    int32_t previous = 0;
  };

  const Page& At(int32_t page) const { return pages_[static_cast<size_t>(page)]; }
  Page& At(int32_t page) { return pages_[static_cast<size_t>(page)]; }
  void Link(int32_t page, int32_t before);
  void Unlink(int32_t page);

  const int32_t head_;  // behind the last page
  std::vector<Page> pages_;
  int64_t n_free_ = 0;
  int64_t n_promised_ = 0;  // copies included
};

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_PAGED_PAGE_POOL_H_
