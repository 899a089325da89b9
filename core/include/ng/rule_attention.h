// RuleAttention: a backend to derive from, for authors whose point is a rule.
//
// It reads any cache, one row at a time (CacheStore::CopyRow), and computes each query and head by
// itself, in double: the scores, then their softmax, then the weighted values. A derived class
// changes the first step: which keys a query sees (Sees), what becomes of the scores (Change). The
// rest is done here: all features of AttentionSpec, captures, `attended`, threads and the bit
// contract. It is plain and slow. A sliding window, for example:
//
//   class Window final : public ng::RuleAttention {
//    public:
//     using RuleAttention::RuleAttention;
//    private:
//     bool Sees(const ng::RuleQuery& query, int64_t key) const override {
//       return key > query.pos - 64;
//     }
//   };
#ifndef NG_RULE_ATTENTION_H_
#define NG_RULE_ATTENTION_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ng/attention_backend.h"
#include "ng/executor.h"
#include "ng/plugin.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

// The score of a key that a query does not see.
inline constexpr float kUnseen = -std::numeric_limits<float>::infinity();

// What RuleAttention does. It reads all that a query sees, so it has nothing to say of what it
// missed.
inline constexpr auto kRuleFeatures = [] {
  std::array<std::string_view, std::size(kAttentionFeatures) - 1> features;
  std::ranges::copy_if(kAttentionFeatures, features.begin(),
                       [](std::string_view feature) { return feature != kFeatureMissed; });
  return features;
}();

// One query and head that a rule is asked about.
struct RuleQuery {
  int layer = 0;
  int head = 0;
  int64_t pos = 0;                      // its position; it may see keys 0..pos
  const AttentionSpec* spec = nullptr;  // of the layer
  std::span<float> room;                // [pos + 1], for a rule to work in; holds anything
};

class RuleAttention : public AttentionBackend {
 public:
  explicit RuleAttention(const PluginContext& context) : executor_(*context.executor) {}

  std::span<const std::string_view> layouts() const override {
    static constexpr std::array kLayouts = {kLayoutAny};
    return kLayouts;
  }

  std::span<const std::string_view> features() const override { return kRuleFeatures; }

