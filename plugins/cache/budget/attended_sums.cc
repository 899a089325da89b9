#include "plugins/cache/budget/attended_sums.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "plugins/cache/budget/head_runs.h"

namespace ng {
namespace {

// Slots that a worker adds up at a time.
constexpr int64_t kChunk = 256;
// What is worth to be shared out.
constexpr int64_t kFewest = 1 << 15;

// Behind all rows.
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// sums[i] += mass[i]
void AddTo(double* sums, const float* mass, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sums[i] += double{mass[i]};
}

}  // namespace

AttendedSums::AttendedSums(const AttendedShape& shape, Executor& executor, std::byte* memory)
    : shape_(shape),
      executor_(executor),
      sums_(reinterpret_cast<double*>(memory + shape.sums)),
      log_(reinterpret_cast<float*>(memory + shape.log)),
      layers_(shape.max_sequences, shape.n_layers),
      places_(static_cast<size_t>(shape.max_sequences * shape.n_layers * shape.n_kv_heads)),
      marks_(static_cast<size_t>(shape.max_sequences)) {
  for (SequenceId sequence = 0; sequence < shape.max_sequences; ++sequence) Forget(sequence);
}

void AttendedSums::SetPlaces(SequenceId sequence, int layer, std::span<const HeadSlots> heads) {
  const std::span<Place> places = PlacesOf(sequence, layer);
  int64_t least = heads.empty() ? 0 : heads.front().gone;
  for (const HeadSlots& head : heads) least = std::min(least, head.gone);
  for (size_t head = 0; head < places.size(); ++head) {
    Place& place = places[head];
    if (heads.empty()) {
      place = {static_cast<int64_t>(head) * shape_.slots, shape_.slots, 0};
      continue;
    }
    place.first = heads[head].first_tile * kTileTokens;
    const int64_t end =
        head + 1 < heads.size() ? heads[head + 1].first_tile * kTileTokens : shape_.total();
    place.room = end - place.first;
    place.fewer = heads[head].gone - least;
  }
}

int64_t AttendedSums::FirstCounted(SequenceId sequence, int64_t position) const {
  if (shape_.every > 0) {
    if (shape_.queries == 0) return 0;
    return position / shape_.every * shape_.every + shape_.every - shape_.queries;
  }
  const int64_t mark = marks_[static_cast<size_t>(sequence)];
  if (mark > 0 && position >= mark) return kNever;
  if (shape_.queries == 0) return 0;
  return mark == 0 ? kNever : mark - shape_.queries;
}

void AttendedSums::SetMark(SequenceId sequence, int64_t length) {
  marks_[static_cast<size_t>(sequence)] = length;
}

int64_t AttendedSums::Wanted(const SequenceRows& rows) const {
  const int64_t end = rows.start_pos + rows.n_tokens;
  if (rows.n_tokens == 0) return 0;
  return std::clamp<int64_t>(end - FirstCounted(rows.sequence, end - 1), 0, rows.n_tokens);
}

absl::Status AttendedSums::Add(int layer, const SequenceRows& rows,
                               const TensorView<const float, 3>& mass) {
  Layer& state = layers_.At(rows.sequence, layer);
  const int64_t begin = FirstCounted(rows.sequence, rows.start_pos + rows.n_tokens - 1);
  if (state.begin != begin) {
    state = {};
    state.begin = state.end = begin;
  }
  AddLog(layer, rows.sequence, rows.start_pos);
  state.end = std::max(state.end, rows.start_pos);
  state.previous = -1;
  if (!Logs(rows)) {
    state.pending = true;
    return AddRows(layer, rows, mass);
  }
  state.pending = false;
  state.log_begin = rows.start_pos + rows.n_tokens - mass.extent[0];
  state.n_log = mass.extent[0];
  for (int64_t row = 0; row < mass.extent[0]; ++row) {
    for (int64_t head = 0; head < shape_.n_kv_heads; ++head) {
      const Place& place = PlaceOf(rows.sequence, layer, head);
      const int64_t n_slots = place.Own(mass.extent[2]);
      float* const to = LogOf(rows.sequence, layer, head, row);
      std::copy_n(mass.Row(row, head), n_slots, to);
      std::fill(to + n_slots, to + place.room, 0.0F);
    }
  }
  return absl::OkStatus();
}

void AttendedSums::AddLog(int layer, SequenceId sequence, int64_t end) {
  Layer& state = layers_.At(sequence, layer);
  const int64_t first = std::max(state.end, state.log_begin) - state.log_begin;
  const int64_t last = std::min(state.n_log, end - state.log_begin);
  for (int64_t head = 0; head < shape_.n_kv_heads && first < last; ++head) {
    const Place& place = PlaceOf(sequence, layer, head);
    double* const sums = SumsOf(sequence, layer, head, state.now);
    std::fill(sums + place.Own(state.valid[state.now]), sums + place.room, 0.0);
    for (int64_t row = first; row < last; ++row) {
      AddTo(sums, LogOf(sequence, layer, head, row), place.room);
    }
  }
  if (first < last) state.valid[state.now] = shape_.total();
  state.n_log = 0;
}

absl::Status AttendedSums::AddRows(int layer, const SequenceRows& rows,
                                   const TensorView<const float, 3>& mass) {
  Layer& state = layers_.At(rows.sequence, layer);
  const int64_t n_slots = mass.extent[2];
  const int64_t n_valid = std::min(n_slots, state.valid[state.now]);
  const int64_t n_chunks = (n_slots + kChunk - 1) / kChunk;
  state.valid[1 - state.now] = n_slots;
  const int64_t n_items = shape_.n_kv_heads * n_chunks;
  const auto add = [&](int64_t begin, int64_t end, int /*worker*/) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t head = item / n_chunks;
      const int64_t first = item % n_chunks * kChunk;
      const Place& place = PlaceOf(rows.sequence, layer, head);
      const int64_t n = std::clamp<int64_t>(place.Own(n_slots) - first, 0, kChunk);
      const double* const from = SumsOf(rows.sequence, layer, head, state.now) + first;
      double* const to = SumsOf(rows.sequence, layer, head, 1 - state.now) + first;
      const int64_t n_old = std::clamp<int64_t>(place.Own(n_valid) - first, 0, n);
      std::copy_n(from, n_old, to);
      std::fill(to + n_old, to + n, 0.0);
      for (int64_t row = 0; row < mass.extent[0]; ++row) AddTo(to, mass.Row(row, head) + first, n);
    }
  };
  const int64_t n_added = mass.extent[0] * shape_.n_kv_heads * n_slots;
  if (n_added >= kFewest) return ParallelFor(executor_, n_items, add);
  add(0, n_items, 0);
  return absl::OkStatus();
}

