#include "apps/python/errors.h"

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ng::python {

namespace {

constexpr const char* kKindUrl = "ng.python/kind";

}  // namespace

absl::Status UsageErrorAs(const char* kind, std::string_view message) {
  absl::Status status = UsageError(message);
  status.SetPayload(kKindUrl, absl::Cord(kind));
  return status;
}

py::object ErrorOf(const absl::Status& status) {
  const py::object make = py::module_::import("ng._errors").attr("of_exit_code");
  const std::string message(status.message());
  const std::string kind(status.GetPayload(kKindUrl).value_or(absl::Cord()));
  return make(ExitCode(status), IsUnsupported(status), message, kind);
}

void Raise(const absl::Status& status) {
  const py::object error = ErrorOf(status);
  PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
  throw py::error_already_set();
}

absl::Status PendingErrors::Keep(py::error_already_set& error, const std::string& where) {
  constexpr size_t kMost = 64;  // of a run in which everything goes wrong
  std::string message = absl::StrCat(where, " raised ", OneLine(error.what()));
  if (kept_.size() < kMost) {
    kept_.push_back({message, error.type(), error.value(), error.trace()});
  }
  return RuntimeError(message);
}

void PendingErrors::Raise() {
  if (kept_.empty()) return;
  Kept first = std::move(kept_.front());
  kept_.clear();
  PyErr_Restore(first.type.release().ptr(), first.value.release().ptr(),
                first.trace.release().ptr());
  throw py::error_already_set();
}

py::object PendingErrors::ErrorFor(const absl::Status& status) const {
  for (const Kept& kept : kept_) {
    if (absl::StrContains(status.message(), kept.message)) return kept.value;
  }
  return ErrorOf(status);
}

}  // namespace ng::python
