#include "ng/conform/attention_rig.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/conform/fence.h"
#include "core/conform/texts.h"
#include "ng/conform/plain_tiles.h"

namespace ng::conform {
namespace {

constexpr int kLayer = 1;  // the layer under test; layer 0 holds other rows

// Sums of uniforms: the same on every standard library.
float Normal(std::mt19937* random) {
  float sum = -6.0F;
  for (int i = 0; i < 12; ++i) sum += static_cast<float>((*random)() >> 8) * 0x1p-24F;
  return sum;
}

void Fill(int64_t n, std::mt19937* random, std::vector<float>* out) {
  out->resize(static_cast<size_t>(n));
  for (float& x : *out) x = Normal(random);
}

}  // namespace

AttentionSpec AttentionCase::Spec() const {
  return {.n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .head_dim = head_dim,
          .v_head_dim = v_width(),
          .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
          .window = window,
          .soft_cap = soft_cap,
          .chunks = chunks,
          .sinks = sinks,
          .alibi_slopes = alibi_slopes,
          .query_temperature = query_temperature,
          .v_in_k = v_in_k};
}

std::string AttentionCase::Codecs() const {
  return std::string(CodecName(codec_k)) + "/" + std::string(CodecName(codec_v));
}

std::string AttentionCase::Describe() const {
  std::ostringstream text;
  text << n_heads << '/' << n_kv_heads << " heads of " << head_dim << ", " << Codecs()
       << ", lengths";
  for (const int64_t length : lengths) text << ' ' << length;
  if (v_head_dim != 0) text << ", v_head_dim " << v_head_dim;
  if (v_in_k) text << ", V in K";
  if (window != 0) text << (chunks ? ", chunks of " : ", window ") << window;
  if (soft_cap != 0.0F) text << ", soft_cap " << soft_cap;
  if (!sinks.empty()) text << ", sinks";
  if (!alibi_slopes.empty()) text << ", alibi";
  if (query_temperature.coefficient != 0.0) text << ", query_temperature";
  if (holes) text << ", holes";
  if (slots) text << ", slots";
  return text.str();
}

std::vector<SequenceData> MakeData(const AttentionCase& c) {
  std::mt19937 random(c.seed);
  std::vector<SequenceData> data(c.lengths.size());
  for (size_t s = 0; s < data.size(); ++s) {
    Fill(c.lengths[s] * c.n_heads * c.head_dim, &random, &data[s].q);
    Fill(c.lengths[s] * c.n_kv_heads * c.head_dim, &random, &data[s].k);
    Fill(c.lengths[s] * c.n_kv_heads * c.v_width(), &random, &data[s].v);
    for (size_t i = 0; c.v_in_k && i < data[s].v.size(); ++i) {
      const auto width = static_cast<size_t>(c.v_width());
      data[s].v[i] = data[s].k[i / width * static_cast<size_t>(c.head_dim) + i % width];
    }
  }
  return data;
}

std::vector<Step> WholeSteps(const AttentionCase& c) {
  std::vector<Step> steps;
  for (size_t s = 0; s < c.lengths.size(); ++s) {
    steps.push_back({{static_cast<int>(s), c.lengths[s]}});
  }
  return steps;
}

std::vector<Step> OneStep(const AttentionCase& c) {
  Step step;
  for (size_t s = c.lengths.size(); s-- > 0;) {
    step.push_back({static_cast<int>(s), c.lengths[s]});
  }
  return {step};
}

std::vector<Step> TokenSteps(const AttentionCase& c) {
  std::vector<Step> steps;
  for (size_t s = 0; s < c.lengths.size(); ++s) {
    for (int64_t i = 0; i < c.lengths[s]; ++i) steps.push_back({{static_cast<int>(s), 1}});
  }
  return steps;
}

std::vector<Step> LastTokenSteps(const AttentionCase& c, int64_t n_last) {
  std::vector<Step> steps(static_cast<size_t>(n_last) + 1);
  for (size_t s = 0; s < c.lengths.size(); ++s) {
    const int64_t n_single = std::min(n_last, c.lengths[s]);
    const int sequence = static_cast<int>(s);
    if (c.lengths[s] > n_single) steps[0].push_back({sequence, c.lengths[s] - n_single});
    for (int64_t i = 1; i <= n_single; ++i) steps[static_cast<size_t>(i)].push_back({sequence, 1});
  }
  std::erase_if(steps, [](const Step& step) { return step.empty(); });
  return steps;
}

std::vector<Step> RandomSteps(const AttentionCase& c, std::mt19937* random) {
  constexpr int64_t kChunks[] = {1, 1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 130, 300};
  std::vector<int64_t> left = c.lengths;
  std::vector<Step> steps;
  while (std::accumulate(left.begin(), left.end(), int64_t{0}) > 0) {
    Step step;
    for (size_t s = 0; s < left.size(); ++s) {
      if (left[s] == 0 || (*random)() % 3 == 0) continue;
      const int64_t n = std::min(left[s], kChunks[(*random)() % std::size(kChunks)]);
      step.push_back({static_cast<int>(s), n});
      left[s] -= n;
    }
    std::shuffle(step.begin(), step.end(), *random);
    if (!step.empty()) steps.push_back(step);
  }
  return steps;
}

struct AttentionRig::Progress {
  const std::vector<SequenceData>& data;
  const RunRequests& asked;
  std::vector<SequenceId> ids = {};
  std::vector<int64_t> done = {};  // tokens of each sequence
  Fenced scratch = {};
  Fenced out = {};
  std::vector<Fenced> captured = {};  // [n_captures]
  std::vector<Fenced> attended = {};  // [rows of the step]
  Fenced missed = {};
  AttentionResult result = {};
};

// Rows lie with a gap behind each, as in a tensor that holds more than them.
struct AttentionRig::StepRows {
  std::vector<SequenceRows> entries = {};
  std::vector<float> q = {};
  std::vector<float> k = {};
  std::vector<float> v = {};
  int64_t n_rows = 0;
};

namespace {

constexpr int64_t kGap = 16;  // floats

template <typename T>
TensorView<T, 3> WithGaps(T* data, const std::array<int64_t, 3>& extent) {
  TensorView<T, 3> view(data, extent);
  view.stride[0] += kGap;
  return view;
}

// Errors: RuntimeError naming `what` when somebody wrote beside it, or left some of it unwritten.
absl::Status CheckLent(const Fenced& lent, const std::string& what, bool all_written) {
  if (const std::string side = lent.Trespass(); !side.empty()) {
    return RuntimeError("Run wrote " + side + " " + what);
  }
  const int64_t unwritten = all_written ? lent.FindUnwritten() : -1;
  if (unwritten < 0) return absl::OkStatus();
  return RuntimeError("Run left element " + std::to_string(unwritten) + " of " + what +
                      " unwritten");
}

// Row by row, from slots to tokens. sums: [n_kv_heads, length of the sequence]
void AddMass(const TensorView<float, 3>& mass, const KvView& view, std::vector<float>* sums) {
  const auto length = std::ssize(*sums) / mass.extent[1];
  for (int64_t row = 0; row < mass.extent[0]; ++row) {
    for (int head = 0; head < mass.extent[1]; ++head) {
      for (int64_t slot = 0; slot < view.n_slots(head); ++slot) {
        (*sums)[static_cast<size_t>(head * length + view.TokenAt(head, slot))] +=
            mass.Row(row, head)[slot];
      }
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttentionRig>> AttentionRig::Make(
    const AttentionCase& c, const MakeAttention& make_attention, const MakeCache& make_cache,
    const PluginContext& context) {
  auto rig = std::unique_ptr<AttentionRig>(new AttentionRig(c));
  rig->executor_ = dynamic_cast<const UnevenExecutor*>(context.executor);
  NG_ASSIGN_OR_RETURN(rig->backend_, make_attention(context));
  CacheSpec spec{.n_layers = 2,
                 .n_kv_heads = c.n_kv_heads,
                 .head_dim = c.head_dim,
                 .max_tokens = *std::max_element(c.lengths.begin(), c.lengths.end()),
                 .max_sequences = static_cast<int>(c.lengths.size()),
                 .codec_k = c.codec_k,
                 .codec_v = c.codec_v,
                 .layouts = rig->backend_->layouts(),
                 .v_head_dim = c.v_head_dim,
                 .v_in_k = c.v_in_k};
  NG_ASSIGN_OR_RETURN(rig->store_, make_cache(context, spec));
  NG_RETURN_IF_ERROR(rig->CheckFits(*rig->backend_));
  const AttentionSpec asked = rig->case_.Spec();
  NG_ASSIGN_OR_RETURN(rig->plan_, rig->backend_->NewPlan(asked));
  if (rig->plan_ == nullptr) return PluginError("NewPlan returned OK and no plan");
  return rig;
}

// As an engine asks before it runs.
absl::Status AttentionRig::CheckFits(const AttentionBackend& backend) const {
  const CachePlan plan = store_->plan();
  if (!Lists(backend.layouts(), plan.layout) && !Lists(backend.layouts(), kLayoutAny)) {
    return PluginError("does not read layout " + std::string(plan.layout));
  }
  if (plan.holes && !Lists(backend.features(), kFeatureHoles)) {
    return PluginError("does not list 'holes'");
  }
  if (plan.slots > 0 && !Lists(backend.features(), kFeatureSlots)) {
    return PluginError("does not list 'slots'");
  }
  if (plan.head_slots > 0 && !Lists(backend.features(), kFeatureHeadSlots)) {
    return PluginError("does not list 'head_slots'");
  }
  return backend.Supports(case_.Spec(), {.layout = plan.layout,
                                         .codec_k = case_.codec_k,
                                         .codec_v = case_.codec_v,
                                         .holes = plan.holes,
                                         .attended = plan.attended,
                                         .slots = plan.slots > 0,
                                         .head_slots = plan.head_slots > 0});
}

absl::Status AttentionRig::OpenAll(const std::vector<SequenceData>& data, Progress* p) {
  p->done.resize(data.size());
  for (size_t s = 0; s < data.size(); ++s) {
    NG_ASSIGN_OR_RETURN(const SequenceId id, store_->Open(case_.lengths[s]));
    p->ids.push_back(id);
    const int64_t out_width = int64_t{case_.n_heads} * case_.v_width();
    p->result.out.emplace_back(static_cast<size_t>(case_.lengths[s] * out_width));
    if (p->asked.attended) {
      p->result.attended.emplace_back(static_cast<size_t>(case_.n_kv_heads * case_.lengths[s]));
    }
    if (!p->asked.missed) continue;
    p->result.missed.emplace_back(static_cast<size_t>(case_.n_heads * case_.lengths[s]));
  }
  return absl::OkStatus();
}

absl::StatusOr<AttentionResult> AttentionRig::Run(const std::vector<SequenceData>& data,
                                                  const std::vector<Step>& steps,
                                                  const RunRequests& requests) {
  Progress progress{.data = data, .asked = requests};
  NG_RETURN_IF_ERROR(OpenAll(data, &progress));
  progress.captured.resize(requests.captures.size());
  progress.result.captured.resize(requests.captures.size());
  for (Step rest : steps) {
    while (!rest.empty()) {
      const Step step = CutOff(&rest, progress);
      if (requests.abandon) NG_RETURN_IF_ERROR(RunStep(step, /*commit=*/false, &progress));
      NG_RETURN_IF_ERROR(RunStep(step, /*commit=*/true, &progress));
    }
  }
  for (const SequenceId id : progress.ids) store_->Close(id);
  return std::move(progress.result);
}

Step AttentionRig::CutOff(Step* step, const Progress& p) const {
  Step cut = *step;
  step->clear();
  const CachePlan plan = store_->plan();
  for (StepEntry& entry : cut) {
    const int64_t most = plan.ToBoundary(p.done[static_cast<size_t>(entry.sequence)]);
    if (entry.n_tokens <= most) continue;
    step->push_back({entry.sequence, entry.n_tokens - most});
    entry.n_tokens = most;
  }
  return cut;
}

absl::StatusOr<std::vector<SequenceData>> AttentionRig::AsStored(
    const std::vector<SequenceData>& data) {
  const RunRequests nothing;
  Progress progress{.data = data, .asked = nothing};
  NG_RETURN_IF_ERROR(OpenAll(data, &progress));
  std::vector<SequenceData> stored = data;
  for (size_t s = 0; s < data.size(); ++s) {
    const StepRows rows =
        RowsOf({{static_cast<int>(s), case_.lengths[s]}}, progress, /*factor=*/1.0F);
    const std::array<int64_t, 3> k_extent = {rows.n_rows, case_.n_kv_heads, case_.head_dim};
    const std::array<int64_t, 3> v_extent = {rows.n_rows, case_.n_kv_heads, case_.v_width()};
    for (const int layer : {0, kLayer}) {
      NG_RETURN_IF_ERROR(store_->Append(layer, rows.entries, WithGaps(rows.k.data(), k_extent),
                                        WithGaps(rows.v.data(), v_extent)));
    }
    const KvView view = store_->View(kLayer, progress.ids[s], case_.lengths[s]);
    for (int64_t row = 0; row < case_.lengths[s] * case_.n_kv_heads; ++row) {
      const int64_t token = row / case_.n_kv_heads;
      const auto head = static_cast<int>(row % case_.n_kv_heads);
      if (!view.Holds(token)) continue;
      float* const k = stored[s].k.data() + row * case_.head_dim;
      float* const v = stored[s].v.data() + row * case_.v_width();
      store_->CopyRow(KvPart::kKey, view, token, head, k);
      store_->CopyRow(KvPart::kValue, view, token, head, v);
    }
    store_->Close(progress.ids[s]);
  }
  return stored;
}

// `factor` makes other rows of them.
AttentionRig::StepRows AttentionRig::RowsOf(const Step& step, const Progress& p,
                                            float factor) const {
  StepRows rows;
  const auto append = [factor](const std::vector<float>& from, int64_t first, int64_t n,
                               int64_t width, std::vector<float>* to) {
    for (int64_t row = first; row < first + n; ++row) {
      for (int64_t i = 0; i < width; ++i) {
        to->push_back(from[static_cast<size_t>(row * width + i)] * factor);
      }
      to->insert(to->end(), kGap, std::numeric_limits<float>::quiet_NaN());
    }
  };
  for (const StepEntry& entry : step) {
    const auto s = static_cast<size_t>(entry.sequence);
    rows.entries.push_back({.sequence = p.ids[s],
                            .start_pos = p.done[s],
                            .n_tokens = entry.n_tokens,
                            .row_begin = rows.n_rows});
    append(p.data[s].q, p.done[s], entry.n_tokens, int64_t{case_.n_heads} * case_.head_dim,
           &rows.q);
    append(p.data[s].k, p.done[s], entry.n_tokens, int64_t{case_.n_kv_heads} * case_.head_dim,
           &rows.k);
    append(p.data[s].v, p.done[s], entry.n_tokens, int64_t{case_.n_kv_heads} * case_.v_width(),
           &rows.v);
    rows.n_rows += entry.n_tokens;
  }
  return rows;
}

absl::Status AttentionRig::Attend(const AttentionRun& run, Progress* p) {
  constexpr int64_t kMostFloats = int64_t{1} << 32;
  const int64_t before = p->asked.count_allocations ? p->asked.count_allocations() : 0;
  NG_RETURN_IF_ERROR(backend_->Plan(run.rows, *plan_));
  const int64_t planned = p->asked.count_allocations ? p->asked.count_allocations() : 0;
  if (plan_->scratch_floats < 0 || plan_->scratch_floats > kMostFloats || plan_->bytes < 0) {
    return RuntimeError("Plan set scratch_floats = " + std::to_string(plan_->scratch_floats) +
                        " and bytes = " + std::to_string(plan_->bytes));
  }
  AttentionRun lent = run;
  lent.scratch = p->scratch.Lend(plan_->scratch_floats);
  const int64_t begun = p->asked.count_allocations ? p->asked.count_allocations() : 0;
  NG_RETURN_IF_ERROR(backend_->Run(*plan_, lent));
  if (p->asked.count_allocations) {
    p->result.allocations.push_back(p->asked.count_allocations() - begun + planned - before);
  }
  if (executor_ != nullptr && executor_->nested()) {
    return RuntimeError("a parallel region was begun inside another one");
  }
  return CheckLent(p->scratch, "its scratch", /*all_written=*/false);
}

absl::Status AttentionRig::RunStep(const Step& step, bool commit, Progress* p) {
  StepRows rows = RowsOf(step, *p, commit ? 1.0F : -1.5F);
  for (SequenceRows& entry : rows.entries) {
    const KvView held = store_->View(kLayer, entry.sequence, entry.start_pos);
    entry.gone = held.gone;
    entry.heads = held.heads;
    entry.mass_tokens = p->asked.attended ? entry.n_tokens : 0;
  }
  const StepRows others = RowsOf(step, *p, -3.0F);
  for (const auto& [layer, given] : {std::pair(0, &others), {kLayer, &rows}}) {
    const auto k = WithGaps(given->k.data(), {rows.n_rows, case_.n_kv_heads, case_.head_dim});
    const auto v = WithGaps(given->v.data(), {rows.n_rows, case_.n_kv_heads, case_.v_width()});
    NG_RETURN_IF_ERROR(store_->Append(layer, rows.entries, k, v));
  }

  std::vector<KvView> views;
  std::vector<ProbabilityRow> wanted;
  std::vector<size_t> captures;  // those of this step, as `asked` has them
  for (size_t e = 0; e < rows.entries.size(); ++e) {
    const SequenceRows& entry = rows.entries[e];
    const int64_t end = entry.start_pos + entry.n_tokens;
    views.push_back(store_->View(kLayer, entry.sequence, end));
    for (size_t i = 0; i < p->asked.captures.size(); ++i) {
      const CaptureRequest& request = p->asked.captures[i];
      if (request.sequence != step[e].sequence) continue;
      if (request.pos < entry.start_pos || request.pos >= end) continue;
      captures.push_back(i);
      wanted.push_back({.sequence = static_cast<int32_t>(e),
                        .pos = request.pos,
                        .head = request.head,
                        .out = p->captured[i].Lend(request.pos + 1).data()});
    }
  }
  std::sort(wanted.begin(), wanted.end(), [](const ProbabilityRow& a, const ProbabilityRow& b) {
    return std::tie(a.sequence, a.pos, a.head) < std::tie(b.sequence, b.pos, b.head);
  });
  const int64_t out_width = int64_t{case_.n_heads} * case_.v_width();
  const std::span<float> out = p->out.Lend(rows.n_rows * out_width);
  std::vector<TensorView<float, 3>> attended;
  p->attended.resize(p->asked.attended ? views.size() : 0);
  for (size_t e = 0; e < p->attended.size(); ++e) {
    const std::array<int64_t, 3> extent = {rows.entries[e].mass_tokens, case_.n_kv_heads,
                                           views[e].n_slots()};
    attended.emplace_back(p->attended[e].Lend(extent[0] * extent[1] * extent[2]).data(), extent);
  }
  const int64_t n_missed = p->asked.missed ? rows.n_rows * case_.n_heads : 0;
  const std::span<float> missed = p->missed.Lend(n_missed);
  AttentionRun run{.layer = kLayer,
                   .rows = rows.entries,
                   .q = WithGaps(rows.q.data(), {rows.n_rows, case_.n_heads, case_.head_dim}),
                   .views = views,
                   .out = {out.data(), {rows.n_rows, case_.n_heads, case_.v_width()}},
                   .scratch = {},
                   .captures = wanted,
                   .attended = attended};
  if (n_missed > 0) run.missed = {missed.data(), {rows.n_rows, case_.n_heads}};
  NG_RETURN_IF_ERROR(Attend(run, p));
  NG_RETURN_IF_ERROR(CheckLent(p->out, "`out`", /*all_written=*/true));
  for (const size_t i : captures) {
    NG_RETURN_IF_ERROR(CheckLent(p->captured[i], "a captured row", /*all_written=*/true));
  }
  for (const Fenced& mass : p->attended) {
    NG_RETURN_IF_ERROR(CheckLent(mass, "`attended`", /*all_written=*/true));
  }
  NG_RETURN_IF_ERROR(CheckLent(p->missed, "`missed`", /*all_written=*/true));
  if (!commit) return absl::OkStatus();
  for (size_t e = 0; e < attended.size(); ++e) {
    AddMass(attended[e], views[e], &p->result.attended[static_cast<size_t>(step[e].sequence)]);
  }
  NG_RETURN_IF_ERROR(store_->Commit(rows.entries));
  for (size_t e = 0; e < rows.entries.size(); ++e) {
    const SequenceRows& entry = rows.entries[e];
    const auto s = static_cast<size_t>(step[e].sequence);
    std::copy_n(out.begin() + entry.row_begin * out_width, entry.n_tokens * out_width,
                p->result.out[s].begin() + p->done[s] * out_width);
    if (n_missed > 0) {
      std::copy_n(missed.begin() + entry.row_begin * case_.n_heads, entry.n_tokens * case_.n_heads,
                  p->result.missed[s].begin() + p->done[s] * case_.n_heads);
    }
    p->done[s] += entry.n_tokens;
  }
  for (const size_t i : captures) {
    const std::span<const float> row = p->captured[i].lent();
    p->result.captured[i].assign(row.begin(), row.end());
  }
  return absl::OkStatus();
}

}  // namespace ng::conform
