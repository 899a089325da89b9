// Turns the command line's prompts into requests.
#ifndef NG_APPS_COMMON_PROMPTS_H_
#define NG_APPS_COMMON_PROMPTS_H_

#include <atomic>
#include <vector>

#include "apps/common/prompt_options.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng {

// The requests of the options, each checked against the vocabulary and the caps. Empty when there
// is no prompt. `stop` ends the wait for a pipe's text. Errors: UsageError (for --prompts it names
// the file and the line), LimitError, InterruptedError.
absl::StatusOr<std::vector<GenerateRequest>> ReadRequests(const PromptOptions& options,
                                                          const Engine& engine,
                                                          const std::atomic<bool>* stop);

// Reads the file of --tools, and checks that the chat template takes it.
absl::Status ReadTools(const Engine& engine, const std::atomic<bool>* stop, PromptOptions* options);

}  // namespace ng

#endif  // NG_APPS_COMMON_PROMPTS_H_
