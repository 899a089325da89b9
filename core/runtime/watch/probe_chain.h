// ProbeChain: the probes of a run, in the order of probe.chain, as one observer of its steps.
#ifndef NG_CORE_RUNTIME_WATCH_PROBE_CHAIN_H_
#define NG_CORE_RUNTIME_WATCH_PROBE_CHAIN_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/model/decoder/decoder.h"
#include "core/model/step/step_batch.h"
#include "core/runtime/watch/step_observers.h"
#include "ng/probe.h"
#include "ng/status.h"

namespace ng {

// The head of a decoder that is loaded after the probes were made.
class LoadedHead final : public LogitHead {
 public:
  void Set(Decoder* decoder) { decoder_ = decoder; }  // borrowed; null: nothing is loaded
  // Errors: as Engine::HeadLogits.
  absl::Status Logits(const TensorView<const float, 2>& hidden, std::span<float> logits) override;

 private:
  Decoder* decoder_ = nullptr;
};

class ProbeChain final : public StepObserver {
 public:
  explicit ProbeChain(int n_layers) : n_layers_(n_layers), wanted_(n_layers) {}
  // Behind those that are there. `while_open`: by the program, until Remove.
  void Add(std::unique_ptr<Probe> probe, bool while_open = false);
  void Remove(const Probe* probe);

  bool empty() const { return links_.empty(); }
  const ProbeUse& use(size_t index) const { return links_[index].use; }
  std::string ReportOf(size_t index) const { return links_[index].probe->Report(); }
  // What one of them at least does or needs.
  bool edits() const { return edits_; }
  bool every_token() const { return every_token_; }
  bool identity() const { return identity_; }
  bool every_logit() const { return every_logit_; }  // of every token that is fed
  // One that was added while the engine is open edits: its identity says nothing of that.
  bool edits_while_open() const { return edits_while_open_; }

  PointSet Wanted(int layer) const override { return wanted_.Of(layer); }
  absl::Status OnPoint(const PointRows& rows) override;

  // As Probe's, told to all; the last two even where one fails: the first error counts.
  absl::Status Begin(const ProbeRequest& request);
  absl::Status Accept(int request, int32_t token);
  absl::Status End(int request);
  absl::Status EndRun(const ProbeRun& run);

 private:
  struct Link {
    std::unique_ptr<Probe> probe;
    ProbeUse use;
    PointsByLayer wanted;
    bool while_open = false;
  };

  void Count(const Link& link);

  const int n_layers_;
  std::vector<Link> links_;
  PointsByLayer wanted_;  // of all of them
  bool edits_ = false;
  bool every_token_ = false;
  bool identity_ = false;
  bool every_logit_ = false;
  bool edits_while_open_ = false;
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_WATCH_PROBE_CHAIN_H_
