#include "plugins/cache/contiguous/contiguous_store.h"

#include <cstddef>
#include <memory>
#include <utility>

#include "ng/tile_store.h"
#include "ng/tiles16.h"

namespace ng {

absl::StatusOr<CachePlan> PlanContiguousStore(const PluginContext&, const CacheSpec& spec) {
  NG_ASSIGN_OR_RETURN(const PageShape shape, MakePageShape(spec));
  return shape.plan;
}

absl::StatusOr<std::unique_ptr<CacheStore>> CreateContiguousStore(const PluginContext& context,
                                                                  const CacheSpec& spec) {
  NG_ASSIGN_OR_RETURN(const PageShape shape, MakePageShape(spec));
  NG_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, ReserveTiles(shape.plan.bytes));
  return std::make_unique<ContiguousTileStore>(context, spec, shape, std::move(memory));
}

}  // namespace ng
