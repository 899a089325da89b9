// Learns how a template writes arguments one by one.
#ifndef NG_CORE_TEXT_CHAT_CALLS_LEARN_LEARN_MEMBERS_H_
#define NG_CORE_TEXT_CHAT_CALLS_LEARN_LEARN_MEMBERS_H_

#include <optional>

#include "core/text/chat/calls/call_format.h"
#include "core/text/chat/calls/learn/probes.h"

namespace ng::calls {

// Nothing where it does not write them so.
std::optional<Members> LearnMembers(const Prober& prober);

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_LEARN_LEARN_MEMBERS_H_
