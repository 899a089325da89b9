// Turns the command line's prompts into requests.
#ifndef NG_APPS_RUN_PROMPTS_H_
#define NG_APPS_RUN_PROMPTS_H_

#include <atomic>
#include <vector>

#include "apps/run/command_line.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::run {

// The requests of the command line, each checked against the vocabulary and the caps. Empty when
// there is no prompt, or with --chat. `stop` ends the wait for a pipe's text. Errors: UsageError
// (for --prompts it names the file and the line), LimitError, InterruptedError.
absl::StatusOr<std::vector<GenerateRequest>> ReadRequests(const CommandLine& line,
                                                          const Engine& engine,
                                                          const std::atomic<bool>* stop);

}  // namespace ng::run

#endif  // NG_APPS_RUN_PROMPTS_H_
