// stdin, by the line or as a whole.
#ifndef NG_APPS_COMMON_STANDARD_INPUT_H_
#define NG_APPS_COMMON_STANDARD_INPUT_H_

#include <cstddef>
#include <optional>
#include <string>

#include "ng/status.h"

namespace ng {

// Reads the descriptor itself, because one cannot wait for a buffered stream. REQUIRES:
// WatchSignals has been called.
class StandardInput {
 public:
  // The next line without its end, which the last one may lack; nothing at the end of input.
  // Errors: RuntimeError; LimitError when the system has no memory for it; InterruptedError after a
  // signal.
  absl::StatusOr<std::optional<std::string>> NextLine();
  // All that is left. Errors: as above.
  absl::StatusOr<std::string> ReadAll();

 private:
  // Reads some more. False at the end of input.
  absl::StatusOr<bool> Fill();

  std::string buffer_;
  size_t begin_ = 0;  // of what has not been handed out
};

}  // namespace ng

#endif  // NG_APPS_COMMON_STANDARD_INPUT_H_
