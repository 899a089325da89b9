// A pattern of the tokenizers library (Oniguruma's Ruby syntax over Unicode) as PCRE2 reads it.
// What the two read differently is translated, or refused by name. Thread: any.
#ifndef NG_CORE_TEXT_REGEX_PATTERN_H_
#define NG_CORE_TEXT_REGEX_PATTERN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "ng/status.h"

namespace ng {

struct PcrePattern {
  std::string text;
  // The same matches in the same order, but with all work in steps that PCRE2 counts. To it a
  // repeat of one character is a single step however long it is, and so is a possessive repeat of
  // a group; here the one goes by blocks, and the other is an atomic group.
  std::string counted;
  // The characters that the pattern names, each as often as finite counts repeat it: what may be
  // looked at between two steps.
  int64_t weight = 0;
};

// Errors: ModelFileError, without a file name: which part of it is not supported. That the pattern
// is well formed is left to PCRE2.
absl::StatusOr<PcrePattern> ReadPattern(std::string_view pattern);

}  // namespace ng

#endif  // NG_CORE_TEXT_REGEX_PATTERN_H_
