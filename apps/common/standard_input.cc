#include "apps/common/standard_input.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/common/terminal.h"

namespace ng {

absl::StatusOr<bool> StandardInput::Fill() {
  constexpr size_t kPiece = size_t{1} << 16;
  buffer_.erase(0, std::exchange(begin_, 0));
  for (;;) {
    if (!WaitForInput(STDIN_FILENO)) return InterruptedError("interrupted");
    char bytes[kPiece];
    const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof(bytes));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0 && errno == ENOMEM) return LimitError("stdin: out of memory");
    if (n < 0) return RuntimeError(absl::StrCat("stdin: cannot read: ", std::strerror(errno)));
    buffer_.append(bytes, static_cast<size_t>(n));
    return n > 0;
  }
}

absl::StatusOr<std::optional<std::string>> StandardInput::NextLine() {
  size_t looked_at = 0;  // bytes that have no line end
  for (;;) {
    const size_t end = buffer_.find('\n', begin_ + looked_at);
    if (end != buffer_.npos) {
      std::string line = buffer_.substr(begin_, end - begin_);
      begin_ = end + 1;
      return line;
    }
    looked_at = buffer_.size() - begin_;
    NG_ASSIGN_OR_RETURN(const bool more, Fill());
    if (more) continue;
    if (looked_at == 0) return std::nullopt;
    return std::exchange(buffer_, {});
  }
}

absl::StatusOr<std::string> StandardInput::ReadAll() {
  for (bool more = true; more;) {
    NG_ASSIGN_OR_RETURN(more, Fill());
  }
  return std::exchange(buffer_, {});
}

}  // namespace ng
