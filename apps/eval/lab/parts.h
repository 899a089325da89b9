// The parts of a card's work, and what their lines of JSON say of what was measured.
#ifndef NG_APPS_EVAL_LAB_PARTS_H_
#define NG_APPS_EVAL_LAB_PARTS_H_

#include <cstdint>
#include <span>
#include <string>

#include "apps/eval/lab/lines.h"
#include "apps/eval/measure/run_speed.h"
#include "apps/eval/measure/run_task.h"
#include "apps/eval/measure/run_text.h"
#include "ng/cache_store.h"

namespace ng::eval {

// A part is named by the fields that its line begins with: `kind`, and with it `task` and `length`,
// or `depth`.
Json TaskPart(const std::string& task, int64_t length);
Json TextPart();
Json SpeedPart(int64_t depth);

// "needle of 1024".
std::string PartName(const Json& part);
// The options that ask for this part alone.
std::string PartOptions(const Json& part);

// Each adds the fields of what was measured to a line. plan: of one sequence of the task's length.
void FillTask(std::span<const FittedPuzzle> puzzles, const TaskResult& result,
              const CachePlan& plan, Json* line);
void FillText(const TextResult& result, Json* line);
void FillSpeed(const SpeedResult& speed, int64_t rounds, Json* line);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_LAB_PARTS_H_
