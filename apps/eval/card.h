// The quality card: every cache plugin with every codec beside f32, on one model.
#ifndef NG_APPS_EVAL_CARD_H_
#define NG_APPS_EVAL_CARD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/common/speed.h"
#include "apps/eval/evaluate.h"
#include "ng/config.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::eval {

// Medians of the rounds. In each round the reference is timed too.
struct SpeedBesideReference {
  Workload workload;  // a prefill, or decode at a depth
  double tok_s = 0.0;
  double ratio = 0.0;  // how many times the speed of the reference
};

struct CardRow {
  std::string cache;
  CodecNames codecs;
  absl::Status status;  // an error says why it did not run; then the rest is undefined
  int64_t bytes_per_token = 0;
  Evaluation evaluation;
  std::vector<SpeedBesideReference> speeds;  // in the order of Plan::workloads
};

struct Plan {
  EngineOptions reference;  // options of the reference
  RunNeeds needs;           // every engine is loaded for these needs
  Job job;
  std::vector<Workload> workloads;  // for a card; one sequence each; empty: no speeds
};

// The overrides of the card's reference: f32 in any cache.
std::vector<std::string> ReferenceOverrides();

// Checks that decode at the card's depths fits in `limit` tokens (0: no limit). Errors: LimitError.
absl::Status CheckDepths(const CommandLine& line, int64_t limit);

// A prefill, and decode at each depth. If no depths are given, decode at depth 0 and at the
// greatest depth that leaves room in `window`. REQUIRES: the depths have been checked.
std::vector<Workload> CardWorkloads(const CommandLine& line, int64_t window, int64_t limit);

// Calls `on_row` with each row as soon as it is finished. A row that cannot run says why.
// Errors: those of `on_row`; InterruptedError; a plugin folder that cannot be read.
absl::Status MakeCard(Engine& engine, const Plan& plan,
                      const std::function<absl::Status(const CardRow&)>& on_row);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_CARD_H_
