// Runs code of others in a process of its own: what it does wrong there ends that process and not
// this one.
#ifndef NG_APPS_COMMON_APART_H_
#define NG_APPS_COMMON_APART_H_

#include <atomic>
#include <chrono>
#include <string>

#include "absl/functional/function_ref.h"
#include "ng/status.h"

namespace ng {

struct ApartResult {
  bool returned = false;
  // What the work returned. If it did not return: "throws: boom", "takes more than 3 s", "ends the
  // process: Segmentation fault", "ends the process with exit code 7".
  std::string text;
};

struct ApartOptions {
  std::chrono::milliseconds patience = std::chrono::seconds(3);
  bool show_stderr = false;  // all else that the work prints is dropped
};

// Calls `work` in a child process and waits for what it returns, which must hold no '\0'.
// Exceptions that leave it, or that nobody can catch, are told apart from other ends. A process
// that is not ready in time is killed. Errors: LimitError when no process can be made;
// InterruptedError once `stop` is set.
absl::StatusOr<ApartResult> RunApart(absl::FunctionRef<std::string()> work,
                                     const ApartOptions& options, const std::atomic<bool>& stop);

}  // namespace ng

#endif  // NG_APPS_COMMON_APART_H_
