// Keeps the rows of points and writes them to a safetensors file when the run ends: tensors
// <point>.<request> [n_rows, ...], row p that of position p, and what was run as metadata. It is
// the file that ng-run's --save-tensors writes.
#ifndef NG_PLUGINS_PROBE_CAPTURE_CAPTURE_H_
#define NG_PLUGINS_PROBE_CAPTURE_CAPTURE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/probe.h"
#include "ng/safetensors.h"

namespace ng {

struct CaptureOptions {
  std::span<const std::string_view> points = {};  // patterns
  std::string_view file = {};
};

class Capture final : public Probe {
 public:
  // Errors: UsageError for an option.
  static absl::StatusOr<std::unique_ptr<Probe>> Create(const CaptureOptions& options,
                                                       const PluginContext& context,
                                                       const ProbeModel& model);

  ProbeUse Use() const override;
  absl::Status OnPoint(const PointRows& rows) override;
  absl::Status Begin(const ProbeRequest& request) override;
  absl::Status Accept(int request, int32_t token) override;
  absl::Status EndRun(const ProbeRun& run) override;

 private:
  struct Kept {
    int64_t n_values = 0;
    int64_t end = -1;         // the position behind the last row; -1: none yet
    std::vector<float> rows;  // [n_rows, n_values]
  };
  struct Request {
    std::vector<Kept> points;  // [n_points]
    int64_t first = -1;        // the position of the first row
    int64_t prompt_len = 0;
    std::vector<int32_t> ids;
  };

  Capture(std::string path, std::vector<PointShape> points, const PluginContext& context,
          const ProbeModel& model);
  // Of what a row belongs to: a request of the run, or a sequence that is fed step by step.
  Request& Of(const TokenRow& token);
  void AddTensors(const std::string& name, Request& request, std::vector<NamedTensor>* tensors);
  // {"prompt_len": ..., "ids": [...], "text": [...]} as ng-run writes it, with the first position.
  std::string TokensJson(const Request& request) const;

  const std::string path_;
  const std::vector<PointShape> points_;
  const std::span<const std::string_view> token_bytes_;  // [vocab_size] or empty
  const std::atomic<bool>* const stop_;
  std::map<int64_t, Request> requests_;  // by index; those without one by -1 - sequence
};

}  // namespace ng

#endif  // NG_PLUGINS_PROBE_CAPTURE_CAPTURE_H_
