// Perplexity, a comparison or a card, as text to read or as lines of JSON.
#ifndef NG_APPS_EVAL_REPORT_H_
#define NG_APPS_EVAL_REPORT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/common/table.h"
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
// The card as a table: what was scored and the heading, then the rows. `wide`: all columns.
class CardTable {
 public:
  CardTable(std::span<const Workload> workloads, bool wide);
  std::string Head(const Subject& subject) const;
  std::string Row(const CardRow& row) const;
  std::string Note() const { return table_.Note(); }

 private:
  bool wide_;
  bool speeds_;
  Table table_;
};

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_REPORT_H_
