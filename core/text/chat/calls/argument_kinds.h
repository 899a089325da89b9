// Kinds of arguments: what a format of calls can write, and what it cannot, is said in these words.
#ifndef NG_CORE_TEXT_CHAT_CALLS_ARGUMENT_KINDS_H_
#define NG_CORE_TEXT_CHAT_CALLS_ARGUMENT_KINDS_H_

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "core/text/chat/calls/call_format.h"

namespace ng::calls {

struct ArgumentKind {
  std::string_view words;
  std::string_view example;  // arguments as JSON text
  bool (*has)(const nlohmann::ordered_json& arguments);
};

std::span<const ArgumentKind> ArgumentKinds();

// What of a call's arguments the format cannot write, in words; empty: nothing.
std::string NotWritten(const CallFormat& format, const nlohmann::ordered_json& arguments);

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_ARGUMENT_KINDS_H_