  absl::Status Supports(const AttentionSpec& spec, const CacheFormat& format) const override {
    const std::span<const std::string_view> own = layouts();
    if (std::ranges::count(own, kLayoutAny) == 0 && std::ranges::count(own, format.layout) == 0) {
      return PluginError("does not read layout " + std::string(format.layout));
    }
    if (spec.head_dim < 1 || spec.v_head_dim < 1) {
      return PluginError("cannot do head_dim = " + std::to_string(spec.head_dim) +
                         " with v_head_dim = " + std::to_string(spec.v_head_dim) +
                         "; both must be at least 1");
    }
    if (spec.n_kv_heads < 1 || spec.n_heads < 1 || spec.n_heads % spec.n_kv_heads != 0) {
      return PluginError("cannot share n_kv_heads = " + std::to_string(spec.n_kv_heads) +
                         " among n_heads = " + std::to_string(spec.n_heads) +
                         "; n_heads must be a multiple");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<AttentionPlan>> NewPlan(const AttentionSpec& spec) override {
    return std::make_unique<AttentionPlan>(spec);
  }

  absl::Status Plan(std::span<const SequenceRows> rows, AttentionPlan& plan) override {
    int64_t most = 0;
    for (SequenceRows entry : rows) {
      entry.n_tokens = RoomFor(entry.start_pos + entry.n_tokens) - entry.start_pos;
      most = std::max(most, Scratch::Floats(plan.spec, entry));
    }
    plan.scratch_floats = executor_.threads() * most;
    return absl::OkStatus();
  }

  // An item of work is a sequence and a kv head.
  absl::Status Run(const AttentionPlan& plan, const AttentionRun& run) override {
    const int64_t n_kv_heads = plan.spec.n_kv_heads;
    const int64_t n_items = std::ssize(run.rows) * n_kv_heads;
    const int64_t worker_floats = plan.scratch_floats / executor_.threads();
    return ParallelFor(executor_, n_items, [&](int64_t begin, int64_t end, int worker) {
      float* memory = run.scratch.data() + worker * worker_floats;
      for (int64_t i = begin; i < end; ++i) {
        Attend(plan.spec, run, static_cast<size_t>(i / n_kv_heads),
               static_cast<int>(i % n_kv_heads), memory);
      }
    });
  }

 protected:
  // [worker] Whether the query sees a key, 0 <= key <= query.pos. A query must see one at least.
  // Not asked of a key that the cache has dropped: no query sees it.
  virtual bool Sees(const RuleQuery& /*query*/, int64_t /*key*/) const { return true; }

  // [worker] Changes the scores [pos + 1] of a query, those of keys 0..pos, before the softmax. To
  // hide a key, give it the score kUnseen.
  virtual void Change(const RuleQuery& /*query*/, std::span<float> /*scores*/) const {}

 private:
  // In powers of two, so that a sequence that grows needs more but seldom.
  static int64_t RoomFor(int64_t n_tokens) {
    constexpr uint64_t kLeast = 256;
    return static_cast<int64_t>(std::max(kLeast, std::bit_ceil(static_cast<uint64_t>(n_tokens))));
  }

  // A worker's: the keys and values that the queries of a sequence see, decoded, and what belongs
  // to one query and head.
  struct Scratch {
    double* powers;  // [end], e^(score - largest score); negative where a key is not seen
    double* sums;    // [v_head_dim]
    float* scores;   // [end], then the probabilities
    float* room;     // [end]
    float* keys;     // [end - first, head_dim]
    float* values;   // [end - first, v_head_dim]
    int64_t first;

    static int64_t Even(int64_t n) { return (n + 15) / 16 * 16; }
    static int64_t Floats(const AttentionSpec& spec, const SequenceRows& rows) {
      const int64_t end = rows.start_pos + rows.n_tokens;
      const int64_t n_keys = end - spec.FirstKey(rows.start_pos);
      return 4 * Even(end) + 2 * Even(spec.v_head_dim) +
             Even(n_keys * (spec.head_dim + spec.v_head_dim));
    }
    Scratch(const AttentionSpec& spec, const SequenceRows& rows, float* memory)
        : powers(reinterpret_cast<double*>(memory)),
          sums(powers + Even(rows.start_pos + rows.n_tokens)),
          scores(reinterpret_cast<float*>(sums + Even(spec.v_head_dim))),
          room(scores + Even(rows.start_pos + rows.n_tokens)),
          keys(room + Even(rows.start_pos + rows.n_tokens)),
          values(keys +
                 (rows.start_pos + rows.n_tokens - spec.FirstKey(rows.start_pos)) * spec.head_dim),
          first(spec.FirstKey(rows.start_pos)) {}
  };

  // The queries of a sequence and the heads that share a kv head.
  void Attend(const AttentionSpec& spec, const AttentionRun& run, size_t sequence, int kv_head,
              float* memory) const {
    const SequenceRows& rows = run.rows[sequence];
    const KvView& view = run.views[sequence];
    const Scratch scratch(spec, rows, memory);
    for (int64_t j = scratch.first; j < rows.start_pos + rows.n_tokens; ++j) {
      if (!view.Holds(kv_head, j)) continue;
      const int64_t at = j - scratch.first;
      view.store->CopyRow(KvPart::kKey, view, j, kv_head, scratch.keys + at * spec.head_dim);
      view.store->CopyRow(KvPart::kValue, view, j, kv_head, scratch.values + at * spec.v_head_dim);
    }
    const int group = spec.n_heads / spec.n_kv_heads;
    for (int64_t t = 0; t < rows.n_tokens; ++t) {
      const auto n_keys = static_cast<size_t>(rows.start_pos + t + 1);
      for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const RuleQuery query{run.layer, head, rows.start_pos + t, &spec, {scratch.room, n_keys}};
        Score(query, view, run.q.Row(rows.row_begin + t, head), scratch);
        Change(query, {scratch.scores, n_keys});
        Normalise(query, scratch);
        SumValues(query, scratch, run.out.Row(rows.row_begin + t, head));
        HandOut(query, run, sequence, scratch.scores);
      }
    }
  }

  // scratch.scores, as the spec has them.
  void Score(const RuleQuery& query, const KvView& view, const float* q,
             const Scratch& scratch) const {
    const AttentionSpec& spec = *query.spec;
    const int64_t first = spec.FirstKey(query.pos);
    const auto head = static_cast<size_t>(query.head);
    const int kv_head = query.head / (spec.n_heads / spec.n_kv_heads);
    const double scale = double{spec.scale} * spec.query_temperature.At(query.pos);
    std::fill_n(scratch.scores, first, kUnseen);
    for (int64_t j = first; j <= query.pos; ++j) {
      scratch.scores[j] = kUnseen;
      if (!view.Holds(kv_head, j) || !Sees(query, j)) continue;
      const float* k = scratch.keys + (j - scratch.first) * spec.head_dim;
      double score = 0.0;
      for (int d = 0; d < spec.head_dim; ++d) score += double{q[d]} * double{k[d]};
      score *= scale;
      if (spec.soft_cap != 0.0F) {
        score = double{spec.soft_cap} * std::tanh(score / double{spec.soft_cap});
      }
      if (!spec.alibi_slopes.empty()) {
        score -= double{spec.alibi_slopes[head]} * static_cast<double>(query.pos - j);
      }
      scratch.scores[j] = static_cast<float>(score);
    }
  }

  // The scores become probabilities. A NaN score makes them all NaN.
  static void Normalise(const RuleQuery& query, const Scratch& scratch) {
    const std::span<const float> sinks = query.spec->sinks;
    float* const scores = scratch.scores;
    double max = -HUGE_VAL;
    double sum = 0.0;
    if (!sinks.empty()) max = double{sinks[static_cast<size_t>(query.head)]};
    for (int64_t j = 0; j <= query.pos; ++j) max = std::max(max, double{scores[j]});
    if (!sinks.empty()) sum = std::exp(double{sinks[static_cast<size_t>(query.head)]} - max);
    for (int64_t j = 0; j <= query.pos; ++j) {
      scratch.powers[j] = -1.0;
      if (scores[j] == kUnseen) continue;
      scratch.powers[j] = std::exp(double{scores[j]} - max);
      sum += scratch.powers[j];
    }
    for (int64_t j = 0; j <= query.pos; ++j) {
      scores[j] = scratch.powers[j] < 0.0 ? 0.0F : static_cast<float>(scratch.powers[j] / sum);
    }
  }

  // out: [v_head_dim]. What is not seen does not show, not even its NaN.
  static void SumValues(const RuleQuery& query, const Scratch& scratch, float* out) {
    const int dim = query.spec->v_head_dim;
    double* const sums = scratch.sums;
    std::fill_n(sums, dim, 0.0);
    for (int64_t j = scratch.first; j <= query.pos; ++j) {
      if (scratch.powers[j] < 0.0) continue;
      const float* v = scratch.values + (j - scratch.first) * dim;
      const double weight = double{scratch.scores[j]};
      for (int d = 0; d < dim; ++d) sums[d] += weight * double{v[d]};
    }
    for (int d = 0; d < dim; ++d) out[d] = static_cast<float>(sums[d]);
  }

  // Hands out the probabilities [pos + 1] to whoever asked for them.
  static void HandOut(const RuleQuery& query, const AttentionRun& run, size_t sequence,
                      const float* probabilities) {
    const auto index = static_cast<int32_t>(sequence);
    for (const ProbabilityRow& row : FindCaptures(run.captures, index, query.pos, query.head)) {
      std::copy_n(probabilities, query.pos + 1, row.out);
    }
    if (!run.attended.empty()) AddMass(query, run, sequence, probabilities);
  }

  // Adds the probabilities to what the heads before gave that share the kv head.
  static void AddMass(const RuleQuery& query, const AttentionRun& run, size_t sequence,
                      const float* probabilities) {
    const SequenceRows& rows = run.rows[sequence];
    const KvView& view = run.views[sequence];
    const int64_t first = rows.start_pos + rows.n_tokens - rows.mass_tokens;
    if (query.pos < first) return;
    const int group = query.spec->n_heads / query.spec->n_kv_heads;
    const int kv_head = query.head / group;
    float* const mass = run.attended[sequence].Row(query.pos - first, kv_head);
    if (query.head % group == 0) std::fill_n(mass, view.n_slots(), 0.0F);
    for (int64_t slot = 0; slot < view.n_slots(kv_head); ++slot) {
      const int64_t token = view.TokenAt(kv_head, slot);
      if (token > query.pos) break;
      mass[slot] += probabilities[token];
    }
  }

  Executor& executor_;
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_RULE_ATTENTION_H_
