#include "ng/status.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// What a message quotes may hold anything: a line break or a terminal's control character is
// written out, so that a message stays one line.
absl::Status OneLine(absl::StatusCode code, std::string_view message) {
  if (std::ranges::none_of(message, IsControl)) return {code, View(message)};
  std::string line;
  for (const char c : message) {
    if (c == '\n') {
      line += "\\n";
    } else if (IsControl(c)) {
      absl::StrAppend(&line, "\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    } else {
      line += c;
    }
  }
  return {code, line};
}

}  // namespace

absl::Status RuntimeError(std::string_view message) {
  return OneLine(absl::StatusCode::kInternal, message);
}
absl::Status UsageError(std::string_view message) {
  return OneLine(absl::StatusCode::kInvalidArgument, message);
}
absl::Status ModelFileError(std::string_view message) {
  return OneLine(absl::StatusCode::kDataLoss, message);
}
absl::Status PluginError(std::string_view message) {
  return OneLine(absl::StatusCode::kFailedPrecondition, message);
}
absl::Status LimitError(std::string_view message) {
  return OneLine(absl::StatusCode::kResourceExhausted, message);
}
absl::Status NumericError(std::string_view message) {
  return OneLine(absl::StatusCode::kOutOfRange, message);
}
absl::Status OutputError(std::string_view message) {
  return OneLine(absl::StatusCode::kUnavailable, message);
}
absl::Status InterruptedError(std::string_view message) {
  return OneLine(absl::StatusCode::kCancelled, message);
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
