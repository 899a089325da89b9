// Engine.generate and Engine.generate_steps: requests and options from Python, completions and
// steps to it.
#ifndef NG_APPS_PYTHON_GENERATE_H_
#define NG_APPS_PYTHON_GENERATE_H_

#include <pybind11/pybind11.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/token_text.h"
#include "apps/python/open_engine.h"
#include "apps/view/survival.h"
#include "ng/generation.h"
#include "ng/request.h"

namespace ng::python {

// A token that was chosen, for _ng.Step.
struct ChosenToken {
  int request = 0;
  StepRecord record;
  std::string text;                // that can be shown now; empty without a tokenizer
  std::vector<float> logits = {};  // [vocab_size], where they are asked for: those that chose it
};

// What a request is asked for: a dict of its own, and one of its run.
GenerateRequest RequestOf(const py::dict& from, const py::dict& options);
// What ng.Step and ng.Completion are made of. What was not asked for is None.
py::dict StepDict(const ChosenToken& step, const GenerateRequest& request,
                  const GenerateOptions& asked);
py::dict CompletionDict(const Engine& engine, const GenerateRequest& asked, const Completion& done);

// What a run is asked for, from the dicts that ng/engine.py makes: a dict for each request, and one
// for all of them. Steps that are made are put behind `steps`.
class Asked {
 public:
  Asked(OpenEngine& engine, const py::list& requests, const py::dict& options);
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  std::vector<GenerateRequest> requests;
  GenerateOptions options;
  std::deque<ChosenToken> steps;

  // Loads what the run needs beside the sequences that are open. Called once, before the run.
  // REQUIRES: a claim.
  void MakeRoom();
  // Tells the engine which tokens the requests' sequences hold by now.
  void KeepIds() const;
  py::dict Dict(const ChosenToken& step) const;
  // A dict for each completion.
  py::list Results(const std::vector<Completion>& done) const;

 private:
  void ReadLooks(const py::dict& from);
  void KeepStepLogits(const PointRows& rows);
  absl::Status Chosen(int index, const StepRecord& record);

  OpenEngine& engine_;
  bool keeps_steps_ = false;
  bool keeps_logits_ = false;  // of each step
  // The newest rows of logits of each request, by their positions.
  std::map<int, std::map<int64_t, std::vector<float>>> logits_;
  std::map<int, SequenceId> sequences_;  // those of requests, as Python calls them
  std::map<int, AnswerStream> texts_;
  std::map<int, view::Survival> survivals_;     // of requests of which tokens have left
  std::map<int, std::vector<int32_t>> chosen_;  // of requests with a sequence
};

// How many tokens the answer to a message may have, where nobody says it: run.max_new_tokens, or
// what fits. Where the model is loaded, that is what it was loaded for, if it is room enough.
int64_t AnswerTokens(OpenEngine& open, const Ids& prompt);

// All at once. Returns (completions, steps).
py::tuple Generate(OpenEngine& engine, const py::list& requests, const py::dict& options);

// One step at a time.
class SteppedRun {
 public:
  static std::shared_ptr<SteppedRun> Start(std::shared_ptr<OpenEngine> engine,
                                           const py::list& requests, const py::dict& options);
  ~SteppedRun();
  SteppedRun(const SteppedRun&) = delete;
  SteppedRun& operator=(const SteppedRun&) = delete;

  // The next token; None when all requests have ended. What it raises ends the run.
  py::object Next();
  // Ends what has not ended. Returns the completions, also when it is called again.
  py::object Finish();
  // Ends it as soon as possible, as Finish does. From any thread; does not wait.
  void Cancel();

 private:
  SteppedRun(std::shared_ptr<OpenEngine> engine, const py::list& requests, const py::dict& options);
  py::object NextOfClaim();  // None: there is none
  void End();
  // Ends it, and keeps the answers so far.
  void EndInError();

  const std::shared_ptr<OpenEngine> engine_;
  std::unique_ptr<Asked> asked_;
  std::shared_ptr<Generation> generation_;  // null: it has ended
  bool cancelled_ = false;
  bool steps_ = false;  // Next is within a step
  py::object results_ = py::none();
};

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_GENERATE_H_
