#include "ng/status.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "ng/exit_codes.h"

namespace ng {
namespace {

using enum absl::StatusCode;

// A status that is not here is a failure while running.
constexpr ExitMeaning kExitMeanings[] = {
    {0, kOk, "done"},
    {1, kInternal, "a failure while running; of ng-conform: a check failed"},
    {2, kInvalidArgument, "usage, config or prompt"},
    {3, kDataLoss, "model, tokenizer, snapshot or record file"},
    {4, kFailedPrecondition,
     "plugin: absent, broken or refusing; or a combination that cannot run"},
    {5, kResourceExhausted, "a cap or a memory limit"},
    {6, kOutOfRange, "a numeric fault: NaN or infinite logits"},
    {7, kUnavailable, "an output that could not be written"},
    {8, kAborted, "what was compared or replayed differs"},
    {130, kCancelled, "stopped by Ctrl-C; by SIGHUP 129, SIGQUIT 131, SIGTERM 143"},
};

constexpr char kToldElsewhere[] = "ng/told-elsewhere";

absl::Status Make(absl::StatusCode code, std::string_view message) {
  return {code, OneLine(message)};
}

}  // namespace

std::string OneLine(std::string_view text) {
  constexpr unsigned char kDelete = 0x7F;
  std::string line;
  line.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= '\t' && byte <= '\r') {
      line += ' ';
    } else if (byte < ' ' || byte == kDelete) {
      line += '^';
      line += static_cast<char>(byte ^ 0x40U);
    } else {
      line += c;
    }
  }
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

std::span<const ExitMeaning> ExitMeanings() { return kExitMeanings; }

int ExitCode(const absl::Status& status) {
  const auto* const exit = std::ranges::find(kExitMeanings, status.code(), &ExitMeaning::status);
  return exit == std::end(kExitMeanings) ? 1 : exit->code;
}

absl::Status Annotate(const absl::Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(View(prefix), status.message()));
  return IsToldElsewhere(status) ? ToldElsewhere(std::move(annotated)) : annotated;
}

absl::Status ToldElsewhere(absl::Status status) {
  if (!status.ok()) status.SetPayload(kToldElsewhere, absl::Cord());
  return status;
}

bool IsToldElsewhere(const absl::Status& status) {
  return status.GetPayload(kToldElsewhere).has_value();
}

}  // namespace ng
