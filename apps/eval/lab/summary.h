// The lines of a card of methods together: one object for its page, and a table to read.
#ifndef NG_APPS_EVAL_LAB_SUMMARY_H_
#define NG_APPS_EVAL_LAB_SUMMARY_H_

#include <span>
#include <string>

#include "apps/eval/lab/lines.h"

namespace ng::eval {

// What the full cache must solve of a task for the task to be counted: with less, all methods look
// equal.
inline constexpr double kMeasurable = 0.6;

// Methods, in the order in which they first come, with scores, margins, texts, memory and speeds.
// Differences to the full cache are paired: of the same examples, and of the same tokens.
Json Summarise(std::span<const Json> lines);

// The table, a line for each method. `wide`: all columns.
std::string SummaryText(const Json& summary, bool wide);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_LAB_SUMMARY_H_
