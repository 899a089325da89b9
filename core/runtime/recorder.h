// Recorder: asks the attention backend for the probability rows that a run wants to keep, and hands
// them out once a step has filled them. Off, it costs one test per step.
#ifndef NG_CORE_RUNTIME_RECORDER_H_
#define NG_CORE_RUNTIME_RECORDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ng/attention_backend.h"
#include "ng/engine.h"

namespace ng {

class Recorder {
 public:
  // `layers` (rising) and `heads` (rising; empty: all) say which rows of a query are kept.
  Recorder(const ModelShape& shape, std::span<const int> layers, std::span<const int> heads);

  bool on() const { return !layers_.empty(); }

  // Forgets the last step.
  void BeginStep();
  // Asks for the rows of queries [first_pos, end_pos) of the step's `sequence`-th entry. Called
  // with rising `sequence`.
  void Want(int sequence, int64_t first_pos, int64_t end_pos);
  // The requests of this step, per layer; empty when nothing is wanted.
  std::span<const std::vector<ProbabilityRow>> captures() const;

  // The rows of one query, ordered by (layer, head). REQUIRES: they were wanted and not taken yet.
  std::vector<AttentionRow> Take(int sequence, int64_t pos);

 private:
  // A run of queries of one sequence; their rows lie in held_ ordered by (pos, layer, head).
  struct Run {
    int sequence = 0;
    int64_t first_pos = 0;
    size_t held_begin = 0;
  };

  std::vector<int> layers_;
  std::vector<int> heads_;
  std::vector<Run> runs_;
  std::vector<AttentionRow> held_;
  std::vector<std::vector<ProbabilityRow>> captures_;  // [n_layers]
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_RECORDER_H_
