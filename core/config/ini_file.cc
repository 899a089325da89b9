// INI text -> entries. Boost.Program_options splits each `key = value`. It would accept or reject
// sections, comments, quotes, control characters and repeated keys without saying where. So these
// are handled line by line before and after it, and every error has a file and a line.
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "core/base/file.h"
#include "core/config/config.h"
#include "core/config/text.h"

namespace ng {
namespace {

namespace po = boost::program_options;

constexpr int64_t kLargestFile = int64_t{4} << 20;

struct Assignment {
  std::string key;
  std::string value;
};

// REQUIRES: `statement` is one line without '#', which Boost would take for a comment.
absl::StatusOr<Assignment> ParseAssignment(std::string_view statement) {
  try {
    std::istringstream in{std::string(statement)};
    in.exceptions(std::ios::badbit);  // otherwise a failed allocation looks like the end
    const auto parsed = po::parse_config_file(in, po::options_description(),
                                              /*allow_unregistered=*/true);
    const po::option& option = parsed.options.at(0);
    return Assignment{option.string_key, option.value.at(0)};
  } catch (const po::error&) {
    return UsageError("'" + Shown(statement) + "', must be 'key = value' or '[section]'");
  }
}

// The line up to its comment.
absl::StatusOr<std::string_view> WithoutComment(std::string_view line) {
  const size_t hash = line.find('#');
  if (hash == std::string_view::npos) return line;
  if (hash > 0 && line[hash - 1] != ' ' && line[hash - 1] != '\t') {
    return UsageError("'#' in column " + std::to_string(hash + 1) +
                      ", must have a blank before it to begin a comment, or stand in a quoted "
                      "value: key = \"a # b\"");
  }
  return line.substr(0, hash);
}

// Where the value begins when it is quoted, else npos.
size_t OpeningQuote(std::string_view line) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos || line.find('#') < equals) return std::string_view::npos;
  const size_t begin = line.find_first_not_of(" \t", equals + 1);
  return begin != std::string_view::npos && line[begin] == '"' ? begin : std::string_view::npos;
}

// The value of a line from its opening quote on.
absl::StatusOr<std::string> Unquote(std::string_view quoted) {
  size_t end = 1;
  while (end < quoted.size() && quoted[end] != '"') end += quoted[end] == '\\' ? 2 : 1;
  if (end >= quoted.size()) {
    return UsageError(
        Cat("value ", Shown(quoted), ", must end with a quote (a quote within: \\\")"));
  }
  const std::string_view rest = Trim(quoted.substr(end + 1));
  if (!rest.empty() && rest.front() != '#') {
    return UsageError(
        Cat("'", Shown(rest), "' after a quoted value, must be a comment or nothing"));
  }
  const std::string shown = Shown(quoted.substr(0, end + 1));
  std::string value;
  std::string error;
  if (!absl::CUnescape({quoted.data() + 1, end - 1}, &value, &error)) {
    return UsageError(Cat("value ", shown, ": ", error, "; a backslash is written \\\\"));
  }
  if (value.find('\0') != std::string::npos) {
    return UsageError(Cat("value ", shown, ", must not hold a NUL byte"));
  }
  return value;
}

class IniParser {
 public:
  explicit IniParser(std::string file) : file_(std::move(file)) {}

  absl::StatusOr<std::vector<ConfigEntry>> Parse(std::string_view text) {
    while (!text.empty()) {
      ++line_;
      const size_t end = text.find('\n');
      std::string_view line = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      if (line.ends_with('\r')) line.remove_suffix(1);
      const absl::Status status = ParseLine(line);
      if (!status.ok()) return Annotate(status, Origin().ToString() + ": ");
    }
    return std::move(entries_);
  }

 private:
  absl::Status ParseLine(std::string_view line) {
    NG_RETURN_IF_ERROR(CheckBytes(line));
    if (const size_t quote = OpeningQuote(line); quote != std::string_view::npos) {
      // Boost keeps quotes and cuts at any '#', so it sees the key alone.
      NG_ASSIGN_OR_RETURN(std::string value, Unquote(line.substr(quote)));
      NG_ASSIGN_OR_RETURN(const Assignment assignment, ParseAssignment(line.substr(0, quote)));
      return Add(assignment.key, std::move(value));
    }
    NG_ASSIGN_OR_RETURN(line, WithoutComment(line));
    line = Trim(line);
    if (line.empty()) return absl::OkStatus();
    if (line.front() == ';') return UsageError("';' does not begin a comment; use '#'");
    if (line.front() == '[') return EnterSection(line);
    NG_ASSIGN_OR_RETURN(Assignment assignment, ParseAssignment(line));
    return Add(assignment.key, std::move(assignment.value));
  }

  absl::Status CheckBytes(std::string_view line) const {
    if (line_ == 1 && line.starts_with("\xEF\xBB\xBF")) {
      return UsageError("begins with a UTF-8 byte order mark (BOM); save the file without one");
    }
    for (size_t i = 0; i < line.size(); ++i) {
      const auto byte = static_cast<unsigned char>(line[i]);
      if ((byte < 0x20 && byte != '\t') || byte == 0x7F) {
        return UsageError("control character " + std::to_string(byte) + " in column " +
                          std::to_string(i + 1) + ", must be plain text" +
                          (byte == 0 ? " (a NUL byte; is this a binary or UTF-16 file?)" : ""));
      }
    }
    return absl::OkStatus();
  }

  absl::Status EnterSection(std::string_view header) {
    const size_t close = header.find(']');
    if (close != header.size() - 1) {
      return UsageError("section header '" + Shown(header) + "', must be '[section]'");
    }
    const std::string_view name = Trim(header.substr(1, close - 1));
    if (const auto fault = NameFault(name)) {
      return UsageError("section name " + Shown(name) + ", " + *fault);
    }
    section_ = name;
    return absl::OkStatus();
  }

  absl::Status Add(const std::string& name, std::string value) {
    if (const auto fault = NameFault(name)) return UsageError("key " + Shown(name) + ", " + *fault);
    if (section_.empty()) {
      return UsageError("key " + name + " outside a section, must stand below a '[section]' line");
    }
    std::string key = Cat(section_, ".", name);
    const auto [first, is_new] = line_of_.emplace(key, line_);
    if (!is_new) {
      return UsageError("key " + key + " is given twice, first on line " +
                        std::to_string(first->second));
    }
    entries_.push_back({std::move(key), std::move(value), Origin()});
    return absl::OkStatus();
  }

  ConfigOrigin Origin() const { return {ConfigOrigin::Kind::kFile, file_, line_}; }

  std::string file_;
  int line_ = 0;
  std::string section_;
  std::unordered_map<std::string, int> line_of_;
  std::vector<ConfigEntry> entries_;
};

}  // namespace

absl::StatusOr<std::vector<ConfigEntry>> ParseIni(std::string_view text, const std::string& file) {
  return IniParser(file).Parse(text);
}

absl::StatusOr<std::vector<ConfigEntry>> ReadIniFile(const std::string& path) {
  // It may not be a pipe, because paths in it are relative to its folder.
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kLargestFile);
  if (!text.ok()) {
    const absl::string_view why = text.status().message();
    return UsageError("config file " + std::string(why));
  }
  return ParseIni(*text, path);
}

}  // namespace ng
