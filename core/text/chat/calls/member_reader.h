// MemberReader: arguments that are written one by one, as they come, to the JSON text of an object.
#ifndef NG_CORE_TEXT_CHAT_CALLS_MEMBER_READER_H_
#define NG_CORE_TEXT_CHAT_CALLS_MEMBER_READER_H_

#include <cstddef>
#include <string>

#include "core/text/chat/calls/call_format.h"
#include "core/text/chat/calls/tool_schemas.h"

namespace ng::calls {

// Thread: one at a time. What it was made with outlives it.
class MemberReader {
 public:
  enum class State { kGoing, kDone, kBroken };

  MemberReader(const CallFormat& format, const ToolSchemas& tools, const std::string& tool)
      : members_(&format.members), format_(&format), tools_(&tools), tool_(&tool) {}

  // Reads as much as can be told, and returns how much that is. `last`: nothing follows `in`.
  size_t Read(SymbolsView in, bool last, std::string* json);
  // Nothing follows: what is left, `in`, is added as it is.
  void Finish(SymbolsView in, std::string* json);
  State state() const { return state_; }

 private:
  enum class Place { kKey, kValue };

  size_t Step(SymbolsView in, bool last, std::string* json);
  size_t StepKey(SymbolsView in, bool last, std::string* json);
  size_t End(size_t n, std::string* json);
  size_t StepValue(SymbolsView in, std::string* json);
  // Whether the mark behind a value is at `*at`, with the blanks before it; `*at` moves behind it.
  Found FindAfter(SymbolsView in, size_t* at) const;

  const Members* members_;
  const CallFormat* format_;
  const ToolSchemas* tools_;
  const std::string* tool_;
  State state_ = State::kGoing;
  Place place_ = Place::kKey;
  bool begun_ = false;    // the object is open
  bool first_ = true;     // no argument yet
  bool begins_ = false;   // nothing of the value was read
  bool is_text_ = false;  // the value is a text for sure, and is given as it comes
  unsigned types_ = kAnyType;
  std::string value_;  // of another value, what was read
};

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_MEMBER_READER_H_
