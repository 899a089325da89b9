#include "apps/serve/http/target.h"

#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace ng::serve {
namespace {

std::optional<std::string> PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned char byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const char* const end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, byte, 16);
    if (digits.size() != 2 || read.ec != std::errc() || read.ptr != end) return std::nullopt;
    decoded += static_cast<char>(byte);
    i += 2;
  }
  return decoded;
}

}  // namespace

std::optional<Target> ParseTarget(std::string_view target) {
  Target parsed;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!absl::StartsWithIgnoreCase({target.data(), target.size()},
                                    {scheme.data(), scheme.size()})) {
      continue;
    }
    target.remove_prefix(scheme.size());
    const size_t end = target.find_first_of("/?");
    parsed.host = std::string(target.substr(0, end));
    target = end == target.npos ? "" : target.substr(end);
    if (!target.starts_with('/')) {
      parsed.path.assign(1, '/');  // GCC 12 warns of an assigned literal
      return parsed;
    }
    break;
  }
  std::optional<std::string> path = PercentDecoded(target.substr(0, target.find_first_of("?#")));
  if (!path) return std::nullopt;
  parsed.path = *std::move(path);
  return parsed;
}

}  // namespace ng::serve
