// Perplexity, a comparison or a card, as text to read or as lines of JSON.
#ifndef NG_APPS_EVAL_REPORT_H_
#define NG_APPS_EVAL_REPORT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/eval/card.h"
#include "apps/eval/evaluate.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::eval {

// What was scored, and on which engine.
struct Subject {
  const Engine& engine;  // the reference's, loaded
  StepCost cost;
  size_t n_texts = 0;
  size_t n_windows = 0;
  int64_t window = 0;    // the most tokens of one window
  int64_t n_scored = 0;  // tokens, in all windows
};

// Each ends with a newline. `candidate` may be null. Errors: LimitError.
absl::StatusOr<std::string> EvaluationJson(const Subject& subject, const Engine* candidate,
                                           const Evaluation& evaluation);
absl::StatusOr<std::string> EvaluationText(const Subject& subject, const Engine* candidate,
                                           const Evaluation& evaluation);

std::string CardRowJson(const Subject& subject, const CardRow& row);
// The text above the rows: what was scored, and the columns.
std::string CardHeadText(const Subject& subject, std::span<const Workload> workloads);
std::string CardRowText(const CardRow& row);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_REPORT_H_
