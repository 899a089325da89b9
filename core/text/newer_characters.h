// Characters that Unicode got in its versions 15 and 16, for libraries whose tables are older:
// which tables a machine has must not show in the ids of a text. Thread: any.
#ifndef NG_CORE_TEXT_NEWER_CHARACTERS_H_
#define NG_CORE_TEXT_NEWER_CHARACTERS_H_

#include <optional>
#include <string>
#include <string_view>

namespace ng {

// For such a character: one of Unicode 14 or before with the same general category, and with as
// many bytes in UTF-8. That of an ideograph is an ideograph.
char32_t OlderTwin(char32_t value);

// The lower case of such a character; any other as it is.
char32_t NewerLower(char32_t value);

// The text with each such character replaced by its twin; nothing if it has none. Places in one are
// places in the other. REQUIRES: valid UTF-8.
std::optional<std::string> WithOlderTwins(std::string_view text);

}  // namespace ng

#endif  // NG_CORE_TEXT_NEWER_CHARACTERS_H_
