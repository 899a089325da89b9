// A card of methods: each policy at each budget, and codecs, beside the full cache, on tasks, texts
// and in speed.
#ifndef NG_APPS_EVAL_LAB_LAB_H_
#define NG_APPS_EVAL_LAB_LAB_H_

#include "apps/eval/command_line.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::eval {

// Prints the card and writes its page and its lines. A method that cannot run says why in its row.
// Errors: UsageError; LimitError for lengths that do not fit; those of the full cache's engine;
// OutputError; InterruptedError.
absl::Status RunLab(const CommandLine& line, const EngineOptions& given);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_LAB_LAB_H_
