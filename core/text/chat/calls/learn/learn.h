// Learns how a template writes calls, from what it makes of conversations that are made up here.
#ifndef NG_CORE_TEXT_CHAT_CALLS_LEARN_LEARN_H_
#define NG_CORE_TEXT_CHAT_CALLS_LEARN_LEARN_H_

#include "core/text/chat/calls/call_format.h"
#include "core/text/chat/calls/learn/probes.h"
#include "ng/status.h"

namespace ng::calls {

struct Learned {
  CallFormat format;  // that of thoughts is there in any case
  // Whether calls can be read. An error says why not, behind a template's name.
  absl::Status calls;
};

// What the template shows, and what the table of known_formats.h knows of its family. What a parser
// reads of the probing calls is what they are, but for the kinds of arguments that are named in
// `cannot`.
Learned LearnFormat(const ProbedTemplate& probed);

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_LEARN_LEARN_H_
