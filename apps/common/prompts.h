// Turns the command line's prompts into requests.
#ifndef NG_APPS_COMMON_PROMPTS_H_
#define NG_APPS_COMMON_PROMPTS_H_

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "apps/common/prompt_options.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng {

struct PromptRequests {
  std::vector<GenerateRequest> requests;
  // Those that answer messages and whose length the config leaves open: they have as many new
  // tokens as their context leaves (apps/common/answer_room.h). Rising.
  std::vector<size_t> open;
  std::string warning = {};  // about what was not read; empty: nothing
};

// The requests of the options, each checked against the vocabulary and the caps. Empty when there
// is no prompt. `stop` ends the wait for a pipe's text. Errors: UsageError (for --prompts it names
// the file and the line), LimitError, InterruptedError.
absl::StatusOr<PromptRequests> ReadRequests(const PromptOptions& options, const Engine& engine,
                                            const std::atomic<bool>* stop);

// Reads the file of --tools, and checks that the chat template takes it.
absl::Status ReadTools(const Engine& engine, const std::atomic<bool>* stop, PromptOptions* options);

}  // namespace ng

#endif  // NG_APPS_COMMON_PROMPTS_H_
