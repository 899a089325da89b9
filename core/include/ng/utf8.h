// UTF-8: finds what is invalid, replaces it, cuts a stream only between characters, writes code
// points.
//
// Invalid bytes are replaced as Unicode recommends and browsers do: one U+FFFD for each maximal
// subpart. A maximal subpart is the longest run of bytes that could have begun a character.
#ifndef NG_UTF8_H_
#define NG_UTF8_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace ng {

// The offset of the first byte that is not part of a valid character, if there is one.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

// The longest prefix of at most `limit` bytes that does not end within a character.
std::string_view Utf8Prefix(std::string_view text, size_t limit);

// `text` with every maximal invalid subpart replaced by U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view text);

// Appends a code point that is no surrogate, as UTF-8.
void AppendUtf8(char32_t value, std::string* out);

// A token's bytes as a reader can tell them apart: a blank is U+2423, a line's end \n, a tab \t, a
// byte that is no UTF-8 <0xE2>. Nothing else is changed.
std::string VisibleText(std::string_view bytes);

// Holds back bytes that could be the beginning of a character, so that a stream is only ever cut
// between characters. Bytes that can no longer become valid come out as U+FFFD.
class Utf8Stream {
 public:
  // Appends the bytes to those that are held, and returns the characters that are complete.
  std::string Push(std::string_view bytes);
  // Ends the stream: returns what is held, with U+FFFD for an incomplete character.
  std::string Finish();

 private:
  std::string held_;  // an incomplete character: at most 3 bytes
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_UTF8_H_
