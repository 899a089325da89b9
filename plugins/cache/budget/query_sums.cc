#include "plugins/cache/budget/query_sums.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ng {
namespace {

// Multiplications that are worth to be shared out.
constexpr int64_t kFewestProducts = 1 << 18;

}  // namespace

QuerySums::QuerySums(const QueryShape& shape, Executor& executor, IsaLevel isa, std::byte* memory)
    : shape_(shape),
      kernel_(KernelsFor<QueryKernel>(isa)),
      executor_(executor),
      data_(reinterpret_cast<double*>(memory + shape.data)),
      log_(reinterpret_cast<float*>(memory + shape.log)),
      layers_(shape.max_sequences, shape.n_layers),
      marks_(static_cast<size_t>(shape.max_sequences)) {}

int64_t QuerySums::Limit(SequenceId sequence) const {
  const int64_t mark = marks_[static_cast<size_t>(sequence)];
  return shape_.at_mark && mark > 0 ? mark : std::numeric_limits<int64_t>::max();
}

QuerySums::Rows QuerySums::Counted(SequenceId sequence, Rows rows) const {
  const int64_t skipped = std::clamp<int64_t>(shape_.first - rows.position, 0, rows.n);
  rows.data += skipped * rows.stride;
  rows.position += skipped;
  rows.n = std::clamp<int64_t>(Limit(sequence) - rows.position, 0, rows.n - skipped);
  return rows;
}

QuerySums::Rows QuerySums::LogRows(SequenceId sequence, int layer) const {
  const Layer& state = layers_.At(sequence, layer);
  return Counted(sequence, {LogOf(sequence, layer), row_width(), state.end, state.n_log});
}

absl::Status QuerySums::Add(int layer, const SequenceRows& rows,
                            const TensorView<const float, 3>& q) {
  Layer& state = layers_.At(rows.sequence, layer);
  state.pending = false;
  state.n_heads = q.extent[1];
  // Others have been abandoned.
  state.n_log = std::clamp<int64_t>(rows.start_pos - state.end, 0, state.n_log);
  if (rows.n_tokens == 0 || rows.start_pos >= Limit(rows.sequence)) return absl::OkStatus();
  if (state.n_log + rows.n_tokens > shape_.log_rows) {
    NG_RETURN_IF_ERROR(AddRows(layer, rows.sequence, LogRows(rows.sequence, layer), state.now));
    state.end = rows.start_pos;
    state.n_log = 0;
    state.previous = -1;
  }
  const float* const first = q.data + rows.row_begin * q.stride[0];
  if (rows.n_tokens > shape_.log_rows) {
    state.pending = true;
    state.previous = -1;
    return AddRows(layer, rows.sequence,
                   Counted(rows.sequence, {first, q.stride[0], rows.start_pos, rows.n_tokens}),
                   1 - state.now);
  }
  float* const log = LogOf(rows.sequence, layer) + state.n_log * row_width();
  for (int64_t row = 0; row < rows.n_tokens; ++row) {
    std::copy_n(first + row * q.stride[0], state.n_heads * shape_.head_dim,
                log + row * row_width());
  }
  state.n_log += rows.n_tokens;
  return absl::OkStatus();
}

void QuerySums::AddHead(const Rows& rows, int64_t head, const double* from, double* sums) const {
  if (from == nullptr) {
    std::fill_n(sums, shape_.sums(), 0.0);
  } else if (from != sums) {
    std::copy_n(from, shape_.sums(), sums);
  }
  const int64_t n = shape_.head_dim;
  kernel_.add(rows.data + head * n, rows.stride, rows.n, n, sums);
}

absl::Status QuerySums::AddRows(int layer, SequenceId sequence, const Rows& rows, int to) {
  Layer& state = layers_.At(sequence, layer);
  const bool had_any = state.any[state.now];
  if (rows.n == 0 && to == state.now) return absl::OkStatus();
  const int now = state.now;
  const auto add = [&, now](int64_t head, int64_t end, int /*worker*/) {
    for (; head < end; ++head) {
      AddHead(rows, head, had_any ? SumsOf(sequence, layer, now, head) : nullptr,
              SumsOf(sequence, layer, to, head));
    }
  };
  state.any[to] = true;
  if (rows.n * state.n_heads * shape_.sums() >= kFewestProducts) {
    return ParallelFor(executor_, state.n_heads, add);
  }
  add(0, state.n_heads, 0);
  return absl::OkStatus();
}

