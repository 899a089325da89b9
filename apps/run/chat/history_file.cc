#include "apps/run/chat/history_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ng/files.h"
#include "ng/utf8.h"

namespace ng::run {
namespace {

constexpr int64_t kMostBytes = int64_t{16} << 20;

std::string Escaped(std::string_view entry) {
  std::string line;
  for (const char c : entry) {
    if (c == '\\') {
      line += "\\\\";
    } else if (c == '\n') {
      line += "\\n";
    } else {
      line += c;
    }
  }
  return line;
}

std::string Unescaped(absl::string_view line) {
  std::string entry;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool escape = line[i] == '\\' && i + 1 < line.size();
    if (escape) ++i;
    entry += escape && line[i] == 'n' ? '\n' : line[i];
  }
  return entry;
}

std::string Folder(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr || *value != '/' ? "" : value;  // only absolute ones count
}

absl::Status WriteTo(const std::string& path, int flags, const std::string& text) {
  const auto failed = [&] {
    return OutputError(absl::StrCat(path, ": cannot write: ", std::strerror(errno)));
  };
  // Not a terminal's or a pipe's writer that could wait.
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | flags, 0600);
  if (fd < 0) return failed();
  // One write, so that entries of several chats do not mix.
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  absl::Status status = written ? absl::OkStatus() : failed();
  close(fd);
  return status;
}

}  // namespace

std::string HistoryFile::DefaultPath() {
  const char* const chosen = std::getenv("NG_HISTORY");
  if (chosen != nullptr) return chosen;
  const std::string state = Folder("XDG_STATE_HOME");
  if (!state.empty()) return state + "/ng/history";
  const std::string home = Folder("HOME");
  return home.empty() ? "" : home + "/.local/state/ng/history";
}

absl::StatusOr<std::vector<std::string>> HistoryFile::Load() const {
  std::vector<std::string> entries;
  std::error_code ignored;
  if (path_.empty() || !std::filesystem::exists(path_, ignored)) return entries;
  const absl::StatusOr<std::string> text = ReadText(path_, kMostBytes, nullptr);
  if (!text.ok()) return OutputError(text.status().message().data());
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    entries.push_back(ReplaceInvalidUtf8(Unescaped(line)));
  }
  if (entries.size() <= kMost) return entries;
  const bool many = entries.size() > 2 * kMost;
  entries.erase(entries.begin(), entries.end() - kMost);
  if (!many) return entries;
  std::string lines;
  for (const std::string& entry : entries) lines += Escaped(entry) + "\n";
  NG_RETURN_IF_ERROR(WriteTo(path_, O_TRUNC, lines));
  return entries;
}

absl::Status HistoryFile::Append(std::string_view entry) const {
  if (path_.empty()) return absl::OkStatus();
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) {
    return OutputError(
        absl::StrCat(folder.string(), ": cannot make the folder: ", error.message()));
  }
  return WriteTo(path_, O_APPEND, Escaped(entry) + "\n");
}

}  // namespace ng::run