void AttendedSums::Sum(int layer, int kv_head, const SequenceRows& rows,
                       std::span<float> out) const {
  const Layer& state = layers_.At(rows.sequence, layer);
  const int which = state.pending ? 1 - state.now : state.now;
  const double* const sums = SumsOf(rows.sequence, layer, kv_head, which);
  const int64_t end = rows.start_pos + rows.n_tokens;
  const int64_t n_valid = PlaceOf(rows.sequence, layer, kv_head).Own(state.valid[which]);
  for (size_t slot = 0; slot < out.size(); ++slot) {
    double sum = static_cast<int64_t>(slot) < n_valid ? sums[slot] : 0.0;
    for (int64_t row = 0; row < state.n_log; ++row) {
      const int64_t position = state.log_begin + row;
      if (position < state.end || position >= end) continue;
      sum += double{LogOf(rows.sequence, layer, kv_head, row)[slot]};
    }
    out[slot] = static_cast<float>(sum);
  }
}

void AttendedSums::Commit(const SequenceRows& rows) {
  for (int layer = 0; layer < shape_.n_layers; ++layer) {
    Layer& state = layers_.At(rows.sequence, layer);
    const bool added = state.pending && Wanted(rows) > 0;
    state.pending = false;
    if (!added) continue;
    state.now = 1 - state.now;
    state.previous = rows.start_pos;
    state.end = rows.start_pos + rows.n_tokens;
  }
}

void AttendedSums::Settle(const SequenceRows& rows) {
  const int64_t end = rows.start_pos + rows.n_tokens;
  for (int layer = 0; layer < shape_.n_layers; ++layer) {
    AddLog(layer, rows.sequence, end);
    Layer& state = layers_.At(rows.sequence, layer);
    state.end = end;
    state.previous = -1;
  }
}

void AttendedSums::Keep(int layer, int kv_head, SequenceId sequence,
                        std::span<const int32_t> kept) {
  const Layer& state = layers_.At(sequence, layer);
  double* const sums = SumsOf(sequence, layer, kv_head, state.now);
  const int64_t n_valid = PlaceOf(sequence, layer, kv_head).Own(state.valid[state.now]);
  for (size_t to = 0; to < kept.size(); ++to) sums[to] = kept[to] < n_valid ? sums[kept[to]] : 0.0;
}

