// Statuses of the engine as Python exceptions. The GIL must be held.
#ifndef NG_APPS_PYTHON_ERRORS_H_
#define NG_APPS_PYTHON_ERRORS_H_

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/status.h"

namespace ng::python {

namespace py = pybind11;

// The exception of ng/_errors.py that a status stands for. REQUIRES: !status.ok().
py::object ErrorOf(const absl::Status& status);
// Throws it.
[[noreturn]] void Raise(const absl::Status& status);

// A UsageError that Python raises as this class of it (ng/_errors.py).
absl::Status UsageErrorAs(const char* kind, std::string_view message);

inline void Check(const absl::Status& status) {
  if (!status.ok()) Raise(status);
}
template <class T>
T Value(absl::StatusOr<T> value) {
  if (!value.ok()) Raise(value.status());
  return *std::move(value);
}

// The exceptions that Python code called by an engine has raised. The engine is given a status in
// the place of each, and the call from Python that it happened in raises it again, as it was.
class PendingErrors {
 public:
  // What the engine is told. `where`: the callable, "sampler stage 'x'".
  absl::Status Keep(py::error_already_set& error, const std::string& where);
  // Raises the first that is kept, if there is one, and forgets all.
  void Raise();
  // The exception in whose place the engine was given this status, or else what the status stands
  // for. REQUIRES: !status.ok().
  py::object ErrorFor(const absl::Status& status) const;
  void Clear() { kept_.clear(); }

 private:
  struct Kept {
    std::string message;
    py::object type, value, trace;
  };
  std::vector<Kept> kept_;
};

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_ERRORS_H_
