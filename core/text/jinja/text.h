// A text of which every byte knows where it is from.
//
// A chat template puts its own text around what people say. Only the template may write special
// tokens, so each byte says whether the template wrote it or somebody else. Slices, joins and
// filters keep what the bytes say.
//
// A text may also be safe for HTML, which Python calls Markup: the filters `safe` and `escape` make
// it so, and a text that is not is escaped when it is added to one that is.
//
// Thread: values without locks; const methods may be called from any thread.
#ifndef NG_CORE_TEXT_JINJA_TEXT_H_
#define NG_CORE_TEXT_JINJA_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/unicode.h"

namespace ng::jinja {

enum class Origin : char {
  kData = 0,  // the messages, and all else that is given to a template
  kTemplate = 1,
};

// The origin of what is made of two things.
inline Origin Both(Origin a, Origin b) { return a == Origin::kData ? a : b; }

class Text {
 public:
  Text() = default;
  Text(std::string_view bytes, Origin origin) { Append(bytes, origin); }

  void Append(std::string_view bytes, Origin origin) {
    bytes_ += bytes;
    origins_.append(bytes.size(), static_cast<char>(origin));
  }
  void Append(const Text& other) {
    bytes_ += other.bytes_;
    origins_ += other.origins_;
  }
  // Adds a part of another text.
  void Append(const Text& other, size_t begin, size_t n) {
    bytes_.append(other.bytes_, begin, n);
    origins_.append(other.origins_, begin, n);
  }
  // Adds another text, in which `escape_of` says what stands for a character; empty: itself.
  template <typename EscapeOf>
  void AppendEscaped(const Text& other, EscapeOf escape_of);
  Text Slice(size_t begin, size_t n = std::string_view::npos) const;
  void Reserve(size_t n) {
    bytes_.reserve(n);
    origins_.reserve(n);
  }

  const std::string& bytes() const { return bytes_; }
  // One character for each byte: an Origin.
  const std::string& origins() const { return origins_; }
  Origin OriginAt(size_t i) const { return static_cast<Origin>(origins_[i]); }
  // Of the whole: kData if any byte is.
  Origin origin() const;
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // Of the whole. A slice of a safe text is one, what Append makes is what it was.
  bool safe() const { return safe_; }
  void set_safe(bool safe) { safe_ = safe; }

  // Where each character begins, and at the end the size. REQUIRES: valid UTF-8.
  std::vector<size_t> Characters() const;

 private:
  std::string bytes_;
  std::string origins_;
  bool safe_ = false;
};

template <typename EscapeOf>
void Text::AppendEscaped(const Text& other, EscapeOf escape_of) {
  const std::string_view all = other.bytes_;
  size_t done = 0;
  for (size_t i = 0; i < all.size();) {
    const CodePoint c = FirstCodePoint(all.substr(i));
    if (const std::string escape = escape_of(c.value); !escape.empty()) {
      Append(other, done, i - done);
      Append(escape, other.OriginAt(i));
      done = i + c.length;
    }
    i += c.length;
  }
  Append(other, done, all.size() - done);
}

// How many characters a text has. REQUIRES: valid UTF-8.
size_t CountCharacters(std::string_view text);

// What Python calls a space: Unicode's, and four control characters.
bool IsPythonSpace(char32_t c);

// The text between `begin` and `end`, which Strip finds.
struct Extent {
  size_t begin = 0;
  size_t end = 0;
};

enum class Side { kBoth, kLeft, kRight };
// What is left without the characters of `chars` at the ends; without spaces where it is null.
Extent Strip(std::string_view text, Side side, const std::string* chars = nullptr);

}  // namespace ng::jinja

#endif  // NG_CORE_TEXT_JINJA_TEXT_H_
