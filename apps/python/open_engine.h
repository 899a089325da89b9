// OpenEngine: an engine as Python holds it. What a caller from Python could do wrong is refused
// here: a call from within a call, a step while a view of the last logits lives. Sequences are
// called by numbers of its own, so that they outlive a load for more room: their tokens are fed
// again then, which gives the same bits.
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
#include <utility>
#include <vector>

#include "apps/python/arrays.h"
#include "apps/python/errors.h"
#include "apps/python/interrupt.h"
#include "apps/python/parts.h"
#include "apps/python/turns.h"
#include "ng/engine.h"

namespace ng::python {

// What Python's Engine() is given.
struct OpenArguments {
  std::string config;                  // a file; may be empty
  std::vector<std::string> overrides;  // "section.key=value"
  std::string random_weights;          // EngineOptions'
  py::list parts;                      // ng.Stage, ng.Probe, ng.Drafter
  py::object warning;                  // called with a line, or None
  py::object progress;                 // called with (phase, done, total), or None
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
  // Ends the engine and its runs, those of other threads too, as interrupted; its memory is free
  // then. Raises UsageError where what the engine calls asks for it, and while a view lives.
  void Close();
  bool closing() const { return closing_; }
  bool closed() const { return engine_ == nullptr; }

  // What Python objects this holds, for Python's garbage collector: a part may hold the engine.
  int Traverse(visitproc visit, void* arg);
  void Clear();

  // Called when Python is about to end: stops what computes on other threads, and waits for it.
  static void EndAll();

  // The engine for a call that computes: waits for its turn. Raises as Turns::Turn does, and
  // UsageError where a view of the logits lives.
  class Claim {
   public:
    explicit Claim(OpenEngine& of);
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

   private:
    OpenEngine& of_;
    const Turns::Turn turn_;
  };
  // The engine for a call that only looks at it: waits for its turn, but not where it has it.
  class Look {
   public:
    explicit Look(OpenEngine& of);

   private:
    std::optional<Turns::Turn> turn_;
  };
  bool turn_is_wanted() const { return turns_.wanted(); }
  // Whether this thread works for a call of this engine, which must not wait for another one.
  bool is_within() const { return turns_.is_within(); }

  // Runs `call`, which returns a StatusOr, without the GIL. Ctrl-C stops it. Raises what Python
  // code that it called has raised, KeyboardInterrupt, or what the status says; `keep`, which may
  // be null, is called before that. REQUIRES: a claim.
  template <class Call>
  auto Run(Call&& call, const std::function<void()>& keep = nullptr) {
    const StopOnSigint interrupt(&stop_);
    if (closing_) stop_ = true;
    auto result = [&] {
      const WithoutGil free;
      return call(*engine_);
    }();
    StayIfPythonEnds();
    if (keep) keep();
    RaisePending();
    return Value(std::move(result));
  }
  // Raises what callables have raised, or KeyboardInterrupt where Ctrl-C was pressed.
  void RaisePending();
  std::atomic<bool>* stop() { return &stop_; }
  PendingErrors& pending() { return pending_; }
  // What callbacks of the engine's own loop raise becomes a status. The GIL is taken.
  absl::Status CallBack(const char* what, const std::function<void()>& call);

  // Loads the weights where that has not been done, or not for so much. Open sequences stay. Raises
  // UsageError while a run is open. REQUIRES: a claim.
  void Ensure(const RunNeeds& needs);
  void Load(const RunNeeds& needs);  // in any case
  bool IsLoadedFor(const RunNeeds& needs) const;
  // How many sequences there is room for beside those that are open; at most `most`, at least 1.
  int SequencesThatFit(RunNeeds needs, int most) const;
  // Tokens of a sequence that are loaded for; 0: nothing is.
  int64_t loaded_tokens() const { return loaded_ ? loaded_->max_tokens : 0; }
  void Unloaded() { loaded_.reset(); }  // somebody else has loaded it for another run
  const RunNeeds& least() const { return least_; }
  int n_open() const { return static_cast<int>(held_.size()); }
  int64_t MostTokens() const;  // that a sequence can have; 0: not known

