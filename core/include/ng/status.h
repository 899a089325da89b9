// Errors as values. Every function that can fail for a reason outside the program returns
// absl::Status or absl::StatusOr; nothing in ng throws across a public boundary, prints or aborts.
//
// The status code says who is at fault, and each code has one exit code (design: outer interface).
// A message is one line: it names the file, the thing, the value found and the value allowed.
#ifndef NG_STATUS_H_
#define NG_STATUS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#pragma GCC visibility push(default)
namespace ng {

// What a message quotes may hold anything: new lines and tabs become blanks, and control characters
// are shown: "^[". Done by the functions below, and for other statuses by whoever prints them.
std::string OneLine(std::string_view text);

absl::Status RuntimeError(std::string_view message);      // exit 1: anything not named below
absl::Status UsageError(std::string_view message);        // exit 2: command line, config, prompt
absl::Status ModelFileError(std::string_view message);    // exit 3: model, tokenizer, snapshot
absl::Status PluginError(std::string_view message);       // exit 4: plugin absent, broken, refusing
absl::Status LimitError(std::string_view message);        // exit 5: a cap or a memory limit
absl::Status NumericError(std::string_view message);      // exit 6: NaN or infinite logits
absl::Status OutputError(std::string_view message);       // exit 7: an output cannot be written
absl::Status DifferenceError(std::string_view message);   // exit 8: what was compared differs
absl::Status InterruptedError(std::string_view message);  // exit 130: stopped from outside

// No fault of anybody: this one cannot do it, nothing has changed, and the caller may know another
// way. Exit 1 where no caller does.
absl::Status UnsupportedError(std::string_view message);
bool IsUnsupported(const absl::Status& status);

// The documented exit code of a status; 0 for OK.
int ExitCode(const absl::Status& status);

// The same code with `prefix` put before the message.
absl::Status Annotate(const absl::Status& status, std::string_view prefix);

// The same error in a process that leaves it to another one to tell: several processes of one run
// (ng/fabric.h) end for the same reason, and the user reads it once. Programs print nothing of it.
absl::Status ToldElsewhere(absl::Status status);
bool IsToldElsewhere(const absl::Status& status);

}  // namespace ng
#pragma GCC visibility pop

#define NG_CONCAT_INNER_(a, b) a##b
#define NG_CONCAT_(a, b) NG_CONCAT_INNER_(a, b)

// Returns from the enclosing function when `expr` is not OK.
#define NG_RETURN_IF_ERROR(expr)             \
  do {                                       \
    ::absl::Status ng_status_ = (expr);      \
    if (!ng_status_.ok()) return ng_status_; \
  } while (false)

// Assigns the value of a StatusOr, or returns its status.
#define NG_ASSIGN_OR_RETURN(lhs, expr) \
  NG_ASSIGN_OR_RETURN_IMPL_(NG_CONCAT_(ng_statusor_, __LINE__), lhs, expr)
#define NG_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                              \
  if (!tmp.ok()) return tmp.status();             \
  lhs = *std::move(tmp)

#endif  // NG_STATUS_H_
