// OrderedResults: what requests give, in whatever order it comes, handed out request by request in
// their order. The steps of the first request that has not ended are handed out as they come; those
// of later ones wait.
//
// Used by rank 0 of a run whose requests are dealt to groups of ranks. Thread: the engine's.
#ifndef NG_CORE_RUNTIME_GROUPS_ORDERED_RESULTS_H_
#define NG_CORE_RUNTIME_GROUPS_ORDERED_RESULTS_H_

#include <cstddef>
#include <vector>

#include "ng/request.h"
#include "ng/status.h"

namespace ng {

class OrderedResults {
 public:
  // `options`, whose callbacks are called, is borrowed.
  OrderedResults(size_t n_requests, const GenerateOptions& options)
      : options_(options), entries_(n_requests) {}

  // Errors: those of the callbacks.
  absl::Status OnStep(size_t index, const StepRecord& record);
  absl::Status OnDone(size_t index, Completion completion);

  bool IsDone(size_t index) const { return entries_[index].done; }
  bool all_done() const { return n_done_ == entries_.size(); }
  std::vector<Completion> TakeCompletions();

 private:
  struct Entry {
    std::vector<StepRecord> steps;  // that wait
    Completion completion;
    bool done = false;
  };

  const GenerateOptions& options_;
  std::vector<Entry> entries_;
  size_t n_done_ = 0;
  size_t next_ = 0;  // the first one that has not been handed out
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_GROUPS_ORDERED_RESULTS_H_
