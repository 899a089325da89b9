#include "plugins/attention/sparse/sparse_attention.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <string>

#include "ng/tiles16.h"
#include "plugins/attention/flash/flash_plan.h"
#include "plugins/attention/flash/flash_scratch.h"

namespace ng {
namespace {

constexpr std::array kLayouts = {kLayoutTiles16Bounds};
constexpr std::array kFeatures = {kFeatureWindow,
                                  kFeatureSoftCap,
                                  kFeatureSinks,
                                  kFeatureAlibi,
                                  kFeatureQueryTemperature,
                                  kFeatureChunkedWindow,
                                  kFeatureVHeadDim,
                                  kFeatureVInK,
                                  kFeatureMissed};  // the last where it measures
// Where there are few queries, threads share the pages that one has to score.
constexpr int64_t kItemsPerThread = 4;

struct SparsePlan final : FlashPlan {
  using FlashPlan::FlashPlan;

  int64_t parts = 1;        // in which the pages of a query are scored
  int64_t most_pages = 0;   // that a query has to score
  int64_t shared = 0;       // of the scratch: where the parts' scores are
  int64_t shared_each = 0;  // floats of a query and kv head: a count, then scores
  // Where a worker that measures keeps what all keys would give: behind what the kernel needs,
  // outputs [n_heads, v_head_dim], then the probabilities of a head.
  int64_t measured = 0;
};

// In powers of two, so that a sequence that grows needs more but seldom.
int64_t PowerFrom(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
}

// The pages of a query that are scored: all but the first and its own.
struct Scored {
  int64_t pos;
  int64_t begin;
  int64_t end;
};
Scored ScoredBy(const AttentionSpec& spec, const SequenceRows& rows, const FlashItem& choice) {
  const int64_t pos = rows.start_pos + choice.query_begin;
  return {pos, spec.FirstKey(pos) / kTileTokens + 1, pos / kTileTokens};
}

// One run of a plan's choices. [worker]
class Choosing {
 public:
  Choosing(const ChooseKernel& kernel, int64_t most_tiles, const SparsePlan& plan,
           const AttentionRun& run)
      : kernel_(kernel), most_tiles_(most_tiles), plan_(plan), run_(run) {
    if (plan_.parts == 1) return;
    for (size_t i = 0; i < plan_.choices.size(); ++i) {
      *Shared(i) = static_cast<float>(plan_.parts);
    }
  }

  // One part of the pages of one query and kv head. memory: a worker's own.
  void Do(int64_t item, float* memory) const {
    const auto i = static_cast<size_t>(item / plan_.parts);
    const FlashItem& choice = plan_.choices[i];
    const auto s = static_cast<size_t>(choice.sequence);
    const SequenceRows& rows = run_.rows[s];
    const Scored scored = ScoredBy(plan_.spec, rows, choice);
    const int64_t n = scored.end - scored.begin;
    const int64_t part = item % plan_.parts;
    const int64_t begin = n * part / plan_.parts;
    const int64_t end = n * (part + 1) / plan_.parts;
    const int group = plan_.spec.n_heads / plan_.spec.n_kv_heads;
    const bool alone = plan_.parts == 1;
    const int64_t room = RoundUp16(ChooseKernel::RoomFor(plan_.spec));
    float* const scores = alone ? memory + room : Shared(i) + SharedPartials::kCountFloats;
    kernel_.score({.spec = plan_.spec,
                   .view = run_.views[s],
                   .q = run_.q.Row(rows.row_begin + choice.query_begin, choice.kv_head * group),
                   .q_stride = run_.q.stride[1],
                   .kv_head = choice.kv_head,
                   .pos = scored.pos,
                   .begin = scored.begin + begin,
                   .end = scored.begin + end},
                  memory, scores + begin);
    if (!alone && !IsLast(i)) return;
    Choose(choice, scored, scores);
  }

 private:
  float* Shared(size_t i) const {
    return run_.scratch.data() + plan_.shared + static_cast<int64_t>(i) * plan_.shared_each;
  }
  // Whether all other parts are done; what they wrote is then visible here.
  bool IsLast(size_t i) const {
    return std::atomic_ref<float>(*Shared(i)).fetch_sub(1.0F, std::memory_order_acq_rel) == 1.0F;
  }

