// RankLink: the decoder's side of a fabric. Puts rows together of which every rank has some
// columns, and keeps the ranks in step.
//
// Made by the engine where a run has several ranks; called by the decoder on the engine's thread.
#ifndef NG_CORE_MODEL_RANK_LINK_H_
#define NG_CORE_MODEL_RANK_LINK_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/model/rank_split.h"
#include "ng/fabric.h"
#include "ng/status.h"

namespace ng {

// Rows of which each rank gives some columns.
struct CutRows {
  std::span<const int64_t> counts;  // [ranks] columns that each gives; empty: nothing is gathered
  int64_t n_rows = 0;
  float* whole = nullptr;  // [n_rows, sum of counts]
};

class RankLink {
 public:
  // Both are borrowed. `stop` may be null.
  RankLink(Fabric& fabric, const std::atomic<bool>* stop) : fabric_(fabric), stop_(stop) {}

  RankSplit split() const { return {fabric_.rank(), fabric_.size()}; }

  // Begins a step: every rank is about to compute the same one, whose hash is `step`. Errors:
  // InterruptedError on all ranks where one was stopped; RuntimeError where they differ.
  absl::Status BeginStep(uint64_t step);
  // Whether a step was ended by a stop on any rank: what all of them go by.
  const std::atomic<bool>* stopped() const { return &stopped_; }

  // Where this rank writes its columns of rows [i] of what Gather will be given: [n_rows,
  // counts[rank]], without gaps. Valid until the next Own or Gather of other rows.
  float* Own(std::span<const CutRows> rows, size_t i);
  // Fills all rows on all ranks, in one call of the fabric. Errors: the fabric's, with the step.
  absl::Status Gather(std::span<const CutRows> rows);

  // The first error of any rank, on all of them, with the rank's name where it is another's. Every
  // rank calls it at the same place. Errors: that one; RuntimeError of the fabric.
  absl::Status Agree(const absl::Status& own);
  // Whether all ranks have the same text. `what` it is: "the model". Errors: RuntimeError that
  // names a rank that has another.
  absl::Status CheckSame(const std::string& what, const std::string& text);

 private:
  // Where rows [i] of a rank begin.
  int64_t Place(std::span<const CutRows> rows, int rank, size_t i) const;
  absl::Status WithStep(const absl::Status& status) const;
  std::string Name(int rank) const;  // "rank 1 (host)"
  // Of each rank, n floats. all: [ranks * n], this rank's are filled.
  absl::Status Exchange(int64_t n, std::vector<float>& all);

  Fabric& fabric_;
  const std::atomic<bool>* stop_;
  std::atomic<bool> stopped_ = false;
  int64_t step_ = 0;
  std::vector<float> staged_;     // the parts of all ranks, one behind the other
  std::vector<int64_t> counts_;   // floats of each rank
  std::vector<float> exchanged_;  // of BeginStep
};

}  // namespace ng

#endif  // NG_CORE_MODEL_RANK_LINK_H_
