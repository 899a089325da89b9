// Statuses of the engine as Python exceptions. The GIL must be held.
#ifndef NG_APPS_PYTHON_ERRORS_H_
#define NG_APPS_PYTHON_ERRORS_H_

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "ng/status.h"

namespace ng::python {

namespace py = pybind11;

// Throws the exception of ng/_errors.py that the status stands for. REQUIRES: !status.ok().
[[noreturn]] void Raise(const absl::Status& status);

inline void Check(const absl::Status& status) {
  if (!status.ok()) Raise(status);
}
template <class T>
T Value(absl::StatusOr<T> value) {
  if (!value.ok()) Raise(value.status());
  return *std::move(value);
}

// The first exception that Python code called by an engine has raised. The engine is given a status
// in its place, and the call from Python that it happened in raises it again, as it was.
class PendingError {
 public:
  // What the engine is told. `where`: the callable, "sampler stage 'x'".
  absl::Status Keep(py::error_already_set& error, const std::string& where);
  // Raises the one that is kept, if there is one, and forgets it.
  void Raise();

 private:
  py::object type_, value_, trace_;
};

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_ERRORS_H_
