// OpenEngine: an engine as Python holds it. What a caller from Python could do wrong is refused
// here: two threads at once, a step while a view of the last logits lives, a load that would end
// open sequences.
//
// Thread: every function is called with the GIL held, and gives it back while it computes. The
// engine's "one thread at a time" is kept by OpenEngine::Claim.
#ifndef NG_APPS_PYTHON_OPEN_ENGINE_H_
#define NG_APPS_PYTHON_OPEN_ENGINE_H_

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/python/arrays.h"
#include "apps/python/errors.h"
#include "apps/python/interrupt.h"
#include "apps/python/parts.h"
#include "ng/engine.h"

namespace ng::python {

// What Python's Engine() is given.
struct OpenArguments {
  std::string config;                  // a file; may be empty
  std::vector<std::string> overrides;  // "section.key=value"
  std::string random_weights;          // EngineOptions'
  py::list parts;                      // ng.Stage, ng.Probe, ng.Drafter
  py::object warning;                  // called with a line, or None
  RunNeeds least;                      // what a Load is told at least
};

class OpenEngine : public std::enable_shared_from_this<OpenEngine> {
 public:
  explicit OpenEngine(const OpenArguments& arguments);
  ~OpenEngine();
  OpenEngine(const OpenEngine&) = delete;
  OpenEngine& operator=(const OpenEngine&) = delete;

  // The engine for calls that neither compute nor change it: text, config, points. Raises
  // UsageError behind Close.
  Engine& engine() const;
  // Ends the engine and its runs; its memory is free then. Raises UsageError while it computes, and
  // while a view lives.
  void Close();

  // What Python objects this holds, for Python's garbage collector: a part may hold the engine.
  int Traverse(visitproc visit, void* arg);
  void Clear();

  // Called when Python is about to end: stops what computes on other threads, and waits for it.
  // From then on other threads than the main one wait for ever where they would use an engine, as
  // Python's own daemon threads do: to go on they would need an interpreter that is gone.
  static void EndAll();

  // The engine for a call that computes. Raises UsageError when another call is at work (of another
  // thread, or one that calls the callable which asks), or a view of the logits lives.
  class Claim {
   public:
    explicit Claim(OpenEngine& of);
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

   private:
    OpenEngine& of_;
  };

  // Runs `call`, which returns a StatusOr, without the GIL. Ctrl-C stops it. Raises what Python
  // code that it called has raised, KeyboardInterrupt, or what the status says; `keep`, which may
  // be null, is called before that. REQUIRES: a claim.
  template <class Call>
  auto Run(Call&& call, const std::function<void()>& keep = nullptr) {
    const StopOnSigint interrupt(&stop_);
    auto result = [&] {
      const py::gil_scoped_release release;
      return call(*engine_);
    }();
    if (keep) keep();
    RaisePending();
    return Value(std::move(result));
  }
  // Raises what callables have raised, or KeyboardInterrupt where Ctrl-C was pressed.
  void RaisePending();
  std::atomic<bool>* stop() { return &stop_; }
  PendingError& pending() { return pending_; }
  // What callbacks of the engine's own loop raise becomes a status. The GIL is taken.
  absl::Status CallBack(const char* what, const std::function<void()>& call);

  // Loads the weights where that has not been done, or not for so much. Raises UsageError where
  // open sequences would be lost. REQUIRES: a claim.
  void Ensure(const RunNeeds& needs);
  void Load(RunNeeds needs);  // in any case
  // Tokens of a sequence that are loaded for; 0: nothing is.
  int64_t loaded_tokens() const { return loaded_ ? loaded_->max_tokens : 0; }
  void Unloaded() { loaded_.reset(); }  // somebody else has loaded it for another run
  const RunNeeds& least() const { return least_; }
  int n_open() const { return static_cast<int>(ids_.size()); }
  int64_t MostTokens() const;  // that a sequence can have; 0: not known

  // Sequences, and the tokens that each holds. REQUIRES: a claim, but for IdsOf.
  SequenceId OpenSequence(int64_t capacity);
  SequenceId ForkSequence(SequenceId sequence, int64_t capacity);
  SequenceId LoadSequence(const std::string& path, int64_t capacity);
  void Truncate(SequenceId sequence, int64_t length);
  const std::vector<int32_t>& IdsOf(SequenceId sequence) const;
  void SetIds(SequenceId sequence, std::span<const int32_t> ids);  // those that it holds of these
  void AddIds(SequenceId sequence, std::span<const int32_t> ids);  // likewise, behind its own
  // Without a claim: at once, or when the call that is at work is done.
  void CloseSequence(SequenceId sequence);
  // Feeds tokens; `step` is a function of Engine. Returns [n, vocab_size], a copy or a view.
  using Step = std::function<absl::StatusOr<StepLogits>(Engine&)>;
  py::object Feed(std::span<const SequenceId> sequences,
                  std::span<const std::vector<int32_t>> tokens, const Step& step, bool copy);

  // The runs that go on step by step. Close ends them, by `finish`.
  void AddRun(const void* run, std::function<void()> finish) { runs_[run] = std::move(finish); }
  void RemoveRun(const void* run) { runs_.erase(run); }
  int n_runs() const { return static_cast<int>(runs_.size()); }
  // Keeps something until no call is at work: what must not end during one.
  void EndLater(std::shared_ptr<void> thing);

 private:
  void EndWhatWaits();
  py::object LogitsArray(const TensorView<const float, 2>& logits, bool copy);

  std::atomic<bool> stop_ = false;
  PendingError pending_;
  py::object warning_;
  PythonParts parts_;
  RunNeeds least_;
  std::unique_ptr<Engine> engine_;
  std::optional<RunNeeds> loaded_;
  std::map<SequenceId, std::vector<int32_t>> ids_;  // of the open sequences
  std::vector<SequenceId> to_close_;
  std::vector<std::shared_ptr<void>> to_end_;
  int n_views_ = 0;
  std::map<const void*, std::function<void()>> runs_;
  pid_t busy_process_ = 0;  // whose call is at work; 0: none
};

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_OPEN_ENGINE_H_
