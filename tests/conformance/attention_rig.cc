#include "tests/conformance/attention_rig.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <sstream>
#include <string_view>
#include <tuple>

#include "tests/conformance/tiles16.h"

namespace ng {
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

// Copies rows [begin, begin + n) of `from` behind the rows already in `to`.
void AppendRows(const std::vector<float>& from, int64_t begin, int64_t n, int64_t width,
                std::vector<float>* to) {
  to->insert(to->end(), from.begin() + begin * width, from.begin() + (begin + n) * width);
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
          .sinks = sinks,
          .alibi_slopes = alibi_slopes,
          .query_temperature = query_temperature};
}

std::string AttentionCase::Describe() const {
  std::ostringstream text;
  text << n_heads << '/' << n_kv_heads << " heads of " << head_dim << ", " << CodecName(codec_k)
       << '/' << CodecName(codec_v) << ", lengths";
  for (const int64_t length : lengths) text << ' ' << length;
  if (v_head_dim != 0) text << ", v_head_dim " << v_head_dim;
  if (window != 0) text << ", window " << window;
  if (soft_cap != 0.0F) text << ", soft_cap " << soft_cap;
  if (!sinks.empty()) text << ", sinks";
  if (!alibi_slopes.empty()) text << ", alibi";
  if (query_temperature.coefficient != 0.0) text << ", query_temperature";
  return text.str();
}

