// What a run takes, from the assembled parts alone: no weight is read, nothing reserved.
#ifndef NG_CORE_RUNTIME_RUN_PLAN_H_
#define NG_CORE_RUNTIME_RUN_PLAN_H_

#include "core/runtime/assembly.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng {

// What a plan takes from the config and could take otherwise.
struct PlanChoices {
  RunCacheSpec cache;
  WeightTypes weights;
};
// The plan with these choices in the place of the config's, its remedy and the bytes available left
// out, but for `available`, which it is held against. Errors: as PlanRun.
absl::StatusOr<RunPlan> PlanWith(const Assembly& assembly, const RunNeeds& needs,
                                 const PlanChoices& choices, int64_t available);

// Errors: as Engine::Plan. Asks the attention backend to plan steps. [step]
absl::StatusOr<RunPlan> PlanRun(const Assembly& assembly, const RunNeeds& needs);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_RUN_PLAN_H_
