// ng-plan's command line: dotted config overrides, the run to plan, and how to print it.
#ifndef NG_APPS_PLAN_COMMAND_LINE_H_
#define NG_APPS_PLAN_COMMAND_LINE_H_

#include <string>

#include "apps/common/manual.h"
#include "apps/plan/operations.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::plan {

struct CommandLine {
  EngineOptions engine;

  Run run;  // the same for each sequence
  // Their tokens are not given: as many as fit the context, and no more than those of `run`.
  bool any_prompt = false;
  bool any_decode = false;

  bool jsonl = false;
  About about;
};

// Errors: UsageError naming the argument, what is allowed and the nearest option.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// What the program says of itself.
Manual TheManual();

}  // namespace ng::plan

#endif  // NG_APPS_PLAN_COMMAND_LINE_H_
