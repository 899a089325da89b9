#include "one_pass.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace ng_example {
namespace {

// The row of probabilities asked for this query and head, or null.
float* CaptureOf(const ng::AttentionRun& run, int32_t sequence, int64_t pos, int head) {
  for (const ng::ProbabilityRow& row : run.captures) {
    if (row.sequence == sequence && row.pos == pos && row.head == head) return row.out;
  }
  return nullptr;
}

// One query and head over keys 0..pos of its sequence. `row` is scratch: [head_dim].
void Attend(const ng::AttentionPlan& plan, const ng::AttentionRun& run,
            const ng::AttentionItem& item, int head, float* row) {
  const ng::SequenceRows& tokens = plan.rows[static_cast<size_t>(item.sequence)];
  const ng::KvView& view = run.views[static_cast<size_t>(item.sequence)];
  const int64_t pos = tokens.start_pos + item.query_begin;
  const int head_dim = plan.spec.head_dim;
  const float* q = run.q.Row(tokens.row_begin + item.query_begin, head);  // [head_dim]
  float* out = run.out.Row(tokens.row_begin + item.query_begin, head);    // [head_dim]
  float* capture = CaptureOf(run, item.sequence, pos, head);              // [pos + 1], or null

  float max = -std::numeric_limits<float>::infinity();
  float sum = 0.0F;
  for (int d = 0; d < head_dim; ++d) out[d] = 0.0F;
  for (int64_t j = 0; j <= pos; ++j) {
    view.store->CopyRow(ng::KvPart::kKey, view, j, item.kv_head, row);
    float score = 0.0F;
    for (int d = 0; d < head_dim; ++d) score += q[d] * row[d];
    score *= plan.spec.scale;
    if (capture != nullptr) capture[j] = score;

    view.store->CopyRow(ng::KvPart::kValue, view, j, item.kv_head, row);
    const float new_max = score > max ? score : max;
    const float correction = std::exp(max - new_max);  // 0 for the first key
    const float weight = std::exp(score - new_max);
    sum = sum * correction + weight;
    for (int d = 0; d < head_dim; ++d) out[d] = out[d] * correction + weight * row[d];
    max = new_max;
  }
  for (int d = 0; d < head_dim; ++d) out[d] /= sum;
  if (capture == nullptr) return;
  for (int64_t j = 0; j <= pos; ++j) capture[j] = std::exp(capture[j] - max) / sum;
}

}  // namespace

std::span<const std::string_view> OnePass::layouts() const {
  static constexpr std::array kLayouts = {ng::kLayoutAny};
  return kLayouts;
}

absl::Status OnePass::Supports(const ng::AttentionSpec& spec,
                               const ng::CacheFormat& /*format*/) const {
  if (spec.needs.empty()) return absl::OkStatus();
  return ng::PluginError("the layer needs '" + std::string(spec.needs.front()) +
                         "', one_pass does plain causal attention only");
}

// One item per query and kv head, so that any split of the tokens into steps gives the same work.
absl::Status OnePass::Plan(const ng::AttentionSpec& spec, std::span<const ng::SequenceRows> rows,
                           ng::AttentionPlan* plan) {
  plan->spec = spec;
  plan->rows = rows;
  plan->items.clear();
  for (size_t s = 0; s < rows.size(); ++s) {
    for (int64_t t = 0; t < rows[s].n_tokens; ++t) {
      for (int kv_head = 0; kv_head < spec.n_kv_heads; ++kv_head) {
        plan->items.push_back({.sequence = static_cast<int32_t>(s),
                               .kv_head = kv_head,
                               .query_begin = t,
                               .query_end = t + 1,
                               .key_begin = 0,
                               .key_end = rows[s].start_pos + t + 1});
      }
    }
  }
  plan->scratch_floats = int64_t{executor_.threads()} * spec.head_dim;
  return absl::OkStatus();
}

absl::Status OnePass::Run(const ng::AttentionPlan& plan, const ng::AttentionRun& run) {
  const int group = plan.spec.n_heads / plan.spec.n_kv_heads;  // query heads per kv head
  const auto n_items = static_cast<int64_t>(plan.items.size());
  return ng::ParallelFor(executor_, n_items, [&](int64_t begin, int64_t end, int worker) {
    float* row = run.scratch.data() + int64_t{worker} * plan.spec.head_dim;
    for (int64_t i = begin; i < end; ++i) {
      const ng::AttentionItem& item = plan.items[static_cast<size_t>(i)];
      for (int h = 0; h < group; ++h) Attend(plan, run, item, item.kv_head * group + h, row);
    }
  });
}

}  // namespace ng_example
