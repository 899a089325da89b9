// A regular expression as the tokenizers library understands it (Oniguruma's Ruby syntax over
// Unicode), run by PCRE2. What the two read differently is translated, or refused by name.
//
// The searches of a text do a bounded amount of work: a pattern that needs more is an error.
// Thread: const methods may be called from any thread. No other file knows PCRE2.
#ifndef NG_CORE_TEXT_REGEX_H_
#define NG_CORE_TEXT_REGEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ng/status.h"

namespace ng {

class Regex {
 public:
  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };

  // Errors: ModelFileError, without a file name: what is wrong with the pattern, or which part of
  // it is not supported.
  static absl::StatusOr<Regex> Compile(std::string_view pattern);

  // The first match at or after `from`. `text` before `from` is what the pattern can look back at.
  // Takes what it needs from `steps_left`, but little for a short search. Errors: UsageError when
  // the search needs more than that, or more memory than its limits. REQUIRES: `text` is valid
  // UTF-8, `from` is where a character begins or the end.
  absl::StatusOr<std::optional<Match>> Find(std::string_view text, size_t from,
                                            int64_t& steps_left) const;

 private:
  Regex() = default;

  std::string pattern_;
  std::shared_ptr<const void> code_;
};

}  // namespace ng

#endif  // NG_CORE_TEXT_REGEX_H_
