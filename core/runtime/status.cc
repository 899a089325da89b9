#include "ng/status.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::Status RuntimeError(std::string_view message) { return absl::InternalError(View(message)); }
absl::Status UsageError(std::string_view message) {
  return absl::InvalidArgumentError(View(message));
}
absl::Status ModelFileError(std::string_view message) { return absl::DataLossError(View(message)); }
absl::Status PluginError(std::string_view message) {
  return absl::FailedPreconditionError(View(message));
}
absl::Status LimitError(std::string_view message) {
  return absl::ResourceExhaustedError(View(message));
}
absl::Status NumericError(std::string_view message) { return absl::OutOfRangeError(View(message)); }
absl::Status OutputError(std::string_view message) { return absl::UnavailableError(View(message)); }
absl::Status InterruptedError(std::string_view message) {
  return absl::CancelledError(View(message));
}

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return 2;
    case absl::StatusCode::kDataLoss:
      return 3;
    case absl::StatusCode::kFailedPrecondition:
      return 4;
    case absl::StatusCode::kResourceExhausted:
      return 5;
    case absl::StatusCode::kOutOfRange:
      return 6;
    case absl::StatusCode::kUnavailable:
      return 7;
    case absl::StatusCode::kCancelled:
      return 130;
    default:
      return 1;
  }
}

absl::Status Annotate(const absl::Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(View(prefix), status.message())};
}

}  // namespace ng
