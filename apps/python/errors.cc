#include "apps/python/errors.h"

#include "absl/strings/str_cat.h"

namespace ng::python {

void Raise(const absl::Status& status) {
  const py::object make = py::module_::import("ng._errors").attr("of_exit_code");
  const std::string message(status.message());
  const py::object error = make(ExitCode(status), IsUnsupported(status), message);
  PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
  throw py::error_already_set();
}

absl::Status PendingError::Keep(py::error_already_set& error, const std::string& where) {
  std::string what = OneLine(error.what());
  if (!value_) {
    type_ = error.type();
    value_ = error.value();
    trace_ = error.trace();
  }
  return RuntimeError(absl::StrCat(where, " raised ", what));
}

void PendingError::Raise() {
  if (!value_) return;
  PyErr_Restore(type_.release().ptr(), value_.release().ptr(), trace_.release().ptr());
  throw py::error_already_set();
}

}  // namespace ng::python
