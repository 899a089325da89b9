// What arguments a format can write: calls that a template writes are read back by its parser.
#ifndef NG_CORE_TEXT_CHAT_CALLS_LEARN_CHECK_FORMAT_H_
#define NG_CORE_TEXT_CHAT_CALLS_LEARN_CHECK_FORMAT_H_

#include <string>
#include <vector>

#include "core/text/chat/calls/call_format.h"
#include "core/text/chat/calls/learn/probes.h"

namespace ng::calls {

// The kinds of arguments that do not come back as they were, in words.
std::vector<std::string> CannotWrite(const CallFormat& format, const Prober& prober);

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_LEARN_CHECK_FORMAT_H_
