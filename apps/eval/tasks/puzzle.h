// Tasks made by rule, whose answers a program can check. Each is drawn from a seed: needle,
// needles, lookup, variables, copying and counting, after the kinds of RULER (Hsieh et al. 2024).
#ifndef NG_APPS_EVAL_TASKS_PUZZLE_H_
#define NG_APPS_EVAL_TASKS_PUZZLE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/eval/tasks/draws.h"

namespace ng::eval {

// A sentence of the context that the question is about, or that looks like one.
struct Placed {
  double depth = 0.0;  // which part of the text between comes before it, in [0, 1)
  std::string text;
};

// How an answer is looked for in what the model says.
enum class AnswerCheck {
  kAnywhere,  // the share of `answers` that are said, wherever
  kInOrder,   // the share of `answers` that are said as the first, second, ... word
};

struct Puzzle {
  std::string task;
  DrawsKey key;
  std::vector<Placed> placed;  // rising depths
  bool pairs = false;          // lines of a list between them, and not sentences
  std::string question;        // what follows the context; the answer continues it
  std::vector<std::string> answers;
  AnswerCheck check = AnswerCheck::kAnywhere;
  // Continuations of the question: the right one and then wrong ones of the same form.
  std::vector<std::string> candidates;
};

struct TaskInfo {
  std::string_view name;
  std::string_view what;  // half a sentence
  Puzzle (*draw)(const DrawsKey& key);
};
std::span<const TaskInfo> Tasks();
// Null where there is none.
const TaskInfo* FindTask(std::string_view name);

// The puzzle number `example` of a task: of these alone and the seed.
Puzzle DrawPuzzle(const TaskInfo& task, int64_t seed, int64_t example);

// The context with so many sentences (or lines) between, and padding of so many words; -1: none.
struct ContextSize {
  int64_t sentences = 0;
  int64_t padding = -1;
};
std::string ContextOf(const Puzzle& puzzle, const ContextSize& size);

// How much of the answer is in what was said, in [0, 1].
double ScoreAnswer(const Puzzle& puzzle, std::string_view said);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_TASKS_PUZZLE_H_
