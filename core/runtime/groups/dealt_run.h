// A run whose requests are dealt to groups of ranks (fabric.groups).
//
// Every rank has all requests and runs the generate loop over those of its group. The queue is at
// rank 0. The first rank of each group, its leader, asks rank 0 for as many requests as its batch
// has room for and sends it what they give; so a slow group holds nobody up. A request is named by
// its place among all, which its draws depend on, so it has the tokens that one process gives it.
//
// Between two steps a leader announces to its group what comes next. Nobody waits for longer than a
// moment without a word: a leader and rank 0 tell each other that they are there, and so does a
// leader to its group.
#ifndef NG_CORE_RUNTIME_GROUPS_DEALT_RUN_H_
#define NG_CORE_RUNTIME_GROUPS_DEALT_RUN_H_

#include <span>
#include <vector>

#include "core/model/ranks/rank_link.h"
#include "core/runtime/loop/generate.h"

namespace ng {

// The ranks of such a run. Borrowed.
struct RankGroups {
  RankLink& ranks;            // all
  RankLink* group = nullptr;  // this rank's; null: it is one by itself
  int n = 1;                  // groups
};

// As Generate. On rank 0 the callbacks are called and all completions come back, request by request
// in their order; on the others only each stop_reason says whether the run was interrupted. Errors
// are the same on all ranks, and rank 0 tells them; after one `ranks` sends nothing more.
absl::StatusOr<std::vector<Completion>> GenerateDealt(const GenerateParts& parts,
                                                      const GenerateSettings& settings,
                                                      std::span<const GenerateRequest> requests,
                                                      const GenerateOptions& options,
                                                      const RankGroups& groups);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_GROUPS_DEALT_RUN_H_
