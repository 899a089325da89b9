// Assembly: the drafter of a run, and whether model and cache can take back what it drafts.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/assembly/assembly.h"

namespace ng {

int64_t Assembly::gamma() const { return selection.drafter ? config().Int("drafter.gamma") : 0; }

DrafterSpec Assembly::DrafterSpecFor(const RunCacheSpec& cache) const {
  return {.max_sequences = cache.max_sequences,
          .max_tokens = cache.max_tokens,
          .gamma = static_cast<int>(gamma())};
}

std::string_view Assembly::WhyNoDrafts() const {
  return probes->empty() ? "" : "probe.chain looks at every step";
}

absl::Status Assembly::MakeDrafter() {
  if (!selection.drafter) return absl::OkStatus();
  const LoadedPlugin& plugin = *selection.drafter;
  const std::string drafts =
      absl::StrCat(config().Describe("drafter.name"), " = ", plugin.descriptor->name, ": ");
  if (!config().Bool("run.use_cache")) {
    return UsageError(drafts + "drafts need a cache, and run.use_cache = false");
  }
  const std::vector<int> states = model.spec.LayersWith(Operation::kState);
  if (!states.empty()) {
    return PluginError(absl::StrCat(drafts, "layer ", states.front(), " of the model ",
                                    model.source->path(), " (", model.spec.family,
                                    ") keeps a state, which cannot go back to before a draft"));
  }
  NG_ASSIGN_OR_RETURN(const RunCachePlan plan, PlanCacheFor(SmallestCache()));
  if (plan.stores.holes || plan.stores.approximate) {
    return PluginError(absl::StrCat(drafts, selection.cache.Describe(),
                                    plan.stores.holes ? ": drops tokens" : ": is approximate",
                                    ", which a draft that is taken back would change; contiguous "
                                    "and paged can run it"));
  }
  const std::vector<OptionValue> values =
      PluginValues(config(), "drafter", plugin.descriptor->name);
  NG_ASSIGN_OR_RETURN(drafter, CreateDrafter(plugin, Context(values)));
  return absl::OkStatus();
}

}  // namespace ng
