// The observers that the generate loop attaches to a step.
#ifndef NG_CORE_RUNTIME_WATCH_STEP_OBSERVERS_H_
#define NG_CORE_RUNTIME_WATCH_STEP_OBSERVERS_H_

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/model/step/step_batch.h"
#include "ng/engine_options.h"
#include "ng/plugin.h"
#include "ng/request.h"

namespace ng {

// The cache debug lines, from what the cache and the attention backend are really handed:
//
//   [KVDBG][GPT] kv_cache=present b=1 t=1 cache_pos=5 pos=[5]
//   [KVDBG][Attn L0] cache_pos=5 T=1 new_cache_pos=6 max_ctx=128
//   [KVDBG][Attn L0] using cache T_k=6
//   [KVDBG][Attn L0] mask T_q=1 T_k=6
//
// and for a sequence that begins
//
//   [KVDBG][GPT] kv_cache=None b=1 t=6 pos=[0, 1, 2, 3, 4, 5]
//   [KVDBG][Attn L0] init_cache T=6 max_ctx=128
//
// Neighbouring sequences of the same length and position make one line with b > 1, as a batch
// tensor would. More than 16 positions are written as pos[0]=0 pos[-1]=37.
class CacheDebugObserver final : public StepObserver {
 public:
  using Sink = std::function<void(std::string_view line)>;
  // `layer` < 0: every layer.
  CacheDebugObserver(const ModelShape& shape, int layer, Sink sink);

  void OnStep(std::span<const SequenceRows> rows) override;
  void OnAttention(int layer, std::span<const SequenceRows> rows,
                   std::span<const KvView> views) override;

 private:
  ModelShape shape_;
  int layer_;
  Sink sink_;
};

// Reports how far a long prefill is, layer by layer.
class PrefillProgressObserver final : public StepObserver {
 public:
  PrefillProgressObserver(const ModelShape& shape, std::function<void(const Progress&)> sink);
  void OnStep(std::span<const SequenceRows> rows) override;
  void OnLayerOutput(int layer, const TensorView<const float, 2>& hidden) override;

 private:
  int n_layers_;
  int64_t n_rows_ = 0;
  std::function<void(const Progress&)> sink_;
};

// Finds the first layer whose output is not finite.
class NonFiniteFinder final : public StepObserver {
 public:
  void OnLayerOutput(int layer, const TensorView<const float, 2>& hidden) override;
  int first_layer() const { return first_layer_; }  // -1: none

 private:
  int first_layer_ = -1;
};

// The points of a run that are looked at, by layer.
class PointsByLayer {
 public:
  explicit PointsByLayer(int n_layers, std::span<const PointAt> points = {});
  void Add(const PointAt& at) { sets_[static_cast<size_t>(int64_t{at.layer} + 1)].Add(at.point); }
  // Those of a layer, or with -1 of no layer.
  PointSet Of(int layer) const { return sets_[static_cast<size_t>(int64_t{layer} + 1)]; }

 private:
  std::vector<PointSet> sets_;  // [1 + n_layers]
};

// Shows points to a program (GenerateOptions::on_point).
class PointWatch final : public StepObserver {
 public:
  using Sink = std::function<absl::Status(const PointRows& rows)>;
  PointWatch(PointsByLayer points, Sink sink);

  PointSet Wanted(int layer) const override { return points_.Of(layer); }
  absl::Status OnPoint(const PointRows& rows) override { return sink_(rows); }

 private:
  PointsByLayer points_;
  Sink sink_;
};

// Passes every event to several observers.
class ObserverList final : public StepObserver {
 public:
  void Add(StepObserver* observer) { observers_.push_back(observer); }  // borrowed
  bool empty() const { return observers_.empty(); }

  // Those of all of them; each is told of those that it wants.
  PointSet Wanted(int layer) const override;
  absl::Status OnPoint(const PointRows& rows) override;
  void OnStep(std::span<const SequenceRows> rows) override;
  void OnAttention(int layer, std::span<const SequenceRows> rows,
                   std::span<const KvView> views) override;
  void OnLayerOutput(int layer, const TensorView<const float, 2>& hidden) override;

 private:
  std::vector<StepObserver*> observers_;
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_WATCH_STEP_OBSERVERS_H_
