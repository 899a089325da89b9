#include "plugins/attention/reference/reference_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "ng/executor.h"

namespace ng {
namespace {

constexpr int kMaxHeadDim = 512;
constexpr std::array<std::string_view, 1> kLayouts = {kLayoutAny};

// A worker's scratch: the keys and values that one item may see, decoded, and one row of weights.
struct Scratch {
  float* keys;     // [n_keys, head_dim]
  float* values;   // [n_keys, head_dim]
  float* weights;  // [n_keys]

  static int64_t Floats(int64_t n_keys, int head_dim) { return n_keys * (2 * head_dim + 1); }
  Scratch(float* memory, int64_t n_keys, int head_dim)
      : keys(memory), values(keys + n_keys * head_dim), weights(values + n_keys * head_dim) {}
};

// weights: [n_keys], sum to 1. A NaN score makes them all NaN.
void ComputeWeights(const AttentionSpec& spec, const float* q, const float* keys, int64_t n_keys,
                    float* weights) {
  double max = -HUGE_VAL;
  for (int64_t j = 0; j < n_keys; ++j) {
    const float* k = keys + j * spec.head_dim;
    double dot = 0.0;
    for (int d = 0; d < spec.head_dim; ++d) dot += double{q[d]} * double{k[d]};
    weights[j] = static_cast<float>(dot * double{spec.scale});
    max = std::max(max, double{weights[j]});
  }
  double sum = 0.0;
  for (int64_t j = 0; j < n_keys; ++j) sum += std::exp(double{weights[j]} - max);
  for (int64_t j = 0; j < n_keys; ++j) {
    weights[j] = static_cast<float>(std::exp(double{weights[j]} - max) / sum);
  }
}

// out: [head_dim]
void SumValues(const float* weights, const float* values, int64_t n_keys, int head_dim,
               float* out) {
  std::array<double, kMaxHeadDim> sum{};
  for (int64_t j = 0; j < n_keys; ++j) {
    const float* v = values + j * head_dim;
    for (int d = 0; d < head_dim; ++d) {
      sum[static_cast<size_t>(d)] += double{weights[j]} * double{v[d]};
    }
  }
  for (int d = 0; d < head_dim; ++d) out[d] = static_cast<float>(sum[static_cast<size_t>(d)]);
}

class ReferenceAttention : public AttentionBackend {
 public:
  explicit ReferenceAttention(Executor& executor) : executor_(executor) {}

  std::span<const std::string_view> layouts() const override { return kLayouts; }

  absl::Status Supports(const AttentionSpec& spec, const CacheFormat&) const override {
    if (!spec.needs.empty()) {
      return PluginError("attention 'reference' has no '" + std::string(spec.needs.front()) +
                         "'; it does plain causal attention only");
    }
    if (spec.head_dim < 1 || spec.head_dim > kMaxHeadDim) {
      return PluginError(
          "attention 'reference' cannot do head_dim = " + std::to_string(spec.head_dim) +
          "; it does 1 to " + std::to_string(kMaxHeadDim));
    }
    if (spec.n_kv_heads < 1 || spec.n_heads < 1 || spec.n_heads % spec.n_kv_heads != 0) {
      return PluginError(
          "attention 'reference' cannot share n_kv_heads = " + std::to_string(spec.n_kv_heads) +
          " among n_heads = " + std::to_string(spec.n_heads) + "; n_heads must be a multiple");
    }
    return absl::OkStatus();
  }

  // One item for each sequence and kv head.
  absl::Status Plan(const AttentionSpec& spec, std::span<const SequenceRows> rows,
                    AttentionPlan* plan) override {
    plan->spec = spec;
    plan->rows = rows;
    plan->items.clear();
    int64_t longest = 0;
    for (size_t s = 0; s < rows.size(); ++s) {
      const int64_t end = rows[s].start_pos + rows[s].n_tokens;
      longest = std::max(longest, end);
      for (int head = 0; head < spec.n_kv_heads; ++head) {
        plan->items.push_back({.sequence = static_cast<int32_t>(s),
                               .kv_head = head,
                               .query_begin = 0,
                               .query_end = rows[s].n_tokens,
                               .key_begin = 0,
                               .key_end = end});
      }
    }
    plan->scratch_floats = executor_.threads() * Scratch::Floats(longest, spec.head_dim);
    return absl::OkStatus();
  }

  absl::Status Run(const AttentionPlan& plan, const AttentionRun& run) override {
    const int64_t worker_floats = plan.scratch_floats / executor_.threads();
    const auto n_items = static_cast<int64_t>(plan.items.size());
    return ParallelFor(executor_, n_items, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i) {
        RunItem(plan, run, plan.items[static_cast<size_t>(i)],
                run.scratch.data() + worker * worker_floats);
      }
    });
  }

 private:
  static void RunItem(const AttentionPlan& plan, const AttentionRun& run, const AttentionItem& item,
                      float* memory) {
    const AttentionSpec& spec = plan.spec;
    const SequenceRows& rows = plan.rows[static_cast<size_t>(item.sequence)];
    const KvView& view = run.views[static_cast<size_t>(item.sequence)];
    const Scratch scratch(memory, item.key_end, spec.head_dim);
    for (int64_t j = 0; j < item.key_end; ++j) {
      const int64_t at = j * spec.head_dim;
      view.store->CopyRow(KvPart::kKey, view, j, item.kv_head, scratch.keys + at);
      view.store->CopyRow(KvPart::kValue, view, j, item.kv_head, scratch.values + at);
    }
    const int group = spec.n_heads / spec.n_kv_heads;
    for (int64_t t = item.query_begin; t < item.query_end; ++t) {
      const int64_t n_keys = rows.start_pos + t + 1;
      for (int head = item.kv_head * group; head < (item.kv_head + 1) * group; ++head) {
        ComputeWeights(spec, run.q.Row(rows.row_begin + t, head), scratch.keys, n_keys,
                       scratch.weights);
        SumValues(scratch.weights, scratch.values, n_keys, spec.head_dim,
                  run.out.Row(rows.row_begin + t, head));
        for (const ProbabilityRow& capture : run.captures) {
          if (std::tuple(capture.sequence, capture.pos, capture.head) ==
              std::tuple(item.sequence, n_keys - 1, head)) {
            std::copy_n(scratch.weights, n_keys, capture.out);
          }
        }
      }
    }
  }

  Executor& executor_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateReferenceAttention(
    const PluginContext& context) {
  return std::make_unique<ReferenceAttention>(*context.executor);
}

}  // namespace ng
