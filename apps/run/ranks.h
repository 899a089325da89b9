// A run of several processes (Engine::ranks): what they do not do, and the prompts that rank 0 has
// read for all of them.
#ifndef NG_APPS_RUN_RANKS_H_
#define NG_APPS_RUN_RANKS_H_

#include <span>
#include <vector>

#include "apps/run/command_line.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::run {

// Whether several ranks can do what the command line asks for. Errors: UsageError that names the
// option.
absl::Status CheckRanks(const CommandLine& line, const Engine& engine);

// What rank 0 has read, on all ranks, which all call this. `own` of another rank is not looked at.
// With one rank: own. Errors: `read`, which says on rank 0 how reading went; RuntimeError where a
// rank is missing.
absl::StatusOr<std::vector<GenerateRequest>> ShareRequests(Engine& engine, const absl::Status& read,
                                                           std::vector<GenerateRequest> own);

// What a run that was stopped ends with where the signal came to another rank; else OK.
absl::Status StoppedElsewhere(const Engine& engine, std::span<const Completion> done);

}  // namespace ng::run

#endif  // NG_APPS_RUN_RANKS_H_