std::vector<SequenceData> MakeData(const AttentionCase& c) {
  std::mt19937 random(c.seed);
  std::vector<SequenceData> data(c.lengths.size());
  for (size_t s = 0; s < data.size(); ++s) {
    Fill(c.lengths[s] * c.n_heads * c.head_dim, &random, &data[s].q);
    Fill(c.lengths[s] * c.n_kv_heads * c.head_dim, &random, &data[s].k);
    Fill(c.lengths[s] * c.n_kv_heads * c.head_dim, &random, &data[s].v);
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
  const std::vector<CaptureRequest>& captures;
  std::vector<SequenceId> ids = {};
  std::vector<int64_t> done = {};  // tokens of each sequence
  std::vector<float> scratch = {};
  AttentionResult result = {};
};

absl::StatusOr<std::unique_ptr<AttentionRig>> AttentionRig::Make(
    const AttentionCase& c, const MakeAttention& make_attention, const MakeCache& make_cache,
    const PluginContext& context) {
  auto rig = std::unique_ptr<AttentionRig>(new AttentionRig(c));
  NG_ASSIGN_OR_RETURN(rig->backend_, make_attention(context));
  CacheSpec spec{.n_layers = 2,
                 .n_kv_heads = c.n_kv_heads,
                 .head_dim = c.head_dim,
                 .max_tokens = *std::max_element(c.lengths.begin(), c.lengths.end()),
                 .max_sequences = static_cast<int>(c.lengths.size()),
                 .codec_k = c.codec_k,
                 .codec_v = c.codec_v,
                 .layouts = rig->backend_->layouts()};
  NG_ASSIGN_OR_RETURN(rig->store_, make_cache(context, spec));
  const CacheFormat format{
      .layout = rig->store_->plan().layout, .codec_k = c.codec_k, .codec_v = c.codec_v};
  const AttentionSpec asked = rig->case_.Spec();
  NG_RETURN_IF_ERROR(rig->backend_->Supports(asked, format));
  NG_ASSIGN_OR_RETURN(rig->plan_, rig->backend_->NewPlan(asked));
  return rig;
}

absl::StatusOr<AttentionResult> AttentionRig::Run(const std::vector<SequenceData>& data,
                                                  const std::vector<Step>& steps,
                                                  const std::vector<CaptureRequest>& captures,
                                                  bool attended) {
  Progress progress{.data = data, .captures = captures};
  progress.done.resize(data.size());
  for (size_t s = 0; s < data.size(); ++s) {
    NG_ASSIGN_OR_RETURN(const SequenceId id, store_->Open(case_.lengths[s]));
    progress.ids.push_back(id);
    const int64_t out_width = int64_t{case_.n_heads} * case_.v_width();
    progress.result.out.emplace_back(static_cast<size_t>(case_.lengths[s] * out_width));
    if (attended) progress.result.attended.emplace_back(static_cast<size_t>(case_.lengths[s]));
  }
  for (const CaptureRequest& request : captures) {
    progress.result.captured.emplace_back(static_cast<size_t>(request.pos + 1), -1.0F);
  }
  for (const Step& step : steps) NG_RETURN_IF_ERROR(RunStep(step, &progress));
  for (const SequenceId id : progress.ids) store_->Close(id);
  return std::move(progress.result);
}

absl::Status AttentionRig::RunStep(const Step& step, Progress* p) {
  const int64_t q_width = int64_t{case_.n_heads} * case_.head_dim;
  const int64_t kv_width = int64_t{case_.n_kv_heads} * case_.head_dim;
  std::vector<SequenceRows> rows;
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
  int64_t n_rows = 0;
  for (const StepEntry& entry : step) {
    const auto s = static_cast<size_t>(entry.sequence);
    rows.push_back({.sequence = p->ids[s],
                    .start_pos = p->done[s],
                    .n_tokens = entry.n_tokens,
                    .row_begin = n_rows});
    AppendRows(p->data[s].q, p->done[s], entry.n_tokens, q_width, &q);
    AppendRows(p->data[s].k, p->done[s], entry.n_tokens, kv_width, &k);
    AppendRows(p->data[s].v, p->done[s], entry.n_tokens, kv_width, &v);
    n_rows += entry.n_tokens;
  }
  const TensorView<const float, 3> k_rows(k.data(), {n_rows, case_.n_kv_heads, case_.head_dim});
  const TensorView<const float, 3> v_rows(v.data(), {n_rows, case_.n_kv_heads, case_.head_dim});
  NG_RETURN_IF_ERROR(store_->Append(0, rows, v_rows, k_rows));
  NG_RETURN_IF_ERROR(store_->Append(kLayer, rows, k_rows, v_rows));

  std::vector<KvView> views;
  std::vector<ProbabilityRow> wanted;
  for (size_t e = 0; e < rows.size(); ++e) {
    const int64_t end = rows[e].start_pos + rows[e].n_tokens;
    views.push_back(store_->View(kLayer, rows[e].sequence, end));
    for (size_t i = 0; i < p->captures.size(); ++i) {
      const CaptureRequest& request = p->captures[i];
      if (request.sequence != step[e].sequence) continue;
      if (request.pos < rows[e].start_pos || request.pos >= end) continue;
      wanted.push_back({.sequence = static_cast<int32_t>(e),
                        .pos = request.pos,
                        .head = request.head,
                        .out = p->result.captured[i].data()});
    }
  }
  std::sort(wanted.begin(), wanted.end(), [](const ProbabilityRow& a, const ProbabilityRow& b) {
    return std::tie(a.sequence, a.pos, a.head) < std::tie(b.sequence, b.pos, b.head);
  });
  NG_RETURN_IF_ERROR(backend_->Plan(rows, *plan_));
  const auto scratch_floats = static_cast<size_t>(plan_->scratch_floats);
  // What was left in scratch must not matter.
  p->scratch.assign(scratch_floats + 16, std::numeric_limits<float>::quiet_NaN());
  void* aligned = p->scratch.data();
  size_t space = p->scratch.size() * sizeof(float);
  std::align(64, scratch_floats * sizeof(float), aligned, space);
  const int64_t out_width = int64_t{case_.n_heads} * case_.v_width();
  std::vector<float> out(static_cast<size_t>(n_rows * out_width),
                         std::numeric_limits<float>::quiet_NaN());
  std::vector<std::vector<float>> masses;
  std::vector<std::span<float>> attended;
  if (!p->result.attended.empty()) {
    for (const KvView& view : views) masses.emplace_back(static_cast<size_t>(view.length));
    attended.assign(masses.begin(), masses.end());
  }
  const AttentionRun run{.layer = kLayer,
                         .rows = rows,
                         .q = {q.data(), {n_rows, case_.n_heads, case_.head_dim}},
                         .views = views,
                         .out = {out.data(), {n_rows, case_.n_heads, case_.v_width()}},
                         .scratch = {static_cast<float*>(aligned), scratch_floats},
                         .captures = wanted,
                         .attended = attended};
  NG_RETURN_IF_ERROR(backend_->Run(*plan_, run));
  NG_RETURN_IF_ERROR(store_->Commit(rows));
  for (size_t e = 0; e < rows.size(); ++e) {
    const auto s = static_cast<size_t>(step[e].sequence);
    std::copy_n(out.begin() + rows[e].row_begin * out_width, rows[e].n_tokens * out_width,
                p->result.out[s].begin() + p->done[s] * out_width);
    for (size_t j = 0; e < masses.size() && j < masses[e].size(); ++j) {
      p->result.attended[s][j] += masses[e][j];
    }
    p->done[s] += rows[e].n_tokens;
  }
  return absl::OkStatus();
}

namespace {

// The weights of keys 0..pos for one query, with all that the case asks for. keys: rounded [length,
// n_kv_heads, head_dim]
std::vector<double> ModelWeights(const AttentionCase& c, const std::vector<float>& q,
                                 const std::vector<float>& keys, int64_t pos, int head) {
  const int kv_head = head / (c.n_heads / c.n_kv_heads);
  const auto h = static_cast<size_t>(head);
  const float* query = q.data() + (pos * c.n_heads + head) * c.head_dim;
  std::vector<double> w(static_cast<size_t>(pos + 1));
  for (int64_t j = 0; j <= pos; ++j) {
    const float* k = keys.data() + (j * c.n_kv_heads + kv_head) * c.head_dim;
    double dot = 0.0;
    for (int d = 0; d < c.head_dim; ++d) dot += double{query[d]} * k[d];
    double score = dot * c.Spec().scale;
    if (const QueryTemperature& t = c.query_temperature; t.coefficient != 0.0) {
      const double step = std::floor(static_cast<double>(pos + t.offset) / t.length);
      score *= t.coefficient * std::log(step + 1.0) + 1.0;
    }
    if (c.soft_cap != 0.0F) score = std::tanh(score / c.soft_cap) * c.soft_cap;
    if (!c.alibi_slopes.empty()) score += c.alibi_slopes[h] * static_cast<double>(j - pos);
    if (c.window != 0 && j <= pos - c.window) score = -std::numeric_limits<double>::infinity();
    w[static_cast<size_t>(j)] = score;
  }
  const double sink = c.sinks.empty() ? -std::numeric_limits<double>::infinity() : c.sinks[h];
  const double max = std::max(sink, *std::max_element(w.begin(), w.end()));
  double sum = std::exp(sink - max);
  for (double& x : w) sum += x = std::exp(x - max);
  for (double& x : w) x /= sum;
  return w;
}

}  // namespace

AttentionResult ModelAttention(const AttentionCase& c, const std::vector<SequenceData>& data,
                               const std::vector<CaptureRequest>& captures) {
  AttentionResult result;
  std::vector<SequenceData> stored = data;
  for (SequenceData& sequence : stored) {
    for (size_t row = 0; row < sequence.k.size(); row += static_cast<size_t>(c.head_dim)) {
      RoundToCodec(c.codec_k, c.head_dim, sequence.k.data() + row);
      RoundToCodec(c.codec_v, c.head_dim, sequence.v.data() + row);
    }
  }
  const auto dim = static_cast<size_t>(c.head_dim);
  const auto v_dim = static_cast<size_t>(c.v_width());
  for (size_t s = 0; s < stored.size(); ++s) {
    std::vector<float> out;
    std::vector<double> attended(static_cast<size_t>(c.lengths[s]));
    for (int64_t row = 0; row < c.lengths[s] * c.n_heads; ++row) {
      const int head = static_cast<int>(row % c.n_heads);
      const int kv_head = head / (c.n_heads / c.n_kv_heads);
      const auto w = ModelWeights(c, stored[s].q, stored[s].k, row / c.n_heads, head);
      std::vector<double> sum(v_dim);
      for (size_t j = 0; j < w.size(); ++j) {
        const float* v =
            stored[s].v.data() +
            (j * static_cast<size_t>(c.n_kv_heads) + static_cast<size_t>(kv_head)) * dim;
        for (size_t d = 0; d < v_dim; ++d) sum[d] += w[j] * v[d];
        attended[j] += w[j];
      }
      out.insert(out.end(), sum.begin(), sum.end());
    }
    result.out.push_back(std::move(out));
    result.attended.emplace_back(attended.begin(), attended.end());
  }
  for (const CaptureRequest& request : captures) {
    const SequenceData& sequence = stored[static_cast<size_t>(request.sequence)];
    const auto w = ModelWeights(c, sequence.q, sequence.k, request.pos, request.head);
    result.captured.emplace_back(w.begin(), w.end());
  }
  return result;
}

namespace {

template <typename Same>
std::string FindFirst(const std::vector<std::vector<float>>& got,
                      const std::vector<std::vector<float>>& want, const Same& same) {
  if (got.size() != want.size()) return "another number of rows";
  for (size_t s = 0; s < got.size(); ++s) {
    if (got[s].size() != want[s].size()) return "another length of row " + std::to_string(s);
    for (size_t i = 0; i < got[s].size(); ++i) {
      if (same(got[s][i], want[s][i])) continue;
      return "row " + std::to_string(s) + " element " + std::to_string(i) + " is " +
             std::to_string(got[s][i]) + ", not " + std::to_string(want[s][i]);
    }
  }
  return "";
}

}  // namespace

std::string FindDifference(const std::vector<std::vector<float>>& got,
                           const std::vector<std::vector<float>>& want, float tolerance) {
  return FindFirst(got, want, [tolerance](float a, float b) {
    return std::fabs(a - b) <= tolerance * (1.0F + std::fabs(b));
  });
}

std::string FindBitDifference(const std::vector<std::vector<float>>& got,
                              const std::vector<std::vector<float>>& want) {
  return FindFirst(got, want, [](float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  });
}

}  // namespace ng
