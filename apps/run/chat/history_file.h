// HistoryFile: what was typed in earlier chats, so that the arrow keys go back to it.
//
// An entry is a line of the file; a line end in an entry is written as \n, a backslash as \\.
// Several chats may add to one file at the same time.
#ifndef NG_APPS_RUN_CHAT_HISTORY_FILE_H_
#define NG_APPS_RUN_CHAT_HISTORY_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "ng/status.h"

namespace ng::run {

class HistoryFile {
 public:
  static constexpr size_t kMost = 1000;  // entries that are kept

  // NG_HISTORY, or ng/history in $XDG_STATE_HOME or ~/.local/state. Empty: none is kept.
  static std::string DefaultPath();

  // An empty path: every call does nothing.
  explicit HistoryFile(std::string path) : path_(std::move(path)) {}

  // The last entries, oldest first; none where there is no file. Shortens a file that has many
  // more. Errors: OutputError.
  absl::StatusOr<std::vector<std::string>> Load() const;
  // Only the user may read the file. Errors: OutputError.
  absl::Status Append(std::string_view entry) const;

 private:
  std::string path_;
};

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_HISTORY_FILE_H_
