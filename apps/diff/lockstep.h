// Runs two engines side by side along the tokens of the first, and compares what they make.
#ifndef NG_APPS_DIFF_LOCKSTEP_H_
#define NG_APPS_DIFF_LOCKSTEP_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/diff/comparer.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::diff {

// An engine that is loaded, and what it runs.
struct SideRun {
  Engine& engine;
  std::span<const GenerateRequest> requests;
};

struct Lockstep {
  std::vector<PointShape> points;           // of both engines
  int64_t max_waiting_bytes = 0;            // Comparer's
  const std::atomic<bool>* stop = nullptr;  // that of the engines; may be null
};

// The tokens of a run, and what was compared along them.
struct LockstepResult {
  Comparison comparison;
  std::vector<std::vector<int32_t>> ids;  // of each prompt: the prompt's and A's answer
};

// A chooses its tokens as its config says, B is given the same. Each engine has a thread, of which
// one runs at a time: A until it has made rows that B has not, B until it is ahead or needs a token
// that A has not chosen, and so on. So their thread pools never work at the same time. Errors:
// those of the engines, B's with `b_name` before them; LimitError; InterruptedError.
absl::StatusOr<LockstepResult> RunLockstep(const SideRun& a, const SideRun& b,
                                           const std::string& b_name, const Lockstep& lockstep);

}  // namespace ng::diff

#endif  // NG_APPS_DIFF_LOCKSTEP_H_
