// How fast a method decodes behind many tokens, beside the full cache in the same rounds.
#ifndef NG_APPS_EVAL_MEASURE_RUN_SPEED_H_
#define NG_APPS_EVAL_MEASURE_RUN_SPEED_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/eval/measure/intervals.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::eval {

struct SpeedRun {
  int64_t depth = 0;   // tokens that have come before
  int64_t rounds = 1;  // that count; one more warms up
  // As TaskRun has them: the tokens before are the context.
  std::span<const std::string> rules = {};
  const std::atomic<bool>* stop = nullptr;
};

struct SpeedResult {
  double tok_s = 0.0;  // the median
  double full_tok_s = 0.0;
  Interval ratio;  // to the full cache's: the median, the least and the most of the rounds
};

// Tokens that are decoded in a round.
inline constexpr int64_t kSpeedTokens = 32;

// Fills a sequence of each with the same drawn ids, and times decode on forks of them. A result for
// each rule; one where there are none. Errors: those of the engines. REQUIRES: both have room for
// two sequences of depth + kSpeedTokens tokens, the method with rules for three.
absl::StatusOr<std::vector<SpeedResult>> RunSpeed(Engine& full, Engine& method,
                                                  const SpeedRun& run);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_MEASURE_RUN_SPEED_H_
