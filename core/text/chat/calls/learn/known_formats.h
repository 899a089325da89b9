// What is known of families whose templates cannot say how they write calls and thoughts.
#ifndef NG_CORE_TEXT_CHAT_CALLS_LEARN_KNOWN_FORMATS_H_
#define NG_CORE_TEXT_CHAT_CALLS_LEARN_KNOWN_FORMATS_H_

#include <optional>
#include <utility>

#include "core/text/chat/calls/call_format.h"
#include "core/text/chat/calls/learn/probes.h"

namespace ng::calls {

// By the marks in a template's program, or of its tokenizer. Nothing: it is of no such family.
std::optional<CallFormat> KnownFormat(const ProbedTemplate& probed);
// The marks around thoughts; empty: none are known.
std::pair<Symbols, Symbols> KnownThoughts(const ProbedTemplate& probed);

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_LEARN_KNOWN_FORMATS_H_
