// RankLink: the decoder's side of a fabric. Puts rows together of which every rank has some
// columns, and keeps the ranks in step.
//
// Made by the engine where a run has several ranks; called by the decoder on the engine's thread.
#ifndef NG_CORE_MODEL_RANKS_RANK_LINK_H_
#define NG_CORE_MODEL_RANKS_RANK_LINK_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels/sent_rows.h"
#include "core/model/weights/rank_split.h"
#include "ng/fabric.h"
#include "ng/status.h"

namespace ng {

// Rows of which each rank gives some columns.
struct CutRows {
  std::span<const int64_t> counts;  // [ranks] columns that each gives; empty: nothing is gathered
  int64_t n_rows = 0;
  float* whole = nullptr;  // [n_rows, sum of counts]
  // The type that the rows have in `whole`, which a matmul reads. Where it is not f32, RoundSent
  // makes what a rank gives.
  InputType as = InputType::kF32;

  // Floats that a rank gives of a row.
  int64_t Floats(size_t rank) const { return SentFloats(as, counts[rank]); }
};

class RankLink {
 public:
  // Both are borrowed. `stop` may be null. `first`: what the fabric's rank 0 is called, among the
  // ranks of all groups.
  RankLink(Fabric& fabric, const std::atomic<bool>* stop, int first = 0)
      : fabric_(fabric), stop_(stop), first_(first) {}

  RankSplit split() const { return {fabric_.rank(), fabric_.size()}; }

  // Begins a step: every rank is about to compute the same one, whose hash is `step`. Errors:
  // InterruptedError on all ranks where one was stopped; RuntimeError where they differ; as Agree.
  absl::Status BeginStep(uint64_t step);
  // What rank 0 gives, on all ranks, which all call this between two steps. Errors: as BeginStep.
  absl::StatusOr<uint64_t> Announce(uint64_t number);
  // Whether a step was ended by a stop on any rank: what all of them go by.
  const std::atomic<bool>* stopped() const { return &stopped_; }

  // Where this rank writes its columns of rows [i] of what Gather will be given: [n_rows,
  // Floats(rank)], without gaps. Valid until the next Own or Gather of other rows.
  float* Own(std::span<const CutRows> rows, size_t i);
  // Fills all rows on all ranks, in one call of the fabric. Errors: the fabric's, with the step.
  absl::Status Gather(std::span<const CutRows> rows);

  // The same for rows in pieces, of which one is on its way while another is computed. What is
  // given of a piece lies from float `first` of the stage on, where Own looks from now on too. The
  // stage has room for `size` floats in all; it must not grow while anything is on its way.
  void PlaceStage(int64_t first, int64_t size);
  int64_t stage_first() const { return stage_first_; }
  // Seconds that Gather has waited for the fabric since this was asked last.
  double TakeWaited() { return std::exchange(waited_s_, 0.0); }
  // The least of what the ranks give. Errors: as Gather.
  absl::StatusOr<float> Least(float own);
  // Gather in two: what the fabric does, while another thread may compute, and what this thread
  // does with it.
  absl::Status Send(std::span<const CutRows> rows, int64_t first);
  void Land(std::span<const CutRows> rows) const;