  // Sequences, and the tokens that each holds. REQUIRES: a claim, but for IdsOf.
  SequenceId OpenSequence(int64_t capacity);
  SequenceId ForkSequence(SequenceId sequence, int64_t capacity);
  SequenceId LoadSequence(const std::string& path, int64_t capacity);
  void Truncate(SequenceId sequence, int64_t length);
  const std::vector<int32_t>& IdsOf(SequenceId sequence) const;
  SequenceId InEngine(SequenceId sequence) const;  // what the engine calls it, until the next load
  void SetIds(SequenceId sequence, std::span<const int32_t> ids);  // those that it holds of these
  void AddIds(SequenceId sequence, std::span<const int32_t> ids);  // likewise, behind its own
  // Without a claim: at once, or when the call that is at work is done.
  void CloseSequence(SequenceId sequence);
  // Feeds tokens; `step` is a function of Engine, which calls the sequences by other numbers.
  // Returns [n, vocab_size], a copy or a view.
  using Step = std::function<absl::StatusOr<StepLogits>(Engine&, std::span<const SequenceId>)>;
  py::object Feed(std::span<const SequenceId> sequences,
                  std::span<const std::vector<int32_t>> tokens, const Step& step, bool copy);

  // A function that the steps call at points until RemoveHook, by an ng.Hook. Returns its number.
  // Raises UsageError for points that there are not, and while a run goes on step by step.
  int64_t AddHook(const py::handle& hook);
  // At once it is called no more; what it holds is let go when no run needs it.
  void RemoveHook(int64_t number);

  // For what a program does with the engine. Empty where nobody asked for it.
  const std::function<void(const Progress&)>& progress() const { return show_; }

  // The runs that go on step by step. Close ends them, by `finish`.
  void AddRun(const void* run, std::function<void()> finish) { runs_[run] = std::move(finish); }
  void RemoveRun(const void* run) { runs_.erase(run); }
  bool has_runs() const { return !runs_.empty(); }
  void CheckNoRuns() const;  // raises UsageError where there are some
  // Keeps something until no call is at work: what must not end during one.
  void EndLater(std::shared_ptr<void> thing);

 private:
  // An open sequence.
  struct Held {
    SequenceId in_engine = 0;
    int64_t capacity = 0;  // 0: as many as are loaded for
    std::vector<int32_t> ids;
    bool edited = false;  // fed while a hook could edit
  };

  Held& HeldOf(SequenceId sequence);
  SequenceId Hold(Held held);
  int64_t RoomOf(int64_t capacity) const;
  void LoadAndFill(const RunNeeds& needs);
  // Raises CloseFirstError where sequences are open that cannot be fed again.
  void CheckRefills(const RunNeeds& needs) const;
  bool Edits() const;  // a hook may edit now
  struct Hook {
    PythonPart part;
    const Probe* probe = nullptr;  // the engine's
  };

  void EndWhatWaits();
  // Called on the engine's thread; a percent each.
  void ShowProgress(const Progress& progress);
  py::object LogitsArray(const TensorView<const float, 2>& logits, bool copy);

  std::atomic<bool> stop_ = false;
  Turns turns_;
  PendingErrors pending_;
  py::object warning_;
  py::object progress_;
  std::function<void(const Progress&)> show_;
  std::pair<std::string, int64_t> shown_;  // phase and percent
  PythonParts parts_;
  std::map<int64_t, std::unique_ptr<Hook>> hooks_;
  int64_t last_hook_ = 0;
  RunNeeds least_;
  std::unique_ptr<Engine> engine_;
  std::optional<RunNeeds> loaded_;
  std::map<SequenceId, Held> held_;
  SequenceId next_number_ = 0;
  std::vector<SequenceId> to_close_;
  std::vector<std::shared_ptr<void>> to_end_;
  int n_views_ = 0;
  std::map<const void*, std::function<void()>> runs_;
  bool closing_ = false;
};

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_OPEN_ENGINE_H_
