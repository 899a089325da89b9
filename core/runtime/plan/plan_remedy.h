// What would make a run fit that does not: tried, not guessed.
#ifndef NG_CORE_RUNTIME_PLAN_PLAN_REMEDY_H_
#define NG_CORE_RUNTIME_PLAN_PLAN_REMEDY_H_

#include <string>

#include "core/runtime/plan/run_plan.h"

namespace ng {

// "it would fit with model.weights = int4, or with cache.codec = int8"; of each kind the mildest.
// Where no single change helps, those that do together; where these do not either, what even they
// would need. REQUIRES: `plan` is that of `choices` and needs more than it has.
std::string FindRemedy(const Assembly& assembly, const RunNeeds& needs, const PlanChoices& choices,
                       const RunPlan& plan);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_PLAN_PLAN_REMEDY_H_
