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
#include "ng/generation.h"
#include "ng/request.h"

namespace ng::python {

// A token that was chosen, for _ng.Step.
struct ChosenToken {
  int request = 0;
  StepRecord record;
  std::string text;  // that can be shown now; empty without a tokenizer
};

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

  // Loads what the run needs beside the sequences that are open. REQUIRES: a claim.
  void MakeRoom();
  // Tells the engine which tokens the requests' sequences hold by now.
  void KeepIds() const;
  // A dict for each completion.
  py::list Results(const std::vector<Completion>& done) const;

 private:
  void ReadLooks(const py::dict& from);

  OpenEngine& engine_;
  bool keeps_steps_ = false;
  std::map<int, AnswerStream> texts_;
  std::map<int, std::vector<int32_t>> chosen_;  // of requests with a sequence
};

// How many tokens the answer to a message may have, where nobody says it: run.max_new_tokens, or
// what fits. Where the model is loaded, that is what it was loaded for, if it is room enough.
int64_t AnswerTokens(const OpenEngine& open, const Ids& prompt);

// All at once. Returns (completions, steps).
py::tuple Generate(OpenEngine& engine, const py::list& requests, const py::dict& options);

// One step at a time.
class SteppedRun {
 public:
  SteppedRun(std::shared_ptr<OpenEngine> engine, const py::list& requests, const py::dict& options);
  ~SteppedRun();
  SteppedRun(const SteppedRun&) = delete;
  SteppedRun& operator=(const SteppedRun&) = delete;

  // The next token; None when all requests have ended. What it raises ends the run.
  py::object Next();
  // Ends what has not ended. Returns the completions, also when it is called again.
  py::object Finish();

 private:
  void End();
  // Ends it, and keeps the answers so far.
  void EndInError();

  const std::shared_ptr<OpenEngine> engine_;
  std::unique_ptr<Asked> asked_;
  std::shared_ptr<Generation> generation_;  // null: it has ended
  py::object results_ = py::none();
};

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_GENERATE_H_
