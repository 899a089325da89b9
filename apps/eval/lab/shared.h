// The methods of a card whose tokens leave at the end of a context, together: one engine is loaded
// for all of them, and each context is read once.
#ifndef NG_APPS_EVAL_LAB_SHARED_H_
#define NG_APPS_EVAL_LAB_SHARED_H_

#include <cstdint>
#include <functional>
#include <span>

#include "apps/eval/lab/lines.h"
#include "apps/eval/lab/methods.h"
#include "apps/eval/lab/work.h"
#include "ng/status.h"

namespace ng::eval {

// Tokens that so many methods feed together, for LabProgress.
int64_t SharedTokensOf(const Work& work, int64_t n_methods);

// Does what `done` does not have of the methods, part by part, each for all of them; calls
// `on_line` as RunMethod does, and `on_error` for a method that cannot run, whose other parts are
// left out. Errors: those of the callbacks; InterruptedError. REQUIRES: each method has a rule.
absl::Status RunShared(
    const Work& work, std::span<const Method> methods, const LineFile& done, LabProgress* progress,
    const std::function<absl::Status(const Json& line, bool is_new)>& on_line,
    const std::function<absl::Status(const Method& method, const absl::Status& why)>& on_error);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_LAB_SHARED_H_
