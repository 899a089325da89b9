// CallFormat: how a model writes calls of tools, and its thoughts, as data.
//
// It is learned from the model's own chat template (learn.h); what no template can say is a table
// (known_formats.h). A parser (call_parser.h) reads answers by it. An answer is
//
//   [reasoning_begin thoughts reasoning_end] content
//   [section_begin  call_begin call call_end  (separator  call_begin call call_end)*  section_end]
//
// and a call is an object that has a name and arguments, or a head of several parts and arguments.
#ifndef NG_CORE_TEXT_CHAT_CALLS_CALL_FORMAT_H_
#define NG_CORE_TEXT_CHAT_CALLS_CALL_FORMAT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/text/chat/calls/symbols.h"

namespace ng::calls {

// How a value is written where it is not JSON.
struct Notation {
  Symbols quote = {};      // around texts, in which nothing is escaped; empty: none
  bool python = false;     // 'texts', True, False, None
  bool bare_keys = false;  // keys without quotes
  // Of the arguments themselves.
  char32_t open = '{';
  char32_t close = '}';
  char32_t colon = ':';

  bool is_json() const { return quote.empty() && !python && !bare_keys; }
};

// Arguments one by one, each value a text of its own: what is a text and what a number is for the
// tool's schema to say, or for what is written before the value.
struct Members {
  Symbols before = {};   // each key
  Symbols between = {};  // a key and its value
  // In place of `between` where the value is no text; empty: the same.
  std::vector<Symbols> between_others = {};
  Symbols after = {};  // each value
  Symbols separator = {};
  Symbols end = {};  // after all, where nothing is before a key
};

struct HeadPart {
  enum class Kind { kLiteral, kName, kId, kIndex };
  Kind kind = Kind::kLiteral;
  Symbols text = {};  // of a literal
};

struct CallFormat {
  enum class Arguments { kObject, kText, kMembers };

  Symbols section_begin = {};
  std::vector<Symbols> section_end = {};  // its parts in order; each may be missing
  Symbols call_begin = {};
  std::vector<Symbols> call_end = {};  // likewise
  bool ends_differ = false;            // a call has one part of call_end, mostly the first
  Symbols separator = {};

  // An object of JSON around each call, and the keys on the way to its parts. Empty: there is none,
  // and `heads` say what is before the arguments.
  std::vector<std::string> name_path = {};
  std::vector<std::string> arguments_path = {};
  bool name_is_key = false;                       // the object's only key is the name
  bool arguments_first = false;                   // and the name behind them
  std::vector<std::vector<HeadPart>> heads = {};  // any one of them
  bool head_is_id = false;                        // all before the arguments is the call's id

  Arguments arguments = Arguments::kObject;
  Notation notation = {};
  Members members = {};

  Symbols reasoning_begin = {};
  Symbols reasoning_end = {};
  std::vector<Symbols> skipped = {};  // marks that say nothing

  bool several = true;          // an answer may have more than one call
  bool text_before = true;      // content may come before a call
  bool arguments_text = false;  // the template takes arguments as JSON text, not as an object
  TokenTexts tokens = {};       // the marks that are tokens
  std::vector<std::string> cannot = {};  // kinds of arguments that the format cannot write

  bool has_envelope() const { return name_is_key || !name_path.empty(); }
  // Whether a call's beginning is told by a mark, and not by a declared name.
  bool is_marked() const;
};

// What was learned, for people: marks as texts.
nlohmann::ordered_json Described(const CallFormat& format);

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_CALL_FORMAT_H_
