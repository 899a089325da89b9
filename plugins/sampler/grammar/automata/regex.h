// Regular expressions of ECMAScript over code points, as far as they are regular: . [...] [^...]
// \d \D \w \W \s \S \n \r \t \v \f \0 \cX \xHH \uHHHH \u{H...}, any sign behind a backslash as
// itself, ( | ), (?: ), (?<name> ), * + ? {m} {m,} {m,n} and their lazy forms, ^ and $. What looks
// around or back (\b, (?=, \1) and \p are refused.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_REGEX_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_REGEX_H_

#include <string_view>

#include "plugins/sampler/grammar/automata/net.h"

namespace ng::grammar {

// Adds the pattern to a net; ^ and $ become edges kBegin and kEnd. Errors: UsageError with the
// position in the pattern. (A net that becomes too large says so itself.)
absl::StatusOr<Part> AddRegex(std::string_view pattern, Net& net);

// Adds the texts that match as a whole or, `anywhere`, in which a match is found, without edges
// kBegin and kEnd. REQUIRES: the net is empty.
absl::StatusOr<Part> AddTexts(std::string_view pattern, bool anywhere, Net& net);

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_REGEX_H_
