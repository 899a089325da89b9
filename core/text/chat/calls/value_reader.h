// ValueReader: a value in a notation, as it comes, to JSON text.
//
// What is JSON already stays as it is, byte for byte, but for bytes in its texts that JSON does not
// allow there, which are escaped.
#ifndef NG_CORE_TEXT_CHAT_CALLS_VALUE_READER_H_
#define NG_CORE_TEXT_CHAT_CALLS_VALUE_READER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/chat/calls/call_format.h"

namespace ng::calls {

// Adds bytes to a text of JSON, between its quotes.
void AppendEscaped(std::string_view bytes, std::string* json);

// Thread: one at a time. What it was made with outlives it.
class ValueReader {
 public:
  enum class Kind { kAny, kArguments };  // kArguments: an object between the notation's brackets
  enum class State {
    kGoing,
    kDone,
    kBroken,  // what comes next is no value in this notation
  };

  ValueReader(const Notation& notation, const TokenTexts& tokens, Kind kind = Kind::kAny)
      : notation_(&notation), tokens_(&tokens), arguments_(kind == Kind::kArguments) {}

  // Reads as much as can be told, and returns how much that is. `last`: nothing follows `in`.
  size_t Read(SymbolsView in, bool last, std::string* json);
  State state() const { return state_; }

 private:
  enum class Expected { kValue, kFirstItem, kFirstKey, kKey, kColon, kComma, kText };

  // One thing; 0: what follows `in` decides.
  size_t Step(SymbolsView in, bool last, std::string* json);
  size_t StepValue(SymbolsView in, bool last, std::string* json);
  size_t StepKey(SymbolsView in, bool last, std::string* json);
  size_t StepComma(char32_t symbol, std::string* json);
  size_t StepText(SymbolsView in, bool last, std::string* json);
  size_t StepEscape(SymbolsView in, bool last, std::string* json);
  size_t StepWord(SymbolsView in, bool last, std::string* json);
  // The quotes that begin a text here: how long they are, 0 for none.
  size_t OpenText(SymbolsView in, bool last, std::string* json);
  size_t Open(bool object, std::string* json);
  size_t Close(std::string* json);
  void EndValue();
  size_t Break() {
    state_ = State::kBroken;
    return 0;
  }
  bool AtTop() const { return arguments_ && open_.size() == 1; }

  const Notation* notation_;
  const TokenTexts* tokens_;
  bool arguments_;
  State state_ = State::kGoing;
  Expected expected_ = Expected::kValue;
  std::vector<bool> open_;  // the containers around this place: true for an object
  Symbols quote_;           // that ends the text
  bool key_ = false;        // the text is a key
};

// A whole text as one value; nothing if it is none.
std::optional<std::string> ReadValue(std::string_view text, const Notation& notation);

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_VALUE_READER_H_