void AttendedSums::Left(int layer, SequenceId sequence, int64_t n_slots,
                        std::span<const HeadSlots> heads) {
  Layer& state = layers_.At(sequence, layer);
  state.valid[state.now] = n_slots;
  if (heads.empty()) return;
  const auto before = [&](int head) { return PlaceOf(sequence, layer, head).first; };
  const auto after = [&](int head) {
    return heads[static_cast<size_t>(head)].first_tile * kTileTokens;
  };
  double* const sums = SumsOf(sequence, layer, 0, state.now) - before(0);
  MoveRuns(static_cast<int>(shape_.n_kv_heads), before, after, [&](int head) {
    const auto n = static_cast<size_t>(heads[static_cast<size_t>(head)].n_kept);
    std::memmove(sums + after(head), sums + before(head), n * sizeof(double));
  });
  SetPlaces(sequence, layer, heads);
}

void AttendedSums::Forget(SequenceId sequence) {
  for (int layer = 0; layer < shape_.n_layers; ++layer) {
    layers_.At(sequence, layer) = {};
    SetPlaces(sequence, layer, {});
  }
}

void AttendedSums::Copy(SequenceId from, SequenceId to) {
  for (int layer = 0; layer < shape_.n_layers; ++layer) {
    Layer& state = layers_.At(to, layer);
    state = layers_.At(from, layer);
    state.previous = -1;
    state.pending = false;
    std::ranges::copy(PlacesOf(from, layer), PlacesOf(to, layer).begin());
    for (int64_t head = 0; head < shape_.n_kv_heads; ++head) {
      const Place& place = PlaceOf(from, layer, head);
      std::copy_n(SumsOf(from, layer, head, state.now), place.Own(state.valid[state.now]),
                  SumsOf(to, layer, head, state.now));
      for (int64_t row = 0; row < state.n_log; ++row) {
        std::copy_n(LogOf(from, layer, head, row), place.room, LogOf(to, layer, head, row));
      }
    }
  }
}

bool AttendedSums::CanTruncate(SequenceId sequence, int64_t length) const {
  for (int layer = 0; layer < shape_.n_layers; ++layer) {
    const Layer& state = layers_.At(sequence, layer);
    if (length < state.end && length > state.begin && length != state.previous) return false;
  }
  return true;
}

void AttendedSums::Truncate(SequenceId sequence, int64_t length) {
  for (int layer = 0; layer < shape_.n_layers; ++layer) {
    Layer& state = layers_.At(sequence, layer);
    if (length >= state.end) {
      state.n_log = std::clamp<int64_t>(length - state.log_begin, 0, state.n_log);
    } else if (length <= state.begin) {
      state = {};
    } else {
      state.now = 1 - state.now;
      state.end = length;
      state.previous = -1;
      state.n_log = 0;
    }
  }
}

// What a step has added that may still be abandoned is left out, and so is what a Truncate could go
// back to, as in a fork.
void AttendedSums::Walk(const Holding& holding, SequenceImage& image) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto [sequence, layer, n_slots, heads] = holding;
  Layer& state = layers_.At(sequence, layer);
  if (image.reads()) {
    state = {};
    SetPlaces(sequence, layer, heads);
  }
  int64_t n_valid = std::min(state.valid[state.now], n_slots);
  image.Number(state.begin, -kMost, kNever);
  image.Number(state.end, -kMost, kNever);
  image.Number(state.log_begin, -kMost, kMost);
  image.Number(state.n_log, 0, shape_.drafts);
  image.Number(n_valid, 0, n_slots);
  if (image.reads()) state.valid[state.now] = n_valid;
  for (int64_t head = 0; head < shape_.n_kv_heads && image.sound(); ++head) {
    const Place& place = PlaceOf(sequence, layer, head);
    image.Bytes(SumsOf(sequence, layer, head, state.now),
                place.Own(n_valid) * int64_t{sizeof(double)});
    const int64_t n = place.Own(n_slots);
    for (int64_t row = 0; row < state.n_log; ++row) {
      float* const log = LogOf(sequence, layer, head, row);
      image.Bytes(log, n * int64_t{sizeof(float)});
      if (image.reads()) std::fill(log + n, log + place.room, 0.0F);
    }
  }
}

}  // namespace ng