QueryStatistics QuerySums::Of(int layer, int kv_head, const SequenceRows& rows,
                              std::span<double> memory) const {
  const Layer& state = layers_.At(rows.sequence, layer);
  const int which = state.pending ? 1 - state.now : state.now;
  const int64_t n = shape_.head_dim;
  const int64_t n_heads = state.n_heads / shape_.n_kv_heads;
  const int64_t end = std::min(rows.start_pos + rows.n_tokens, Limit(rows.sequence));
  const Rows log = state.pending ? Rows() : LogRows(rows.sequence, layer);
  QueryStatistics found;
  found.n_queries = std::max<int64_t>(0, end - shape_.first);
  found.mean = {memory.data(), {n_heads, n}};
  found.covariance = {memory.data() + n_heads * n, {n_heads, n, n}};
  const double share = found.n_queries == 0 ? 0.0 : 1.0 / static_cast<double>(found.n_queries);
  std::vector<double> sums(static_cast<size_t>(shape_.sums()));
  for (int64_t head = 0; head < n_heads; ++head) {
    const int64_t of = kv_head * n_heads + head;
    double* const mean = memory.data() + head * n;
    double* const matrix = memory.data() + n_heads * n + head * n * n;
    const double* const from = state.any[which] ? SumsOf(rows.sequence, layer, which, of) : nullptr;
    AddHead(log, of, from, sums.data());
    for (int64_t i = 0; i < n; ++i) mean[i] = sums[static_cast<size_t>(i)] * share;
    const double* products = sums.data() + n;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t begin = i - i % kProductRows;
      for (int64_t j = begin; j < n; ++j) {
        matrix[i * n + j] = matrix[j * n + i] = products[j - begin] * share - mean[i] * mean[j];
      }
      products += n - begin;
    }
  }
  return found;
}

void QuerySums::Commit(const SequenceRows& rows) {
  for (int layer = 0; layer < shape_.n_layers; ++layer) {
    Layer& state = layers_.At(rows.sequence, layer);
    if (!std::exchange(state.pending, false)) continue;
    state.now = 1 - state.now;
    state.previous = rows.start_pos;
    state.end = rows.start_pos + rows.n_tokens;
  }
}

void QuerySums::SetMark(SequenceId sequence, int64_t length) {
  marks_[static_cast<size_t>(sequence)] = length;
}

void QuerySums::Forget(SequenceId sequence) {
  for (int layer = 0; layer < shape_.n_layers; ++layer) layers_.At(sequence, layer) = {};
}

void QuerySums::Copy(SequenceId from, SequenceId to) {
  for (int layer = 0; layer < shape_.n_layers; ++layer) {
    Layer& state = layers_.At(to, layer);
    state = layers_.At(from, layer);
    state.previous = -1;
    state.pending = false;
    if (state.any[state.now]) {
      std::copy_n(SumsOf(from, layer, state.now, 0), state.n_heads * shape_.sums(),
                  SumsOf(to, layer, state.now, 0));
    }
    std::copy_n(LogOf(from, layer), state.n_log * row_width(), LogOf(to, layer));
  }
}

bool QuerySums::CanTruncate(SequenceId sequence, int64_t length) const {
  for (int layer = 0; layer < shape_.n_layers; ++layer) {
    const Layer& state = layers_.At(sequence, layer);
    if (length < state.end && length != state.previous) return false;
  }
  return true;
}

void QuerySums::Truncate(SequenceId sequence, int64_t length) {
  for (int layer = 0; layer < shape_.n_layers; ++layer) {
    Layer& state = layers_.At(sequence, layer);
    state.pending = false;
    if (length >= state.end) {
      state.n_log = std::clamp<int64_t>(length - state.end, 0, state.n_log);
      continue;
    }
    state.now = 1 - state.now;
    state.end = length;
    state.previous = -1;
    state.n_log = 0;
  }
}

// As in a fork, without what a Truncate could go back to.
void QuerySums::Walk(SequenceId sequence, int layer, SequenceImage& image) {
  Layer& state = layers_.At(sequence, layer);
  if (image.reads()) state = {};
  int64_t any = state.any[state.now] ? 1 : 0;
  image.Number(state.n_heads, 0, shape_.n_heads);
  image.Number(state.end, 0, std::numeric_limits<int32_t>::max());
  image.Number(state.n_log, 0, shape_.log_rows);
  image.Number(any, 0, 1);
  if (!image.sound()) return;
  state.any[state.now] = any == 1;
  if (any == 1) {
    image.Bytes(SumsOf(sequence, layer, state.now, 0),
                state.n_heads * shape_.sums() * int64_t{sizeof(double)});
  }
  image.Bytes(LogOf(sequence, layer), state.n_log * row_width() * int64_t{sizeof(float)});
}

}  // namespace ng
