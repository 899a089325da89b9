#include "ng/status.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"

namespace ng {
namespace {

absl::Status Make(absl::StatusCode code, std::string_view message) {
  return {code, OneLine(message)};
}

}  // namespace

std::string OneLine(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7F'; }, ' ');
  return line;
}

absl::Status RuntimeError(std::string_view message) {
  return Make(absl::StatusCode::kInternal, message);
}
absl::Status UsageError(std::string_view message) {
  return Make(absl::StatusCode::kInvalidArgument, message);
}
absl::Status ModelFileError(std::string_view message) {
  return Make(absl::StatusCode::kDataLoss, message);
}
absl::Status PluginError(std::string_view message) {
  return Make(absl::StatusCode::kFailedPrecondition, message);
}
absl::Status LimitError(std::string_view message) {
  return Make(absl::StatusCode::kResourceExhausted, message);
}
absl::Status NumericError(std::string_view message) {
  return Make(absl::StatusCode::kOutOfRange, message);
}
absl::Status OutputError(std::string_view message) {
  return Make(absl::StatusCode::kUnavailable, message);
}
absl::Status DifferenceError(std::string_view message) {
  return Make(absl::StatusCode::kAborted, message);
}
absl::Status InterruptedError(std::string_view message) {
  return Make(absl::StatusCode::kCancelled, message);
}
absl::Status UnsupportedError(std::string_view message) {
  return Make(absl::StatusCode::kUnimplemented, message);
}
bool IsUnsupported(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnimplemented;
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
    case absl::StatusCode::kAborted:
      return 8;
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
