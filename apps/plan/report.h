// A plan as tables to read, or as one JSON object.
#ifndef NG_APPS_PLAN_REPORT_H_
#define NG_APPS_PLAN_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "apps/plan/operations.h"
#include "apps/plan/simulation.h"
#include "ng/engine.h"

namespace ng::plan {

// What is planned.
struct Subject {
  const Engine& engine;
  std::string model;  // the model's path, or the shape's
  RunPlan plan;
  Run run;
  std::vector<Machines> machines;  // empty: one process is planned
};

// The most tokens that a sequence may have, by the model's context and the config; 0: any number.
int64_t MostTokens(const Engine& engine);

// Memory by part, operations with their formula, and how the cache grows with the length of one
// sequence: the tables stop at the most tokens, the object does not. Both end with a newline.
std::string JsonLine(const Subject& subject);
std::string TextTables(const Subject& subject);

}  // namespace ng::plan

#endif  // NG_APPS_PLAN_REPORT_H_
