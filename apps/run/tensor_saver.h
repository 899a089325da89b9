// --save: collects the tensors of a run, and writes them at the end.
#ifndef NG_APPS_RUN_TENSOR_SAVER_H_
#define NG_APPS_RUN_TENSOR_SAVER_H_

#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/run/command_line.h"
#include "apps/view/survival.h"
#include "ng/engine.h"
#include "ng/safetensors.h"
#include "ng/status.h"

namespace ng::run {

// Which points --save-tensors names, in the order of the engine's. `logits` is not among them: it
// has a form of its own (CommandLine::save_logits, which is set). Errors: UsageError.
absl::StatusOr<std::vector<PointAt>> ReadPoints(const Engine& engine, CommandLine* line);

class TensorSaver {
 public:
  // Of the points that a run keeps these are saved.
  TensorSaver(const CommandLine& line, const Engine& engine, std::vector<PointAt> points)
      : line_(line), engine_(engine), points_(std::move(points)) {}

  void OnStep(int index, const StepRecord& record);
  void OnLeft(int index, const HeldPositions& held);
  absl::Status OnDone(int index, const Completion& completion);
  // `stop` ends a wait for the reader of a pipe.
  absl::Status Write(const std::atomic<bool>* stop);

 private:
  void AddAttnFull(int index, const Completion& completion);
  void AddDroppedAt(int index, const Completion& completion);
  void AddPoint(int index, const CapturedPoint& captured);
  // The ids and the texts of all tokens, for the metadata.
  absl::Status AddTokens(int index, const Completion& completion);

  const CommandLine& line_;
  const Engine& engine_;
  std::vector<PointAt> points_;
  std::map<int, view::Survival> survivals_;  // of each request of which tokens have left
  std::vector<NamedTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace ng::run

#endif  // NG_APPS_RUN_TENSOR_SAVER_H_
