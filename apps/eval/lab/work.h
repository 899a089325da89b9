// What is measured of each method, part by part, and the line of JSON that each part gives.
#ifndef NG_APPS_EVAL_LAB_WORK_H_
#define NG_APPS_EVAL_LAB_WORK_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/eval/evaluate.h"
#include "apps/eval/lab/lines.h"
#include "apps/eval/lab/methods.h"
#include "apps/eval/measure/run_task.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::eval {

struct TaskWork {
  std::string task;
  int64_t length = 0;
  std::vector<FittedPuzzle> puzzles;
  std::vector<FittedPuzzle> questions;  // the same without their contexts

  // What a method is given.
  const std::vector<FittedPuzzle>& Of(const Method& method) const {
    return method.name == kFloor ? questions : puzzles;
  }
};

int64_t TokensOf(std::span<const FittedPuzzle> puzzles);  // of all prompts

// The same for every method.
// NOLINTNEXTLINE(bugprone-exception-escape): of the JSON library, whose moves do not throw
struct Work {
  Engine* full = nullptr;  // loaded
  RunNeeds needs;          // every engine is loaded for these
  std::vector<TaskWork> tasks;
  Job texts;                    // no windows: none
  std::vector<int64_t> depths;  // none: no speeds
  int64_t rounds = 1;
  Json run;  // what was run, for each line
  std::function<std::string(const Method& method, const std::string& part)> command;
};

// How far the work is, with the time that is left.
class LabProgress {
 public:
  LabProgress(std::function<void(const Progress&)> show, int64_t n_tokens)
      : show_(std::move(show)), n_left_(n_tokens) {}

  // What is done next, and that so many tokens of it are done.
  void Begin(const std::string& what);
  void Add(int64_t n_tokens);
  // Tokens that were done before this run, or will not be.
  void Skip(int64_t n_tokens);

 private:
  void Show() const;

  std::function<void(const Progress&)> show_;  // may be empty
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::string what_;
  int64_t n_done_ = 0;  // in this run
  int64_t n_left_;
};

// "1:02:03", "2:03", "3 s".
std::string TimeLeftText(int64_t seconds);

// Tokens that a method's parts feed, for LabProgress.
int64_t TokensOf(const Work& work, const Method& method);

// Does what `done` does not have of a method, part by part; calls `on_line` with every line, also
// with those that `done` has. Errors: those of the method's engine; of `on_line`; InterruptedError.
absl::Status RunMethod(const Work& work, const Method& method, const LineFile& done,
                       LabProgress* progress,
                       const std::function<absl::Status(const Json& line, bool is_new)>& on_line);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_LAB_WORK_H_
