// What filters and the methods of texts do with texts. Every byte of a result has its origin.
#ifndef NG_CORE_TEXT_JINJA_TEXT_FUNCTIONS_H_
#define NG_CORE_TEXT_JINJA_TEXT_FUNCTIONS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/text/jinja/run.h"
#include "core/text/jinja/text.h"

namespace ng::jinja {

// Text::Characters, counted. After a failure there are none.
std::vector<size_t> CharactersOf(Run& run, const Text& text);

enum class Letters {
  kLower,
  kUpper,
  kCapitalized,  // the first letter large, the others small
  kWords,        // each word so, as Jinja's filter title finds words
  kTitle,        // each word so, as Python's method title finds words
};
Text WithCase(const Text& text, Letters letters);

// The text as HTML shows it: "&amp;" for "&", and so for < > " and '. A safe text is that already.
Text Escaped(const Text& text);

// Replaces `old` at most `most` times; a negative number: everywhere.
Text ReplaceIn(Run& run, const Text& text, const Text& old, const Text& by, int64_t most);
// Adds `fill` until the text has `width` characters. Side: where the text stays.
Text Justify(Run& run, const Text& text, int64_t width, const Text& fill, Side stays);
// The lines of a text. `with_ends`: with their ends. `only_newlines`: only "\n" ends a line, and a
// text that ends with it has one more line, which is empty.
std::vector<Text> SplitLines(const Text& text, bool with_ends, bool only_newlines);
// Splits at spaces, or at `by` where it is not null; at most `most` times, from the right if asked.
std::vector<Text> Split(const Text& text, const Text* by, int64_t most, bool from_right);

// Numbers as Python's int(text, base) and float(text) read them.
bool ParseInteger(std::string_view text, int64_t base, int64_t* value);
bool ParseFloat(std::string_view text, double* value);

}  // namespace ng::jinja

#endif  // NG_CORE_TEXT_JINJA_TEXT_FUNCTIONS_H_
