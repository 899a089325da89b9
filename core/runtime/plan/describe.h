// What --dry-run prints about a run that is ready to begin.
#ifndef NG_CORE_RUNTIME_PLAN_DESCRIBE_H_
#define NG_CORE_RUNTIME_PLAN_DESCRIBE_H_

#include <string>
#include <string_view>

#include "core/runtime/assembly/assembly.h"
#include "ng/engine_options.h"
#include "ng/run_plan.h"
#include "ng/status.h"

namespace ng {

// Config with origins, plugins with versions and real paths, model and what becomes of its tensors,
// tokenizer, bytes needed against bytes available. `detail` as for Engine::Describe.
std::string DescribeRun(const Assembly& assembly, const RunPlan& plan, DescribeDetail detail);

// What the user is told of a cache whose plan is approximate.
std::string ApproximateText(const LoadedPlugin& cache);

// The error of a chat request to a model without a template.
absl::Status NoChatTemplate(const Assembly& assembly);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_PLAN_DESCRIBE_H_
