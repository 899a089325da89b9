// The quality card: every cache plugin with every codec beside f32, on one model.
#ifndef NG_APPS_EVAL_CARD_H_
#define NG_APPS_EVAL_CARD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/common/codecs.h"
#include "apps/common/speed.h"
#include "apps/eval/evaluate.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::eval {

// Medians of the rounds, in each of which the reference was timed too.
struct SpeedBesideReference {
  Workload workload;  // either a prefill or decode at a depth
  double tok_s = 0.0;
  double ratio = 0.0;  // how many times the reference's
};

struct CardRow {
  std::string cache;
  CodecNames codecs;
  absl::Status status;  // why it did not run; if so, the rest says nothing
  int64_t bytes_per_token = 0;
  Evaluation evaluation;
  std::vector<SpeedBesideReference> speeds;  // as Plan::workloads
};

struct Plan {
  EngineOptions reference;  // what the reference is opened with
  RunNeeds needs;           // what every engine is loaded for
  Job job;
  std::vector<Workload> workloads;  // of a card: one sequence each; empty: no speeds
};

// What the card's reference has beyond the config: f32 in whichever cache.
std::vector<std::string> ReferenceOverrides();

// That decode at the card's depths fits in `limit` tokens (0: no limit). Errors: LimitError.
absl::Status CheckDepths(const CommandLine& line, int64_t limit);

// A prefill, and decode at each depth. Without depths: at 0, and at what leaves room in `window`.
// REQUIRES: the depths are checked.
std::vector<Workload> CardWorkloads(const CommandLine& line, int64_t window, int64_t limit);

// Calls `on_row` with each row as soon as it is there. What keeps a row from running is in the row.
// Errors: those of `on_row`; InterruptedError; a plugin folder that cannot be read.
absl::Status MakeCard(Engine& engine, const Plan& plan,
                      const std::function<absl::Status(const CardRow&)>& on_row);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_CARD_H_
