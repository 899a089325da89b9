// The plain cache: every sequence owns one run of memory from the start, big enough for max_tokens.
//
// It is ContiguousTileStore (ng/tile_store.h) in one anonymous mapping, reserved by create and
// touched when first written.
#ifndef NG_PLUGINS_CACHE_CONTIGUOUS_CONTIGUOUS_STORE_H_
#define NG_PLUGINS_CACHE_CONTIGUOUS_CONTIGUOUS_STORE_H_

#include <memory>

#include "ng/cache_store.h"
#include "ng/plugin.h"
#include "ng/status.h"

namespace ng {

// As CacheFactory. Errors: PluginError for a layout, codec or shape that this store cannot hold;
// LimitError when the bytes overflow or (create) the system does not give them.
absl::StatusOr<CachePlan> PlanContiguousStore(const PluginContext& context, const CacheSpec& spec);
absl::StatusOr<std::unique_ptr<CacheStore>> CreateContiguousStore(const PluginContext& context,
                                                                  const CacheSpec& spec);

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_CONTIGUOUS_CONTIGUOUS_STORE_H_
