// Reads a text from its beginning to its end, for the front ends. The first error stays; behind it
// nothing more is read.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_TEXT_READER_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_TEXT_READER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "ng/status.h"

namespace ng::grammar {

class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  bool AtEnd() const { return at_ >= text_.size(); }
  size_t at() const { return at_; }
  std::string_view rest() const { return text_.substr(at_); }
  bool Sees(std::string_view start) const { return rest().starts_with(start); }
  bool SeesAny(std::string_view any) const { return !AtEnd() && any.find(text_[at_]) != any.npos; }
  bool Take(std::string_view start) {
    const bool there = Sees(start);
    if (there) at_ += start.size();
    return there;
  }
  void Skip(size_t n) { at_ += n; }
  // A whole character; U+FFFD with an error where the text is no UTF-8. REQUIRES: !AtEnd().
  uint32_t Character();
  // Of exactly `n` digits. Errors: where there are fewer.
  uint32_t Hex(int n);
  // Of decimal digits, at most 2^31. Errors: where there is none, or it is larger.
  int64_t Count();

  // Keeps the first error, "... at character N, near 'what follows'".
  void Fail(std::string_view what);
  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }

 private:
  std::string_view text_;
  size_t at_ = 0;
  absl::Status status_;
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_TEXT_READER_H_
