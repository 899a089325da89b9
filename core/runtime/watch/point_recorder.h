// PointRecorder: keeps the rows of a run's points (GenerateOptions::capture_points), each position
// once, in whatever steps it is fed.
#ifndef NG_CORE_RUNTIME_WATCH_POINT_RECORDER_H_
#define NG_CORE_RUNTIME_WATCH_POINT_RECORDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/model/step/step_batch.h"
#include "core/runtime/watch/step_observers.h"
#include "ng/request.h"
#include "ng/status.h"

namespace ng {

// How far a request's points have been kept.
struct KeptPoints {
  int64_t begin = 0;  // the first position
  int64_t end = 0;    // the one behind the last
};

class PointRecorder final : public StepObserver {
 public:
  PointRecorder(int n_layers, std::span<const PointAt> points);

  // Rows of this sequence from kept->end on go to `to` in this step. Both are borrowed until the
  // step ends.
  void Add(SequenceId sequence, KeptPoints* kept, std::vector<CapturedPoint>* to);
  // Ends the step. Of one that failed nothing is kept, so that all points have as many rows.
  void EndStep(bool ok);

  PointSet Wanted(int layer) const override { return wanted_.Of(layer); }
  absl::Status OnPoint(const PointRows& rows) override;

 private:
  struct FedSequence {
    SequenceId sequence = 0;
    KeptPoints* kept = nullptr;
    std::vector<CapturedPoint>* to = nullptr;
    int64_t end = 0;  // the position behind the last that the step has shown
  };
  FedSequence* Find(SequenceId sequence);

  std::vector<PointAt> points_;
  PointsByLayer wanted_;
  std::vector<FedSequence> fed_;
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_WATCH_POINT_RECORDER_H_
