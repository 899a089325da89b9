// What a run takes, from the assembled parts alone: no weight is read, nothing reserved.
#ifndef NG_CORE_RUNTIME_RUN_PLAN_H_
#define NG_CORE_RUNTIME_RUN_PLAN_H_

#include "core/runtime/assembly.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng {

// Errors: as Engine::Plan. Asks the attention backend to plan steps. [step]
absl::StatusOr<RunPlan> PlanRun(const Assembly& assembly, const RunNeeds& needs);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_RUN_PLAN_H_
