#include "one_pass.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ng_example {
namespace {

// One query and head of a step.
struct Query {
  int32_t sequence;  // index into run.rows
  int64_t pos;       // its position; it sees keys 0..pos of its sequence
  int64_t row;       // of run.q and run.out
  int head;
  int kv_head;
};

// `memory` is scratch: [head_dim].
void Attend(const Kernels& kernels, const ng::AttentionSpec& spec, const ng::AttentionRun& run,
            const Query& query, float* memory) {
  const ng::KvView& view = run.views[static_cast<size_t>(query.sequence)];
  const float* q = run.q.Row(query.row, query.head);  // [head_dim]
  float* out = run.out.Row(query.row, query.head);    // [head_dim]
  // The rows [pos + 1] that ask for this query's probabilities. Mostly none, but it may be two.
  const std::span<const ng::ProbabilityRow> captures =
      ng::FindCaptures(run.captures, query.sequence, query.pos, query.head);
  float* capture = captures.empty() ? nullptr : captures.front().out;

  float max = -std::numeric_limits<float>::infinity();
  float sum = 0.0F;
  std::fill_n(out, spec.head_dim, 0.0F);
  for (int64_t j = 0; j <= query.pos; ++j) {
    view.store->CopyRow(ng::KvPart::kKey, view, j, query.kv_head, memory);
    const float score = kernels.dot(q, memory, spec.head_dim) * spec.scale;
    if (capture != nullptr) capture[j] = score;

    view.store->CopyRow(ng::KvPart::kValue, view, j, query.kv_head, memory);
    const float new_max = score > max ? score : max;
    const float correction = std::exp(max - new_max);  // 0 for the first key
    const float weight = std::exp(score - new_max);
    sum = sum * correction + weight;
    kernels.add_row(correction, weight, memory, out, spec.head_dim);
    max = new_max;
  }
  for (int d = 0; d < spec.head_dim; ++d) out[d] /= sum;
  if (capture == nullptr) return;
  for (int64_t j = 0; j <= query.pos; ++j) capture[j] = std::exp(capture[j] - max) / sum;
  for (const ng::ProbabilityRow& other : captures.subspan(1)) {
    std::copy_n(capture, query.pos + 1, other.out);
  }
}

}  // namespace

std::span<const std::string_view> OnePass::layouts() const {
  static constexpr std::array kLayouts = {ng::kLayoutAny};
  return kLayouts;
}

// What the spec asks beyond plain causal attention is refused before this is called, because
// features() lists nothing; and any layout and codec will do.
absl::Status OnePass::Supports(const ng::AttentionSpec& /*spec*/,
                               const ng::CacheFormat& /*format*/) const {
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ng::AttentionPlan>> OnePass::NewPlan(const ng::AttentionSpec& spec) {
  return std::make_unique<ng::AttentionPlan>(spec);
}

absl::Status OnePass::Plan(std::span<const ng::SequenceRows> /*rows*/, ng::AttentionPlan& plan) {
  plan.scratch_floats = int64_t{executor_.threads()} * plan.spec.head_dim;
  return absl::OkStatus();
}

// An item of work is a row and a head, so that any split of the tokens into steps gives the same
// work.
absl::Status OnePass::Run(const ng::AttentionPlan& plan, const ng::AttentionRun& run) {
  const ng::AttentionSpec& spec = plan.spec;
  const int group = spec.n_heads / spec.n_kv_heads;  // query heads per kv head
  const int64_t n_items = run.q.extent[0] * spec.n_heads;
  return ng::ParallelFor(executor_, n_items, [&](int64_t begin, int64_t end, int worker) {
    float* memory = run.scratch.data() + int64_t{worker} * spec.head_dim;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / spec.n_heads;
      const int head = static_cast<int>(i % spec.n_heads);
      size_t sequence = 0;  // whose row it is: rows lie one sequence behind the other
      while (row >= run.rows[sequence].row_begin + run.rows[sequence].n_tokens) ++sequence;
      const ng::SequenceRows& tokens = run.rows[sequence];
      Attend(kernels_, spec, run,
             {.sequence = static_cast<int32_t>(sequence),
              .pos = tokens.start_pos + row - tokens.row_begin,
              .row = row,
              .head = head,
              .kv_head = head / group},
             memory);
    }
  });
}

}  // namespace ng_example
