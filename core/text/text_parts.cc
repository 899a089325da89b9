#include "core/text/text_parts.h"

#include <algorithm>
#include <cstdint>

namespace ng {
namespace {

bool BeginsWithSpace(std::string_view text) {
  return text.starts_with(' ') || text.starts_with(kShownSpace);
}
bool EndsWithSpace(std::string_view text) {
  return text.ends_with(' ') || text.ends_with(kShownSpace);
}

}  // namespace

bool SpansASpace(std::string_view token) {
  for (size_t at = 1; at < token.size(); ++at) {
    if (BeginsWithSpace(token.substr(at)) && !EndsWithSpace(token.substr(0, at))) return true;
  }
  return false;
}

size_t EndOfPart(std::string_view text, std::string_view space) {
  size_t at = std::min(kPartBytes, text.size());
  for (; at < text.size(); ++at) {
    at = text.find(space, at);
    if (at == text.npos) return text.size();
    if (!EndsWithSpace(text.substr(0, at))) return at;
  }
  return text.size();
}

size_t EndOfCharacter(std::string_view text, size_t at) {
  while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) ++at;
  return std::min(at, text.size());
}

}  // namespace ng
