#include "core/model/layer_attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace ng {

std::vector<AttentionSpec> AttentionSpecsOf(const ModelSpec& spec, bool with_window) {
  const ModelShape& shape = spec.shape;
  AttentionSpec plain;
  plain.n_heads = shape.n_heads;
  plain.n_kv_heads = shape.n_kv_heads;
  plain.head_dim = plain.v_head_dim = shape.head_dim;
  plain.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  std::vector<AttentionSpec> specs;
  for (int layer = 0; layer < shape.n_layers; ++layer) {
    AttentionSpec asked = plain;
    if (with_window) asked.window = spec.WindowOf(layer);
    const auto same = std::ranges::find(specs, asked.window, &AttentionSpec::window);
    asked.layer = same == specs.end() ? layer : same->layer;
    specs.push_back(asked);
  }
  return specs;
}

absl::StatusOr<LayerAttention> LayerAttention::Make(AttentionBackend& backend,
                                                    std::span<const AttentionSpec> specs) {
  LayerAttention layers;
  layers.backend_ = &backend;
  for (const AttentionSpec& spec : specs) {
    const auto layer = static_cast<size_t>(spec.layer);
    if (layer == layers.plan_of_layer_.size()) {
      NG_ASSIGN_OR_RETURN(std::unique_ptr<AttentionPlan> plan, backend.NewPlan(spec));
      layers.plans_.push_back(std::move(plan));
      layers.plan_of_layer_.push_back(layers.plans_.back().get());
    } else {
      layers.plan_of_layer_.push_back(layers.plan_of_layer_[layer]);
    }
  }
  return layers;
}

absl::Status LayerAttention::Plan(std::span<const SequenceRows> rows) {
  scratch_floats_ = 0;
  for (const std::unique_ptr<AttentionPlan>& plan : plans_) {
    NG_RETURN_IF_ERROR(backend_->Plan(rows, *plan));
    scratch_floats_ = std::max(scratch_floats_, plan->scratch_floats);
  }
  return absl::OkStatus();
}

int64_t LayerAttention::plan_bytes() const {
  int64_t bytes = 0;
  for (const std::unique_ptr<AttentionPlan>& plan : plans_) bytes += plan->bytes;
  return bytes;
}

absl::Status LayerAttention::Run(const AttentionRun& run) {
  return backend_->Run(*plan_of_layer_[static_cast<size_t>(run.layer)], run);
}

}  // namespace ng
