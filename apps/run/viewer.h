// --view and --trace: collects what a run shows of itself, and writes the page of it, or a map of a
// head for the terminal.
#ifndef NG_APPS_RUN_VIEWER_H_
#define NG_APPS_RUN_VIEWER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/run/command_line.h"
#include "apps/view/attention_maps.h"
#include "apps/view/page.h"
#include "apps/view/survival.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::run {

// Whether --view writes to the terminal, and not a page.
inline bool ViewsInTerminal(const CommandLine& line) { return line.view == "-"; }

// The layers whose attention is shown.
struct ViewedLayers {
  std::vector<int> layers;    // rising
  std::vector<int> left_out;  // of those that have attention
  std::string why;            // a sentence; empty where none is left out
};

class Viewer {
 public:
  // Opens the engine of --against too. `options` are those that `engine` was opened with. All that
  // is passed is borrowed. Errors: UsageError for what cannot be shown; LimitError where the layers
  // that are asked for make a page larger than --view-limit; those of Engine::Open.
  static absl::StatusOr<std::unique_ptr<Viewer>> Open(const CommandLine& line,
                                                      const EngineOptions& options, Engine& engine,
                                                      const GenerateRequest& request);

  const ViewedLayers& viewed() const { return viewed_; }
  // Errors: those of Engine::Load, of --against's engine.
  absl::Status Load();
  // What the run must keep beside what `options` has already.
  void AddTo(GenerateOptions* options);
  void OnStep(const StepRecord& record) { page_.steps.push_back(record); }
  void OnLeft(const HeldPositions& held) { survival_.Add(held); }
  // Copies what it needs.
  void OnDone(const Completion& completion);
  // Computes what the page has beside that, and writes it. `stop` ends a wait for the reader of a
  // pipe; once it is set nothing more is computed. Errors: OutputError, InterruptedError.
  absl::Status Write(const std::atomic<bool>* stop);

 private:
  Viewer(const CommandLine& line, Engine& engine, const GenerateRequest& request,
         ViewedLayers viewed);

  absl::Status OpenAgainst(const EngineOptions& options);
  std::span<const int32_t> chosen() const;  // the tokens of the answer
  absl::Status WriteTerminal() const;
  absl::Status FillPage(const std::atomic<bool>* stop);
  // The lens, and the second run.
  absl::Status ComputeMore(const std::atomic<bool>* stop);
  absl::Status RunAgainst();
  absl::Status WriteMetadata(const std::atomic<bool>* stop) const;

  const CommandLine& line_;
  Engine& engine_;
  const GenerateRequest& request_;
  ViewedLayers viewed_;
  view::AttentionMaps maps_;
  view::Survival survival_;
  int64_t rows_before_ = 0;          // of the points that the run keeps, before those of the answer
  std::vector<CapturedPoint> outs_;  // of each layer, rows of the positions that chose a token
  Timings timings_;
  view::Page page_;
  std::unique_ptr<Engine> against_;  // null: none
  view::AttentionMaps against_maps_;
};

}  // namespace ng::run

#endif  // NG_APPS_RUN_VIEWER_H_
