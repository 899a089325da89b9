// The two configs that are compared: opened, checked against each other, and run.
#ifndef NG_APPS_DIFF_SIDES_H_
#define NG_APPS_DIFF_SIDES_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/diff/lockstep.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::diff {

// Points by who has them.
struct PointsOfBoth {
  std::vector<PointShape> common;   // in A's order, with equal shapes
  std::vector<std::string> only_a;  // names; those with another shape are in both
  std::vector<std::string> only_b;
};
PointsOfBoth ComparePoints(const Engine& a, const Engine& b);

// Checks that both have the same vocabulary. Errors: UsageError with what differs.
absl::Status CheckVocabularies(const Engine& a, const Engine& b);

// Loads both, if they fit into memory together, and runs them. The requests are A's; B computes
// what A loads from a snapshot. `points`: of both. Errors: LimitError with the bytes of both; those
// of RunLockstep.
struct BothSides {
  Engine& a;
  Engine& b;
  std::string b_name;  // "--against": what errors about B begin with
};
absl::StatusOr<LockstepResult> RunBoth(const BothSides& sides,
                                       std::span<const GenerateRequest> requests,
                                       const std::vector<PointShape>& points,
                                       const std::atomic<bool>* stop);

// What A needs for these requests when all points are looked at.
RunNeeds NeedsOf(std::span<const GenerateRequest> requests);

}  // namespace ng::diff

#endif  // NG_APPS_DIFF_SIDES_H_