  // The first error of any rank, on all of them, with the rank's name where it is another's. Every
  // rank calls it at the same place, or begins a step there. Ranks above 0 leave it to rank 0 to
  // tell. After it nothing is sent any more: every call returns it, or an error that it is given.
  // Errors: that one; RuntimeError of the fabric.
  absl::Status Agree(const absl::Status& own);
  // What one rank has, on all of them. Errors: as Gather.
  absl::Status ShareBytes(std::span<std::byte> bytes, int root = 0);
  // The text, or the list of numbers, of one rank; the others may have one of another size. Errors:
  // as Gather.
  template <typename List>
  absl::Status Share(List* list, int root = 0) {
    uint64_t size = list->size();
    NG_RETURN_IF_ERROR(ShareBytes(std::as_writable_bytes(std::span(&size, 1)), root));
    list->resize(size);
    return ShareBytes(std::as_writable_bytes(std::span(*list)), root);
  }
  // Rows to another rank, which receives as many. Receiving waits for them. Errors: as Gather.
  absl::Status SendRows(int to, std::span<const float> rows);
  absl::Status ReceiveRows(int from, std::span<float> rows);
  // A text to another rank, and the next one of it; empty: none has come. Neither waits. Errors: as
  // Gather; other ranks can still be told.
  absl::Status Send(int to, const std::string& text);
  absl::StatusOr<std::string> Receive(int from);
  // What the run does between two calls counts as a step, where it is told where an error was.
  void CountStep() { ++step_; }
  // The ranks have been told otherwise that the run has failed: nothing is sent any more, and every
  // call returns this error.
  void End(const absl::Status& failed) {
    if (ended_.ok()) ended_ = failed;
  }
  std::string Name(int rank) const;  // "rank 1 (host)"
  // Whether all ranks have the same text. `what` it is: "the model". Errors: RuntimeError that
  // names a rank that has another.
  absl::Status CheckSame(const std::string& what, const std::string& text);

 private:
  // Where a rank is when it meets the others.
  enum class At : uint8_t { kStep, kAgree, kAnnounce, kStopped, kFailed };
  struct Met {
    At at;
    uint64_t step;  // hash
  };

  // Tells all ranks where this one is. What they found is in met_.
  absl::Status Meet(At at, uint64_t step);
  // Whether any rank is at such a place.
  bool AnyAt(At at) const;
  bool Stops() const;  // this rank, for itself
  // After Meet: whether any rank was stopped or has failed.
  absl::Status ReadEnd();
  // Whether all ranks do the same.
  absl::Status CheckTogether();
  // After Meet, when a rank has failed: its error.
  absl::Status ReadError(const absl::Status& own);
  // Every call from now on returns this error.
  absl::Status EndWith(absl::Status status);
  // Counts what each rank gives of rows; the sum.
  int64_t Count(std::span<const CutRows> rows);
  // Puts what a rank gave of rows where they are wanted. Returns what is behind it.
  const float* Put(const CutRows& rows, size_t rank, const float* from) const;
  // Where rows [i] of a rank begin.
  int64_t Place(std::span<const CutRows> rows, int rank, size_t i) const;
  // What a call of the fabric returned, with the step. One of the ranks that are left tells it.
  absl::Status WithPlace(const absl::Status& status) const;
  // Whether this rank is told to end meanwhile.
  bool EndsWithin(std::chrono::milliseconds time) const;
  // The same, after which nothing is sent any more.
  absl::Status WithStep(const absl::Status& status);
  // Of each rank, n floats. all: [ranks * n], this rank's are filled.
  absl::Status Exchange(int64_t n, std::vector<float>& all);

  Fabric& fabric_;
  const std::atomic<bool>* stop_;
  const int first_;
  std::atomic<bool> stopped_ = false;
  int64_t step_ = 0;
  std::vector<float> staged_;  // the parts of all ranks, one behind the other
  int64_t stage_first_ = 0;    // where in it those begin that are made now
  double waited_s_ = 0.0;
  std::vector<int64_t> counts_;   // floats of each rank
  std::vector<float> exchanged_;  // of Meet
  std::vector<Met> met_;          // [ranks]
  absl::Status ended_;            // the error after which nothing is sent
};

// What link.Own and link.Gather do; without a link (null) this process computes all of the rows,
// and writes them where they are wanted.
inline float* OwnCut(RankLink* link, std::span<const CutRows> rows, size_t i) {
  return link == nullptr ? rows[i].whole : link->Own(rows, i);
}
inline absl::Status GatherCut(RankLink* link, std::span<const CutRows> rows) {
  return link == nullptr ? absl::OkStatus() : link->Gather(rows);
}

}  // namespace ng

#endif  // NG_CORE_MODEL_RANKS_RANK_LINK_H_
