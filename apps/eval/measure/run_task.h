// The puzzles of a task on one engine: what the model says, and what it thinks of the candidates.
#ifndef NG_APPS_EVAL_MEASURE_RUN_TASK_H_
#define NG_APPS_EVAL_MEASURE_RUN_TASK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "apps/eval/tasks/fit.h"
#include "apps/eval/tasks/puzzle.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::eval {

struct FittedPuzzle {
  Puzzle puzzle;
  Prompt prompt;
};

struct ExampleResult {
  std::string said;
  double score = 0.0;  // ScoreAnswer
  // log p of the right candidate less that of the best wrong one, each summed over its tokens.
  double margin = 0.0;
};

struct TaskResult {
  std::vector<ExampleResult> examples;
  int64_t prompt_tokens = 0;  // of all examples
  int64_t peak_tokens = 0;    // the most that the cache held of one
  int64_t held_tokens = 0;    // that it held at the end of the prompt, the most
  double prefill_s = 0.0;     // of all prompts
};

struct TaskRun {
  std::span<const FittedPuzzle> puzzles;
  const std::atomic<bool>* stop = nullptr;          // may be null
  std::function<void(int64_t n_tokens)> on_tokens;  // of a prompt that is done; may be empty
};

// Errors: those of the engine; InterruptedError. REQUIRES: loaded with RunNeeds::prompt_logits and
// room for two sequences of the longest prompt.
absl::StatusOr<TaskResult> RunTask(Engine& engine, const TaskRun& run);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_MEASURE_RUN_TASK_H_