  // Lists the first page, the best of those between and the query's own.
  void Choose(const FlashItem& choice, const Scored& scored, float* scores) const {
    auto* const list = reinterpret_cast<int32_t*>(run_.scratch.data() + choice.chosen);
    const int64_t n_best = most_tiles_ - 2;
    if (n_best > 0) {
      kernel_.choose(scores, scored.end - scored.begin, n_best, list + 1);
      for (int64_t i = 1; i <= n_best; ++i) list[i] += static_cast<int32_t>(scored.begin);
    }
    list[0] = static_cast<int32_t>(scored.begin - 1);
    list[most_tiles_ - 1] = static_cast<int32_t>(scored.end);
  }

  const ChooseKernel& kernel_;
  const int64_t most_tiles_;
  const SparsePlan& plan_;
  const AttentionRun& run_;
};

}  // namespace

SparseAttention::SparseAttention(const PluginContext& context)
    : FlashAttention(context, "sparse", context.options.Int("pages")),
      chooser_(KernelsFor<ChooseKernel>(context.isa)),
      measure_(context.options.Bool("measure")) {}

std::span<const std::string_view> SparseAttention::layouts() const { return kLayouts; }

std::span<const std::string_view> SparseAttention::features() const {
  return std::span(kFeatures).first(kFeatures.size() - (measure_ ? 0 : 1));
}

// No cache has as many tokens as an int64 counts.
int64_t SparseAttention::most_keys() const {
  return std::min(most_tiles_, std::numeric_limits<int64_t>::max() / kTileTokens) * kTileTokens;
}

absl::Status SparseAttention::Supports(const AttentionSpec& spec, const CacheFormat& format) const {
  // The cap would come between the bounds and what ALiBi takes off.
  if (spec.soft_cap > 0.0F && !spec.alibi_slopes.empty()) {
    return Refuse("a soft cap together with ALiBi", "either of them");
  }
  return FlashAttention::Supports(spec, format);
}

absl::StatusOr<std::unique_ptr<AttentionPlan>> SparseAttention::NewPlan(const AttentionSpec& spec) {
  return std::make_unique<SparsePlan>(spec);
}

absl::Status SparseAttention::Plan(std::span<const SequenceRows> rows, AttentionPlan& own_plan) {
  NG_RETURN_IF_ERROR(FlashAttention::Plan(rows, own_plan));
  auto& plan = static_cast<SparsePlan&>(own_plan);
  if (plan.choices.empty()) return absl::OkStatus();
  plan.most_pages = 0;
  int64_t last = 0;
  for (const FlashItem& choice : plan.choices) {
    const Scored scored = ScoredBy(plan.spec, rows[static_cast<size_t>(choice.sequence)], choice);
    plan.most_pages = std::max(plan.most_pages, scored.end - scored.begin);
    last = std::max(last, scored.pos);
  }
  const int64_t room = std::max<int64_t>(16, PowerFrom(plan.most_pages));
  const int threads = executor_.threads();
  const auto n_choices = static_cast<int64_t>(plan.choices.size());
  plan.parts = threads == 1 ? 1 : (threads * kItemsPerThread - 1) / n_choices + 1;
  // Behind the flash plan's own, before the workers' scratch, which is last.
  const int64_t workers = threads * plan.worker_floats;
  plan.shared = plan.scratch_floats - workers;
  plan.shared_each = SharedPartials::kCountFloats + room;
  const int64_t shared = plan.parts == 1 ? 0 : n_choices * plan.shared_each;
  plan.measured = plan.worker_floats;
  const int64_t measured_keys = PowerFrom(last + 1);
  const int64_t measuring =
      measure_ ? plan.measured + RoundUp16(plan.spec.n_heads * plan.spec.v_head_dim) + measured_keys
               : 0;
  plan.worker_floats =
      std::max({plan.worker_floats, RoundUp16(ChooseKernel::RoomFor(plan.spec)) + room, measuring});
  plan.scratch_floats += shared + threads * plan.worker_floats - workers;
  return absl::OkStatus();
}

absl::Status SparseAttention::Run(const AttentionPlan& own_plan, const AttentionRun& run) {
  const auto& plan = static_cast<const SparsePlan&>(own_plan);
  NG_RETURN_IF_ERROR(CheckViews(run));
  if (run.missed.data != nullptr) {
    for (int64_t row = 0; row < run.missed.extent[0]; ++row) {
      std::fill_n(run.missed.Row(row), run.missed.extent[1], 0.0F);
    }
  }
  if (!plan.choices.empty()) {
    const Choosing choosing(chooser_, most_tiles_, plan, run);
    const auto n_choices = static_cast<int64_t>(plan.choices.size());
    NG_RETURN_IF_ERROR(ForItems(n_choices * plan.parts, plan, run,
                                [&](int64_t item, float* memory) { choosing.Do(item, memory); }));
    if (measure_) {
      NG_RETURN_IF_ERROR(ForItems(n_choices, plan, run, [&](int64_t item, float* memory) {
        Measure(plan, run, item, memory);
      }));
    }
  }
  return FlashAttention::Run(own_plan, run);
}

template <class Body>
absl::Status SparseAttention::ForItems(int64_t n_items, const AttentionPlan& own_plan,
                                       const AttentionRun& run, const Body& body) {
  const auto& plan = static_cast<const SparsePlan&>(own_plan);
  float* const own = run.scratch.data() + plan.scratch_floats -
                     executor_.threads() * plan.worker_floats;  // [threads][worker_floats]
  const int64_t n_workers = std::min<int64_t>(executor_.threads(), n_items);
  std::atomic<int64_t> n_taken{0};
  return ParallelFor(executor_, n_workers, [&](int64_t, int64_t, int worker) {
    float* const memory = own + worker * plan.worker_floats;
    for (int64_t item = n_taken++; item < n_items; item = n_taken++) body(item, memory);
  });
}

void SparseAttention::Measure(const AttentionPlan& own_plan, const AttentionRun& run, int64_t item,
                              float* memory) {
  const auto& plan = static_cast<const SparsePlan&>(own_plan);
  const AttentionSpec& spec = plan.spec;
  const FlashItem& choice = plan.choices[static_cast<size_t>(item)];
  const SequenceRows& rows = run.rows[static_cast<size_t>(choice.sequence)];
  const int64_t pos = rows.start_pos + choice.query_begin;
  FlashItem all = choice;
  all.skipped = 0;
  all.key_end = pos + 1;
  AttentionRun full = run;
  float* const out = memory + plan.measured;
  full.out = {out, {run.out.extent[0], spec.n_heads, spec.v_head_dim}};
  full.out.stride[0] = 0;
  const int group = spec.n_heads / spec.n_kv_heads;
  float* const probabilities = out + RoundUp16(int64_t{spec.n_heads} * spec.v_head_dim);
  const auto* const chosen = reinterpret_cast<const int32_t*>(run.scratch.data() + choice.chosen);
  for (int h = 0; h < group; ++h) {
    const ProbabilityRow row = {choice.sequence, pos, choice.kv_head * group + h, probabilities};
    full.captures = {&row, 1};
    kernel_.attend(full, {spec, all, nullptr}, memory);
    double missed = 0.0;
    for (int64_t i = 0, tile = 0; tile < chosen[most_tiles_ - 1]; ++tile) {
      if (tile == chosen[i]) {
        ++i;
        continue;
      }
      for (int64_t t = 0; t < kTileTokens; ++t) missed += probabilities[tile * kTileTokens + t];
    }
    if (run.missed.data != nullptr) {
      run.missed.Row(rows.row_begin + choice.query_begin)[row.head] = static_cast<float>(missed);
    }
    if (std::isnan(missed)) continue;  // the run ends with that, and nothing is said of it
    const auto whole = static_cast<int64_t>(missed * Missed::kWhole);
    ++missed_.rows;
    missed_.sum += whole;
    int64_t most = missed_.most.load();
    while (whole > most && !missed_.most.compare_exchange_weak(most, whole)) {
    }
  }
}

std::string SparseAttention::Report() const {
  if (!measure_) return {};
  const int64_t rows = missed_.rows.load();
  if (rows == 0) return "all pages were read";
  const auto share = [](double part, double of) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.3g %%", 100.0 * part / of);
    return std::string(text);
  };
  return "pages that were not read would have had " +
         share(static_cast<double>(missed_.sum.load()),
               Missed::kWhole * static_cast<double>(rows)) +
         " of the attention, at most " +
         share(static_cast<double>(missed_.most.load()), Missed::kWhole) + " (" +
         std::to_string(rows) + " rows of a head, layer and token)";
}

}  // namespace ng
