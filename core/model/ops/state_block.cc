#include "core/model/ops/state_block.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "core/model/rows/for_rows.h"
#include "core/model/rows/router.h"
#include "core/model/spec/limits.h"

namespace ng {
namespace {

// Columns of a convolution that a worker takes at a time.
constexpr int64_t kColumns = 512;
// Added to the square of a length before it divides.
constexpr float kLengthEps = 1e-6F;

// As torch has it: above 20 it is the identity.
float Softplus(float x) { return x > 20.0F ? x : std::log1p(std::exp(x)); }

class StateRun {
 public:
  StateRun(const StateCall& call, std::span<const SequenceRows> rows, float* x, float* out)
      : call_(call), rows_(rows), x_(x), out_(out) {
    n_rows_ = rows.back().row_begin + rows.back().n_tokens;
  }

  // The columns of the convolution, in place; of a short one between its two gates, into out.
  absl::Status ConvolveColumns() {
    const int64_t n_parts = (spec().conv_width + kColumns - 1) / kColumns;
    return ForItems(std::ssize(rows_) * n_parts, [&](int64_t item) {
      const int64_t first = item % n_parts * kColumns;
      const int64_t n = std::min(kColumns, spec().conv_width - first);
      const SequenceRows& entry = rows_[static_cast<size_t>(item / n_parts)];
      if (spec().kind != StateKind::kShortConv) return ConvolveSequence(entry, first, n);
      const int64_t width = spec().conv_width;
      for (int64_t i = 0; i < entry.n_tokens; ++i) {
        float* const row = RowOf(entry, i) + first;
        for (int64_t c = 0; c < n; ++c) row[c] *= row[2 * width + c];
      }
      ConvolveSequence(entry, first, n);
      for (int64_t i = 0; i < entry.n_tokens; ++i) {
        const float* const row = RowOf(entry, i) + first;
        float* const to = OutOf(entry, i) + first;
        for (int64_t c = 0; c < n; ++c) to[c] = row[width + c] * row[c];
      }
    });
  }

  // The delta rule's q and k of each group, divided by their lengths.
  absl::Status DivideByLengths() {
    const float eps = kLengthEps / static_cast<float>(spec().key_dim);
    return ForRows(call_.executor, n_rows_, [&](int64_t row, int /*worker*/) {
      float* head = x_ + row * spec().in_width();
      for (const std::vector<float>* scale : {&call_.w.q_norm.weight, &call_.w.k_norm.weight}) {
        for (int g = 0; g < spec().n_groups; ++g, head += spec().key_dim) {
          call_.kernels.rms_norm(head, scale->data(), eps, spec().key_dim, head);
        }
      }
    });
  }

  // Every head of every sequence, token after token.
  absl::Status Recur() {
    const int64_t n_heads = spec().n_heads;
    return ForItems(std::ssize(rows_) * n_heads, [&](int64_t item) {
      RecurHead(rows_[static_cast<size_t>(item / n_heads)], item % n_heads);
    });
  }

  // What the heads gave: normed, and times the silu of the gate before or behind it.
  absl::Status GateAndNorm() {
    const bool mamba = spec().kind == StateKind::kMamba2;
    const int64_t width = spec().out_width();
    const int64_t n_parts = mamba ? spec().n_groups : spec().n_heads;
    const int64_t part = width / n_parts;
    return ForRows(call_.executor, n_rows_, [&](int64_t row, int /*worker*/) {
      float* const to = out_ + row * width;
      const float* const gate = x_ + row * spec().in_width() + spec().conv_width;
      if (mamba) call_.kernels.silu_gate(gate, width, to);
      for (int64_t i = 0; i < n_parts; ++i) {
        const float* const weight = call_.w.state.norm.data() + (mamba ? i * part : 0);
        call_.kernels.rms_norm(to + i * part, weight, spec().norm.eps, part, to + i * part);
      }
      if (!mamba) call_.kernels.silu_gate(gate, width, to);
    });
  }

 private:
  const StateSpec& spec() const { return call_.spec; }
  float* RowOf(const SequenceRows& entry, int64_t i) const {
    return x_ + (entry.row_begin + i) * spec().in_width();
  }
  float* OutOf(const SequenceRows& entry, int64_t i) const {
    return out_ + (entry.row_begin + i) * spec().out_width();
  }

  // body(item), spread over the executor where there is enough to do.
  template <typename Body>
  absl::Status ForItems(int64_t n_items, Body&& body) {
    return ParallelFor(call_.executor, n_items, [&](int64_t begin, int64_t end, int /*worker*/) {
      for (int64_t item = begin; item < end; ++item) body(item);
    });
  }

