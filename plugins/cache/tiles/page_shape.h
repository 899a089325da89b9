// Where everything lies within a page of a store, computed with checked arithmetic. The contiguous
// store's page is a whole sequence, the paged one's some tokens of one.
#ifndef NG_PLUGINS_CACHE_TILES_PAGE_SHAPE_H_
#define NG_PLUGINS_CACHE_TILES_PAGE_SHAPE_H_

#include <cstdint>

#include "ng/cache_store.h"
#include "ng/kv_view.h"
#include "ng/status.h"

namespace ng {

// One page: [n_layers][K | V][n_kv_heads][tiles]. All sizes in bytes.
struct PageShape {
  int64_t page_tokens = 0;  // max_tokens rounded up to whole tiles
  int64_t layer_bytes = 0;  // from one layer to the next
  int64_t page_bytes = 0;
  KvSide k;  // of layer 0
  KvSide v;
  CachePlan plan;  // bytes: of all pages
};

// Of max_sequences pages for max_tokens tokens each. Errors: PluginError for a layout, codec or
// shape that the tiles cannot hold; LimitError when the bytes overflow.
absl::StatusOr<PageShape> MakePageShape(const CacheSpec& spec);

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_TILES_PAGE_SHAPE_H_
