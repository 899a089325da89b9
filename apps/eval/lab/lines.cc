#include "apps/eval/lab/lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/common/input.h"

namespace ng::eval {
namespace {

// The first thing that differs between two runs, for an error: "config: cache.codec".
std::string DifferenceOf(const Json& was, const Json& is, const std::string& name) {
  if (!was.is_object() || !is.is_object()) {
    return absl::StrCat(name, " was ", was.dump(), " and is ", is.dump());
  }
  for (const auto& [key, value] : is.items()) {
    const std::string inner = name.empty() ? key : absl::StrCat(name, ".", key);
    if (!was.contains(key)) return absl::StrCat(inner, " was not given and is ", value.dump());
    if (was[key] != value) return DifferenceOf(was[key], value, inner);
  }
  for (const auto& [key, value] : was.items()) {
    if (is.contains(key)) continue;
    return absl::StrCat(name, ".", key, " was ", value.dump(), " and is not given");
  }
  return name;
}

// What is done; `n_bytes`: of the file's whole lines.
absl::StatusOr<std::vector<Json>> ReadLines(const std::string& path, const Json& run,
                                            size_t* n_bytes) {
  std::vector<Json> lines;
  if (!std::filesystem::exists(path)) return lines;
  NG_ASSIGN_OR_RETURN(const std::string content, ReadUserFile(path, nullptr));
  std::vector<std::string> texts = absl::StrSplit(content, '\n');
  *n_bytes = content.size() - texts.back().size();
  texts.pop_back();  // behind the last end of a line: empty, or a line that was cut
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string place = absl::StrCat(path, ":", i + 1, ": ");
    Json line = Json::parse(texts[i], nullptr, false);
    if (!line.is_object() || !line.contains("kind") || !line.contains("method") ||
        !line.contains("run")) {
      return UsageError(place + "is no line of a card; --resume goes on with what --lines wrote");
    }
    if (line["run"] != run) {
      return UsageError(
          absl::StrCat(place, "was run otherwise: ", DifferenceOf(line["run"], run, "")));
    }
    if (line["kind"] != "error") lines.push_back(std::move(line));
  }
  return lines;
}

absl::Status CannotWrite(const std::string& path) {
  return OutputError(absl::StrCat(path, ": ", std::strerror(errno)));
}

}  // namespace

std::string LineKey(const Json& line) {
  std::string key;
  for (const char* name : {"kind", "method", "task", "length", "depth"}) {
    if (!line.contains(name)) continue;
    const Json& value = std::string_view(name) == "method" ? line[name]["name"] : line[name];
    absl::StrAppend(&key, value.dump(), " ");
  }
  return key;
}

std::string LineText(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<LineFile> LineFile::Open(const std::string& path, bool resume, const Json& run) {
  LineFile file;
  file.path_ = path;
  size_t n_bytes = 0;
  if (resume) {
    NG_ASSIGN_OR_RETURN(file.lines_, ReadLines(path, run, &n_bytes));
  }
  constexpr mode_t kMode = 0666;
  const int begin = resume ? O_APPEND : O_TRUNC;
  file.fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | begin, kMode);
  if (file.fd_ < 0) return CannotWrite(path);
  if (resume && ftruncate(file.fd_, static_cast<off_t>(n_bytes)) != 0) return CannotWrite(path);
  return file;
}

LineFile::~LineFile() {
  if (fd_ >= 0) close(fd_);
}

LineFile::LineFile(LineFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      lines_(std::move(other.lines_)) {}

LineFile& LineFile::operator=(LineFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(lines_, other.lines_);
  return *this;
}

const Json* LineFile::Find(const std::string& key) const {
  const auto found =
      std::ranges::find_if(lines_, [&](const Json& line) { return LineKey(line) == key; });
  return found == lines_.end() ? nullptr : &*found;
}

absl::Status LineFile::Add(const Json& line) {
  lines_.push_back(line);
  return fd_ < 0 ? absl::OkStatus() : WriteAll(LineText(line));
}

absl::Status LineFile::WriteAll(const std::string& text) {
  std::span<const char> left = text;
  while (!left.empty()) {
    const ssize_t n = write(fd_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return CannotWrite(path_);
    left = left.subspan(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace ng::eval
