// What a run takes, from the assembled parts alone: no weight is read, nothing reserved.
#ifndef NG_CORE_RUNTIME_PLAN_RUN_PLAN_H_
#define NG_CORE_RUNTIME_PLAN_RUN_PLAN_H_

#include "core/runtime/assembly/assembly.h"
#include "ng/run_plan.h"
#include "ng/status.h"

namespace ng {

// What a plan takes from the config and could take otherwise.
struct PlanChoices {
  RunCacheSpec cache;
  WeightTypes weights;
};
// The plan with these choices in the place of the config's, its remedy and the bytes available left
// out, but for `available`, which it is held against. Errors: as PlanRun
// (planned_run.h).
absl::StatusOr<RunPlan> PlanWith(const Assembly& assembly, const RunNeeds& needs,
                                 const PlanChoices& choices, int64_t available);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_PLAN_RUN_PLAN_H_
