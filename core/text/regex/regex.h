// A regular expression as the tokenizers library understands it (pattern.h), run by PCRE2.
//
// The searches of a text do a bounded amount of work: a pattern that needs more is an error. Nearly
// all searches end close to where they begin. They run without a count, over the next bytes alone;
// the others are counted in steps, each of which looks at a bounded part of the text.
// Thread: const methods may be called from any thread. No other folder knows PCRE2.
#ifndef NG_CORE_TEXT_REGEX_REGEX_H_
#define NG_CORE_TEXT_REGEX_REGEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ng/status.h"

namespace ng {

// What all searches of a text may take.
struct SearchSteps {
  int64_t most = 0;
  int64_t left = most;
};

class Regex {
 public:
  struct Code;
  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };

  // Errors: ModelFileError, without a file name: what is wrong with the pattern, or which part of
  // it is not supported.
  static absl::StatusOr<Regex> Compile(std::string_view pattern);

  // The first match at or after `from`. `text` before `from` is what the pattern can look back at.
  // Takes what it needs from `steps`, but nothing for a short search. Errors: UsageError when the
  // search needs more than is left, or more memory than its limits. REQUIRES: `text` is valid
  // UTF-8, `from` is where a character begins or the end.
  absl::StatusOr<std::optional<Match>> Find(std::string_view text, size_t from,
                                            SearchSteps& steps) const;

 private:
  Regex() = default;

  std::string pattern_;
  std::shared_ptr<const Code> code_;
};

}  // namespace ng

#endif  // NG_CORE_TEXT_REGEX_REGEX_H_
