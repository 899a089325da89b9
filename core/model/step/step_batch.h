// One step of the model: a ragged list of sequences with their new tokens.
//
// Prefill, a chunk of a prefill, decode, batched decode and full recomputation are shapes of it.
#ifndef NG_CORE_MODEL_STEP_STEP_BATCH_H_
#define NG_CORE_MODEL_STEP_STEP_BATCH_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "ng/attention_backend.h"
#include "ng/cache_store.h"
#include "ng/point.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

namespace ng {

struct StepSequence {
  SequenceId sequence = 0;
  int64_t start_pos = 0;            // tokens already in the cache
  std::span<const int32_t> tokens;  // new ones, at positions start_pos...
  int64_t n_logit_rows = 1;         // logits of the last so many of them
  int request = -1;                 // TokenRow::request
  int32_t adapters = 0;             // which of the run's sets of adapters
};

// Looks into a step while it runs, on the engine's thread. Every hook is optional.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // The points of a layer, or with -1 those of no layer, that OnPoint is to be called for. Asked in
  // each step. What nobody asks for costs nothing: where a kernel does two things at once, it does
  // them one after the other only when somebody looks at what is between them, with the same bits.
  virtual PointSet Wanted(int layer) const {
    (void)layer;
    return {};
  }
  // The step goes on with what is left in the rows. An error ends it.
  virtual absl::Status OnPoint(const PointRows& rows) {
    (void)rows;
    return absl::OkStatus();
  }
  virtual void OnStep(std::span<const SequenceRows> rows) { (void)rows; }
  // Keys and values of `rows` are in the cache; `views` is what attention is about to read.
  virtual void OnAttention(int layer, std::span<const SequenceRows> rows,
                           std::span<const KvView> views) {
    (void)layer, (void)rows, (void)views;
  }
  // hidden: [n_rows, width], the residual stream after the layer.
  virtual void OnLayerOutput(int layer, const TensorView<const float, 2>& hidden) {
    (void)layer, (void)hidden;
  }
};

// What one row of a step missed: the sum over layers and heads of MissedAttention's shares.
struct MissedRow {
  double sum = 0.0;
  int64_t n = 0;  // shares that were added
  float most = 0.0F;
  int layer = -1;
  int head = -1;
};

struct StepBatch {
  std::span<const StepSequence> sequences;  // distinct, each with at least one token
  // Probability rows to keep, per layer, each list sorted as ProbabilityRow asks; empty: none.
  std::span<const std::vector<ProbabilityRow>> captures;  // [n_layers] or empty
  StepObserver* observer = nullptr;                       // may be null
  const std::atomic<bool>* stop = nullptr;                // checked between layers; may be null
  // To be added to; empty: nobody asks. Only where the model tells it (LanguageModel::tells_missed)
  std::span<MissedRow> missed = {};  // [n_rows] or empty
};

}  // namespace ng

#endif  // NG_CORE_MODEL_STEP_STEP_BATCH_H_
