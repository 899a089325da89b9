#include "core/runtime/plan/planned_run.h"

#include "absl/strings/str_cat.h"
#include "core/runtime/plan/plan_remedy.h"
#include "core/runtime/plan/run_plan.h"
#include "ng/process_memory.h"

namespace ng {

absl::StatusOr<RunPlan> PlanRun(const Assembly& assembly, const RunNeeds& needs) {
  const Config& config = assembly.config();
  PlanChoices choices;
  choices.cache = assembly.CacheSpecFor(needs);
  choices.weights = assembly.weight_types;
  const int64_t t_max = assembly.model.spec.context();
  const int64_t max_tokens = choices.cache.max_tokens;
  if (t_max > 0 && max_tokens > t_max) {
    const bool given = config.Int("cache.max_tokens") > 0;
    return LimitError(absl::StrCat(given ? config.Describe("cache.max_tokens") : "tokens of a run",
                                   " = ", max_tokens, " exceeds T_max ", t_max,
                                   ", the model's context"));
  }
  NG_ASSIGN_OR_RETURN(RunPlan plan, PlanWith(assembly, needs, choices, AvailableMemory()));
  plan.program_bytes = ResidentMemory();
  if (!CheckMemory(plan).ok()) plan.remedy = FindRemedy(assembly, needs, choices, plan);
  return plan;
}

}  // namespace ng
