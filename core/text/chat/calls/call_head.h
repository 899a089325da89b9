// The beginning of a call, up to its arguments.
#ifndef NG_CORE_TEXT_CHAT_CALLS_CALL_HEAD_H_
#define NG_CORE_TEXT_CHAT_CALLS_CALL_HEAD_H_

#include <cstddef>
#include <string>

#include "core/text/chat/calls/call_format.h"

namespace ng::calls {

struct CallHead {
  std::string name = {};
  std::string id = {};
  size_t depth = 0;           // objects that are open before the arguments
  bool has_arguments = true;  // they come next; if not, `arguments` are all of them
  std::string arguments = {};
};

// Reads a head at `*at` of `in`, which moves behind it.
Found FindHead(SymbolsView in, const CallFormat& format, size_t* at, CallHead* head);

// What is left of the objects around the arguments: other members, and the ends.
Found FindRest(SymbolsView in, const CallFormat& format, size_t depth, size_t* at);

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_CALL_HEAD_H_
