// A grammar of the calls that an answer may have, from the format of a template and the tools that
// a request declares: text for the stage `grammar` (plugins/sampler/grammar/gbnf.cc). And what the
// stage `thoughts` is told of thoughts.
#ifndef NG_CORE_TEXT_CHAT_CALLS_CALL_GRAMMAR_H_
#define NG_CORE_TEXT_CHAT_CALLS_CALL_GRAMMAR_H_

#include <nlohmann/json.hpp>
#include <string>

#include "core/text/chat/calls/call_format.h"
#include "ng/chat_template.h"
#include "ng/status.h"

namespace ng::calls {

// `thinks`: the answer begins within thoughts. Errors: UsageError that names the tool that cannot
// be called so.
absl::StatusOr<std::string> CallGrammar(const CallFormat& format,
                                        const nlohmann::ordered_json& tools,
                                        const CallChoice& choice, bool thinks);

// The thoughts that an answer has before a form of its own: items for sampler.grammar.before; empty
// where the format has no marks for them. `begun`: the prompt has begun them; else the model may.
std::string ThoughtsGrammar(const CallFormat& format, bool begun);

// The marks of thoughts for the stage `thoughts` (plugins/sampler/thoughts/thoughts.h), without the
// tokens that close them: what begins them, and what ends them, which a call does too.
nlohmann::ordered_json ThoughtMarks(const CallFormat& format);

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_CALL_GRAMMAR_H_
