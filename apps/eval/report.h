// Perplexity, a comparison or a card: as text for a reader, or as lines of JSON.
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

// What was scored, on what.
struct Subject {
  const Engine& engine;  // the reference's, loaded
  StepCost cost;
  size_t n_texts = 0;
  size_t n_windows = 0;
  int64_t window = 0;    // the most tokens that one is fed
  int64_t n_scored = 0;  // in all
};

// Each ends with a newline. `candidate` may be null. Errors: LimitError.
absl::StatusOr<std::string> EvaluationJson(const Subject& subject, const Engine* candidate,
                                           const Evaluation& evaluation);
absl::StatusOr<std::string> EvaluationText(const Subject& subject, const Engine* candidate,
                                           const Evaluation& evaluation);

std::string CardRowJson(const Subject& subject, const CardRow& row);
// What stands above the rows: what was scored, the columns.
std::string CardHeadText(const Subject& subject, std::span<const Workload> workloads);
std::string CardRowText(const CardRow& row);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_REPORT_H_
