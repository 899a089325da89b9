// A codec and a layout of its own: fp8 e4m3, a byte for each element. Backends read it by its
// layout's name (attention/fp8.cc), or row by row.
#include "e4m3.h"
#include "ng/plugin.h"
#include "page_store.h"

namespace {

using Store = parts::PageStore<parts::E4m3>;

absl::StatusOr<ng::CachePlan> Plan(const ng::PluginContext& /*context*/,
                                   const ng::CacheSpec& spec) {
  NG_RETURN_IF_ERROR(parts::CheckSpec(spec, parts::kLayoutE4m3));
  ng::CachePlan plan = Store::PlanOf(spec, parts::kLayoutE4m3);
  plan.codec = "e4m3";
  return plan;
}

absl::StatusOr<std::unique_ptr<ng::CacheStore>> Create(const ng::PluginContext& context,
                                                       const ng::CacheSpec& spec) {
  NG_ASSIGN_OR_RETURN(const ng::CachePlan plan, Plan(context, spec));
  return std::make_unique<Store>(spec, plan, Store::Reserve(plan.bytes),
                                 Store::CountPages(spec, spec.max_tokens));
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::CachePlugin<Plan, Create>("fp8", "1.0.0", "fp8 e4m3 in a layout of its own", {});
