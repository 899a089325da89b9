// How the pool of the paged store lies in memory, and how many pages it has.
#ifndef NG_PLUGINS_CACHE_PAGED_POOL_SHAPE_H_
#define NG_PLUGINS_CACHE_PAGED_POOL_SHAPE_H_

#include <cstdint>

#include "ng/cache_store.h"
#include "ng/kv_view.h"
#include "ng/option.h"
#include "ng/status.h"

namespace ng {

inline int64_t DivideUp(int64_t n, int64_t unit) { return n / unit + (n % unit != 0 ? 1 : 0); }

struct PoolShape {
  KvSide k;  // of layer 0; head_stride: from one kv head's pool to the next
  KvSide v;
  int64_t k_bytes = 0;      // of a page, for one kv head in one layer
  int64_t v_bytes = 0;      //
  int64_t page_stride = 0;  // from one page to the next
  int32_t n_pages = 0;
  CachePlan plan;
};

// The most pages that a sequence has at one time: a window begins anywhere within its first page.
int64_t PagesEach(const CacheSpec& spec, int64_t page_tokens);

// Options and errors: as of PlanPagedStore (paged_store.h).
absl::StatusOr<PoolShape> MakePoolShape(const OptionValues& options, const CacheSpec& spec);

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_PAGED_POOL_SHAPE_H_
