// The plan of the run that the config asks for (run_plan.h), with what would make it fit where it
// does not.
#ifndef NG_CORE_RUNTIME_PLAN_PLANNED_RUN_H_
#define NG_CORE_RUNTIME_PLAN_PLANNED_RUN_H_

#include "core/runtime/assembly/assembly.h"
#include "ng/run_plan.h"
#include "ng/status.h"

namespace ng {

// Errors: as Engine::Plan. Asks the attention backend to plan steps. [step]
absl::StatusOr<RunPlan> PlanRun(const Assembly& assembly, const RunNeeds& needs);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_PLAN_PLANNED_RUN_H_
