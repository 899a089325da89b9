#include "apps/tokenize/standard_streams.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

absl::Status ReadFailure() {
  if (errno == ENOMEM) return LimitError("stdin: out of memory");
  return RuntimeError("stdin: cannot read: " + std::generic_category().message(errno));
}

}  // namespace

absl::StatusOr<std::string> ReadStdin() {
  std::string text;
  std::array<char, 1 << 16> chunk;
  while (const size_t n = std::fread(chunk.data(), 1, chunk.size(), stdin)) {
    text.append(chunk.data(), n);
  }
  if (std::ferror(stdin) != 0) return ReadFailure();
  return text;
}

LineReader::~LineReader() { std::free(line_); }

absl::StatusOr<std::optional<std::string>> LineReader::Next() {
  const ssize_t length = ::getline(&line_, &capacity_, stdin);
  if (length < 0) {
    if (std::feof(stdin) != 0) return std::nullopt;
    return ReadFailure();
  }
  std::string_view line(line_, static_cast<size_t>(length));
  if (line.ends_with('\n')) line.remove_suffix(1);
  return std::string(line);
}

absl::Status PrintLine(std::string_view line) {
  const bool written = std::fwrite(line.data(), 1, line.size(), stdout) == line.size() &&
                       std::fputc('\n', stdout) != EOF && std::fflush(stdout) == 0;
  if (written) return absl::OkStatus();
  if (errno == EPIPE) return OutputError("");
  return OutputError("stdout: cannot write: " + std::generic_category().message(errno));
}

}  // namespace ng
