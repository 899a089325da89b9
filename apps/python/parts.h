// Parts of a run that are written in Python: sampler stages, probes and a drafter. Each is a plugin
// that the program brings itself (EngineOptions::plugins), whose descriptor is made here.
//
// An option of the descriptor, `object`, says which Python object a part calls. Its value is
// another one in every process, so a cache snapshot of a run that Python code has edited fits no
// other run.
#ifndef NG_APPS_PYTHON_PARTS_H_
#define NG_APPS_PYTHON_PARTS_H_

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/python/errors.h"
#include "apps/python/turns.h"
#include "ng/plugins.h"
#include "ng/point.h"
#include "ng/probe.h"

namespace ng::python {

// A Python object as a plugin. Objects are touched with the GIL held only; the parts that the
// engine makes of it hold no reference, so they may be destroyed without it.
struct PythonPart {
  std::string kind;  // "sampler", "probe", "drafter"
  std::string name;
  std::string id;  // the value of the option
  py::object call;
  py::object accept;                 // of a stage: None, or told of each token
  py::object logits = py::none();    // of a stage: an array to use again
  py::object all_ids = py::none();   // likewise: the vocabulary's
  std::vector<std::string> points;   // of a probe: patterns
  bool edits = false;                // of a probe
  PendingErrors* pending = nullptr;  // of the engine
  Turns* turns = nullptr;            // likewise
  std::atomic<bool> off = false;     // of a hook: it is called no more
  std::atomic<bool> paused = false;  // of a hook: it is not called now
  OptionSpec option = {};
  PluginDescriptor descriptor = {};

  // For Report.
  std::atomic<int64_t> n_calls = 0;
  std::atomic<int64_t> nanoseconds = 0;

  std::string Title() const { return kind + " '" + name + "'"; }
};

// Takes what an ng.Stage, ng.Probe, ng.Drafter or ng.Hook says of itself.
void ReadPart(const py::handle& from, PendingErrors& pending, Turns& turns, PythonPart* part);

// A hook: a probe for Engine::AddProbe, which must not outlive the part. Errors: UsageError for a
// pattern that names none of the points.
absl::StatusOr<std::unique_ptr<Probe>> MakeHook(PythonPart& part,
                                                std::span<const PointShape> points);

// The parts of an engine, which must not outlive them.
class PythonParts {
 public:
  // `parts`: a list of ng.Stage, ng.Probe and ng.Drafter. Exceptions are kept in `pending`; what is
  // called is within the engine's turn.
  PythonParts(const py::list& parts, PendingErrors& pending, Turns& turns);
  ~PythonParts();
  PythonParts(const PythonParts&) = delete;
  PythonParts& operator=(const PythonParts&) = delete;

  std::vector<LoadedPlugin> plugins() const;  // for EngineOptions
  // The names of a kind, in their order.
  std::vector<std::string> NamesOf(std::string_view kind) const;
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;
  void Clear();

 private:
  std::vector<std::unique_ptr<PythonPart>> parts_;
};

// Makes known to Python what an ng.Candidates is made of.
void AddParts(py::module_& m);

// The rows of a point as an ng.Rows: a copy of the values. The GIL must be held.
py::object RowsObject(const PointRows& rows);

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_PARTS_H_
