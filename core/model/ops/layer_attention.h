// The attention of a model's layers: what each of them asks of the backend, and the backend's
// plans.
//
// Layers that ask for the same share a plan. Made before a run (the engine, for the decoder) and to
// find out what a run will need (runtime/run_plan).
#ifndef NG_CORE_MODEL_OPS_LAYER_ATTENTION_H_
#define NG_CORE_MODEL_OPS_LAYER_ATTENTION_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/model/spec/model_spec.h"
#include "core/model/weights/weights.h"
#include "ng/attention_backend.h"
#include "ng/cache_store.h"
#include "ng/status.h"

namespace ng {

// What each layer with attention asks, with the model's sliding window or without. Layers without
// attention are not counted; `layer` is the first one that asks for the same. The slopes are those
// of `spec`, which must outlive them.
std::vector<AttentionSpec> AttentionSpecsOf(const ModelSpec& spec, bool with_window);

// Puts each layer's sinks in its spec: they are borrowed from the weights, wherever those are
// moved.
void SetSinks(const ModelSpec& spec, const ModelWeights& weights, std::span<AttentionSpec> specs);

class LayerAttention {
 public:
  // `backend` is borrowed. [load] Errors: what the backend answers.
  static absl::StatusOr<LayerAttention> Make(AttentionBackend& backend,
                                             std::span<const AttentionSpec> specs);

  // Prepares a step. [step]
  absl::Status Plan(std::span<const SequenceRows> rows);
  // Of the step that was planned last: what Run needs in any layer, and what the plans hold.
  int64_t scratch_floats() const { return scratch_floats_; }
  int64_t plan_bytes() const;
  // Whether the backend fills AttentionRun::missed.
  bool tells_missed() const;
  // Computes run.layer. [step]
  absl::Status Run(const AttentionRun& run);

 private:
  AttentionBackend* backend_ = nullptr;
  std::vector<std::unique_ptr<AttentionPlan>> plans_;  // of each distinct spec
  std::vector<const AttentionPlan*> plan_of_layer_;    // [n_layers]
  int64_t scratch_floats_ = 0;
};

}  // namespace ng

#endif  // NG_CORE_MODEL_OPS_LAYER_ATTENTION_H_