  // Columns [first, first + n) of one sequence, from its last token to its first: what is
  // overwritten is no longer read.
  void ConvolveSequence(const SequenceRows& entry, int64_t first, int64_t n) {
    const int64_t width = spec().conv_width;
    const int64_t kept = spec().taps - 1;
    const float* const held = call_.store.Held(call_.index, entry.sequence) + first;
    float* const next = call_.store.Next(call_.index, entry.sequence) + first;
    // Rows of the state, then those of the step's tokens.
    const auto row = [&](int64_t i) -> const float* {
      return i < kept ? held + i * width : RowOf(entry, i - kept) + first;
    };
    for (int64_t i = 0; i < kept; ++i) std::copy_n(row(entry.n_tokens + i), n, next + i * width);
    std::array<const float*, kMaxTaps> taps = {};
    ConvolveArgs args = {.rows = taps.data(),
                         .taps = static_cast<int>(spec().taps),
                         .weights = call_.w.state.conv.data() + first,
                         .weight_stride = width,
                         .silu = spec().kind != StateKind::kShortConv,
                         .n = n};
    if (spec().conv_bias) args.bias = call_.w.state.conv_bias.data() + first;
    for (int64_t i = entry.n_tokens - 1; i >= 0; --i) {
      for (int64_t tap = 0; tap <= kept; ++tap) taps[static_cast<size_t>(tap)] = row(i + tap);
      args.out = RowOf(entry, i) + first;
      call_.kernels.convolve(args);
    }
  }

  // How much the state fades with a token, and how much of its value is written.
  void SetGates(const float* values, int64_t head, RecurArgs* args) const {
    const StateWeights& w = call_.w.state;
    const auto at = static_cast<size_t>(head);
    const bool mamba = spec().kind == StateKind::kMamba2;
    float step = Softplus(values[(mamba ? 0 : spec().n_heads) + head] + w.step_bias[at]);
    if (mamba) step = std::clamp(step, spec().least_step, spec().largest_step);
    args->write = mamba ? step : Sigmoid(values[head]);
    args->decay = std::exp(-std::exp(w.decay_log[at]) * step);
  }

  void RecurHead(const SequenceRows& entry, int64_t head) {
    const bool mamba = spec().kind == StateKind::kMamba2;
    const int64_t group =
        spec().heads_in_turn ? head % spec().n_groups : head / (spec().n_heads / spec().n_groups);
    const int64_t key_width = spec().key_width();
    // Columns: value, key, query; of the delta rule query, key, value.
    const int64_t value_at = (mamba ? 0 : 2 * key_width) + head * spec().value_dim;
    const int64_t key_at = (mamba ? spec().out_width() : key_width) + group * spec().key_dim;
    const int64_t query_at = (mamba ? spec().out_width() + key_width : 0) + group * spec().key_dim;
    const int64_t values_at = spec().conv_width + spec().out_width();
    const int64_t matrix =
        (spec().taps - 1) * spec().conv_width + head * spec().key_dim * spec().value_dim;
    RecurArgs args = {.before = call_.store.Held(call_.index, entry.sequence) + matrix,
                      .after = call_.store.Next(call_.index, entry.sequence) + matrix,
                      .key_dim = spec().key_dim,
                      .value_dim = spec().value_dim,
                      .delta = !mamba};
    for (int64_t i = 0; i < entry.n_tokens; ++i, args.before = args.after) {
      const float* const row = RowOf(entry, i);
      args.key = row + key_at;
      args.query = row + query_at;
      args.value = row + value_at;
      args.out = OutOf(entry, i) + head * spec().value_dim;
      SetGates(row + values_at, head, &args);
      call_.kernels.recur(args);
      if (!mamba) continue;
      const float skip = call_.w.state.skip[static_cast<size_t>(head)];
      for (int64_t c = 0; c < spec().value_dim; ++c) args.out[c] += skip * args.value[c];
    }
  }

  const StateCall& call_;
  std::span<const SequenceRows> rows_;
  float* x_;
  float* out_;
  int64_t n_rows_ = 0;
};

}  // namespace

absl::Status RunState(const StateCall& call, std::span<const SequenceRows> rows, float* x,
                      float* out) {
  StateRun run(call, rows, x, out);
  NG_RETURN_IF_ERROR(run.ConvolveColumns());
  if (call.spec.kind == StateKind::kShortConv) return absl::OkStatus();
  if (call.spec.kind == StateKind::kDeltaRule) NG_RETURN_IF_ERROR(run.DivideByLengths());
  NG_RETURN_IF_ERROR(run.Recur());
  return run.GateAndNorm();
}

}  // namespace ng
