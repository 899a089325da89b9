// A puzzle as tokens, with as much text around it as makes a given length.
#ifndef NG_APPS_EVAL_TASKS_FIT_H_
#define NG_APPS_EVAL_TASKS_FIT_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/eval/tasks/puzzle.h"
#include "ng/status.h"

namespace ng::eval {

// Of a whole text, as the model's own tokenizer has it.
using EncodeText = std::function<absl::StatusOr<std::vector<int32_t>>(std::string_view text)>;

// What the model reads.
struct Prompt {
  std::string text;          // context and question
  std::vector<int32_t> ids;  // of it
  int64_t n_context = 0;     // tokens of these before the question
  // Context, question and a candidate, whole. The first one is right.
  std::vector<std::vector<int32_t>> candidates;
  int64_t n_answer = 0;  // tokens that an answer may have

  int64_t n_tokens() const { return static_cast<int64_t>(ids.size()) + n_answer; }
};

// How many ids two texts have in common from the beginning.
int64_t CommonPrefix(std::span<const int32_t> a, std::span<const int32_t> b);

// The prompt of a puzzle that, with the answer, has at most `length` tokens and not many fewer:
// short words fill the rest. Errors: LimitError where the
// puzzle alone has more; those of `encode`.
absl::StatusOr<Prompt> FitPuzzle(const Puzzle& puzzle, int64_t length, const EncodeText& encode);

// The prompt without its context: the question alone. Errors: those of `encode`.
absl::StatusOr<Prompt> QuestionAlone(const Puzzle& puzzle, const Prompt& whole,
                                     const EncodeText& encode);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_TASKS_FIT_H_
