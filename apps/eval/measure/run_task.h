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
  double prefill_s = 0.0;     // of all prompts, what rules read together for each of them
  double scoring_s = 0.0;     // of these, in which tokens were scored and let go
};

struct TaskRun {
  std::span<const FittedPuzzle> puzzles;
  // By which the cache lets tokens go at the end of the context (Engine::SetKeepRule). Each context
  // is read once for all of them. None: in the cache's own way.
  std::span<const std::string> rules = {};
  const std::atomic<bool>* stop = nullptr;          // may be null
  std::function<void(int64_t n_tokens)> on_tokens;  // of a prompt that is done; may be empty
};

// A result for each rule; one where there are none. Errors: those of the engine; InterruptedError.
// REQUIRES: loaded with RunNeeds::prompt_logits and room for two sequences of the longest prompt,
// with rules for three.
absl::StatusOr<std::vector<TaskResult>> RunTask(Engine& engine, const TaskRun& run);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_MEASURE_RUN_TASK_H_
