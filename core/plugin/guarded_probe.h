// GuardedProbe: the decorator around a plugin's probe. Nothing that the plugin throws gets past it,
// and every error names the plugin.
#ifndef NG_CORE_PLUGIN_GUARDED_PROBE_H_
#define NG_CORE_PLUGIN_GUARDED_PROBE_H_

#include <memory>
#include <string>

#include "core/plugin/fenced_floats.h"
#include "core/plugin/loader.h"
#include "ng/probe.h"

namespace ng {

class GuardedProbe final : public Probe {
 public:
  // Asks the probe for its use, once. Errors: PluginError when it names a point that the model has
  // not, or one twice. With `check`, OnPoint lends the probe a copy of the rows: it finds out what
  // was written beside them, what was edited and is not declared, and values that are not finite.
  static absl::StatusOr<std::unique_ptr<GuardedProbe>> Make(const LoadedPlugin& plugin,
                                                            std::unique_ptr<Probe> probe,
                                                            const ProbeModel& model, bool check);

  ProbeUse Use() const override { return use_; }
  absl::Status OnPoint(const PointRows& rows) override;
  absl::Status Begin(const ProbeRequest& request) override;
  absl::Status Accept(int request, int32_t token) override;
  absl::Status End(int request) override;
  // An OutputError and an InterruptedError keep their code.
  absl::Status EndRun(const ProbeRun& run) override;
  std::string Report() const override { return GuardReport(*probe_); }

 private:
  GuardedProbe(const LoadedPlugin& plugin, std::unique_ptr<Probe> probe, ProbeUse use, bool check)
      : plugin_(plugin), probe_(std::move(probe)), use_(std::move(use)), check_(check) {}
  absl::Status OnPointChecked(const PointRows& rows);
  // What the probe has made of a row of a point. `before`, `after`: [values]
  absl::Status CheckRow(const PointRows& rows, int64_t row, const float* before,
                        const float* after) const;

  LoadedPlugin plugin_;
  std::unique_ptr<Probe> probe_;
  ProbeUse use_;
  bool check_ = false;
  FencedFloats lent_;
};

}  // namespace ng

#endif  // NG_CORE_PLUGIN_GUARDED_PROBE_H_
