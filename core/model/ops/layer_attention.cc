#include "core/model/ops/layer_attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "core/model/weights/rank_split.h"

namespace ng {

namespace {

// What this rank's heads have of a value for each.
std::span<const float> OfHeads(std::span<const float> values, const RankHeads& heads) {
  if (values.empty()) return values;
  return values.subspan(static_cast<size_t>(heads.first), static_cast<size_t>(heads.n));
}

}  // namespace

std::vector<AttentionSpec> AttentionSpecsOf(const ModelSpec& spec, bool with_window) {
  std::vector<AttentionSpec> specs;
  std::vector<SelfAttentionSpec> made_for;  // what each of specs was made of
  for (const int layer : spec.LayersWith(Operation::kAttention)) {
    const BlockSpec* const block = spec.Find(static_cast<size_t>(layer), Operation::kAttention);
    SelfAttentionSpec attention = PartOf(spec.AttentionOf(*block), spec.split);
    if (!with_window) {
      attention.window = 0;
      attention.chunks = false;
    }
    // What becomes of q and k before they get here is not asked for.
    attention.keys_of = -1;
    attention.rope = -1;
    attention.qk_norm = {};
    attention.qk_norm_kind = QkNormKind::kHeads;
    attention.clip = 0.0;
    attention.gate = false;
    attention.qkv_bias = attention.out_bias = false;
    attention.latent.q_rank = 0;
    attention.latent.norm = {};
    // The values of sinks are each layer's own.
    const auto same =
        attention.sinks.empty() ? std::ranges::find(made_for, attention) : made_for.end();
    AttentionSpec& asked = specs.emplace_back();
    asked.layer = static_cast<int>(same - made_for.begin());
    asked.n_heads = attention.n_heads;
    asked.n_kv_heads = attention.kv_heads();
    asked.head_dim = attention.key_dim();
    asked.v_head_dim = attention.attended_dim();
    asked.v_in_k = attention.latent.is_there();
    asked.scale = static_cast<float>(attention.score_scale());
    asked.window = attention.window;
    asked.chunks = attention.chunks;
    asked.query_temperature = attention.temperature;
    asked.soft_cap = static_cast<float>(attention.soft_cap);
    const RankHeads heads = HeadsOf(spec.AttentionOf(*block), spec.split);
    asked.alibi_slopes = OfHeads(spec.AttentionOf(*block).alibi_slopes, heads);
    asked.sinks = OfHeads(spec.AttentionOf(*block).sinks, heads);
    made_for.push_back(attention);
  }
  return specs;
}

void SetSinks(const ModelSpec& spec, const ModelWeights& weights, std::span<AttentionSpec> specs) {
  size_t asked = 0;
  for (const int layer : spec.LayersWith(Operation::kAttention)) {
    for (const BlockWeights& block : weights.layers[static_cast<size_t>(layer)]) {
      if (!block.sinks.empty()) specs[asked].sinks = block.sinks;
    }
    ++asked;
  }
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

bool LayerAttention::tells_missed() const {
  return std::ranges::count(backend_->features(), kFeatureMissed) > 0;
}

absl::Status LayerAttention::Run(const AttentionRun& run) {
  return backend_->Run(*plan_of_layer_[static_cast<size_t>(run.layer)], run);
}

}  // namespace ng
