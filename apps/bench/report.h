// A measurement as a line of text or JSON.
#ifndef NG_APPS_BENCH_REPORT_H_
#define NG_APPS_BENCH_REPORT_H_

#include <string>

#include "apps/bench/measure.h"
#include "apps/common/table.h"
#include "ng/engine.h"

namespace ng::bench {

// What was measured.
struct Subject {
  const Engine& engine;
  std::string model;  // the model's path, or the shape's
  StepCost cost;
};

// The figures, what was measured, and the shares of what the machine can do. Absent figures are
// null. Ends with a newline.
std::string JsonLine(const Subject& subject, const Workload& workload, const Figures& figures);

// The same as a table to read: what was measured and the heading, and a line for each workload.
// `wide`: all columns.
class TextTable {
 public:
  explicit TextTable(bool wide);
  std::string Head(const Subject& subject, const Figures& first) const;
  std::string Line(const Subject& subject, const Workload& workload, const Figures& figures) const;
  std::string Note() const { return table_.Note(); }

 private:
  Table table_;
};

// One round as a line: "round 2 of 5: prefill 812.3 tok/s, decode 50.1 tok/s".
std::string RoundLine(const Workload& workload, int64_t round, const Speed& speed);

}  // namespace ng::bench

#endif  // NG_APPS_BENCH_REPORT_H_
