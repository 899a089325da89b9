#include "core/runtime/watch/step_observers.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

constexpr int64_t kPositionsInFull = 16;

// Calls body(first, count) for each run of neighbouring sequences of equal shape.
template <typename Body>
void ForEachGroup(std::span<const SequenceRows> rows, Body&& body) {
  for (size_t first = 0; first < rows.size();) {
    size_t end = first + 1;
    while (end < rows.size() && rows[end].start_pos == rows[first].start_pos &&
           rows[end].n_tokens == rows[first].n_tokens) {
      ++end;
    }
    body(first, end - first);
    first = end;
  }
}

std::string PositionsText(int64_t start, int64_t count) {
  if (count > kPositionsInFull) {
    return absl::StrCat("pos[0]=", start, " pos[-1]=", start + count - 1);
  }
  std::string text = "pos=[";
  for (int64_t i = 0; i < count; ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", start + i);
  return text + "]";
}

}  // namespace

CacheDebugObserver::CacheDebugObserver(const ModelShape& shape, int layer, Sink sink)
    : shape_(shape), layer_(layer), sink_(std::move(sink)) {}

void CacheDebugObserver::OnStep(std::span<const SequenceRows> rows) {
  ForEachGroup(rows, [&](size_t first, size_t count) {
    const SequenceRows& r = rows[first];
    const std::string state = r.start_pos == 0
                                  ? absl::StrCat("kv_cache=None b=", count, " t=", r.n_tokens)
                                  : absl::StrCat("kv_cache=present b=", count, " t=", r.n_tokens,
                                                 " cache_pos=", r.start_pos);
    sink_(absl::StrCat("[KVDBG][GPT] ", state, " ", PositionsText(r.start_pos, r.n_tokens)));
  });
}

void CacheDebugObserver::OnAttention(int layer, std::span<const SequenceRows> rows,
                                     std::span<const KvView> views) {
  if (layer_ >= 0 && layer != layer_) return;
  const std::string tag = absl::StrCat("[KVDBG][Attn L", layer, "] ");
  ForEachGroup(rows, [&](size_t first, size_t /*count*/) {
    const SequenceRows& r = rows[first];
    const int64_t n_keys = views[first].n_slots();
    if (r.start_pos == 0) {
      sink_(absl::StrCat(tag, "init_cache T=", r.n_tokens, " max_ctx=", shape_.max_positions));
    } else {
      sink_(absl::StrCat(tag, "cache_pos=", r.start_pos, " T=", r.n_tokens, " new_cache_pos=",
                         r.start_pos + r.n_tokens, " max_ctx=", shape_.max_positions));
      sink_(absl::StrCat(tag, "using cache T_k=", n_keys));
    }
    sink_(absl::StrCat(tag, "mask T_q=", r.n_tokens, " T_k=", n_keys));
  });
}

PrefillProgressObserver::PrefillProgressObserver(const ModelShape& shape,
                                                 std::function<void(const Progress&)> sink)
    : n_layers_(shape.n_layers), sink_(std::move(sink)) {}

void PrefillProgressObserver::OnStep(std::span<const SequenceRows> rows) {
  n_rows_ = 0;
  for (const SequenceRows& r : rows) n_rows_ += r.n_tokens;
}

void PrefillProgressObserver::OnLayerOutput(int layer, const TensorView<const float, 2>& hidden) {
  constexpr int64_t kRowsWorthReporting = 64;
  (void)hidden;
  if (n_rows_ < kRowsWorthReporting) return;
  sink_({"prefill", n_rows_ * (layer + 1) / n_layers_, n_rows_});
}

void NonFiniteFinder::OnLayerOutput(int layer, const TensorView<const float, 2>& hidden) {
  if (first_layer_ >= 0) return;
  for (int64_t row = 0; row < hidden.extent[0]; ++row) {
    const float* x = hidden.Row(row);
    for (int64_t i = 0; i < hidden.extent[1]; ++i) {
      if (!std::isfinite(x[i])) {
        first_layer_ = layer;
        return;
      }
    }
  }
}

PointsByLayer::PointsByLayer(int n_layers, std::span<const PointAt> points)
    : sets_(static_cast<size_t>(n_layers) + 1) {
  for (const PointAt& at : points) Add(at);
}

PointWatch::PointWatch(PointsByLayer points, Sink sink)
    : points_(std::move(points)), sink_(std::move(sink)) {}

PointSet ObserverList::Wanted(int layer) const {
  PointSet wanted;
  for (const StepObserver* observer : observers_) wanted.Add(observer->Wanted(layer));
  return wanted;
}

absl::Status ObserverList::OnPoint(const PointRows& rows) {
  for (StepObserver* observer : observers_) {
    if (!observer->Wanted(rows.at.layer).Has(rows.at.point)) continue;
    NG_RETURN_IF_ERROR(observer->OnPoint(rows));
  }
  return absl::OkStatus();
}

void ObserverList::OnStep(std::span<const SequenceRows> rows) {
  for (StepObserver* observer : observers_) observer->OnStep(rows);
}

void ObserverList::OnAttention(int layer, std::span<const SequenceRows> rows,
                               std::span<const KvView> views) {
  for (StepObserver* observer : observers_) observer->OnAttention(layer, rows, views);
}

void ObserverList::OnLayerOutput(int layer, const TensorView<const float, 2>& hidden) {
  for (StepObserver* observer : observers_) observer->OnLayerOutput(layer, hidden);
}

}  // namespace ng
