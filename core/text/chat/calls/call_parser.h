// CallParser: an answer, token by token, to content, thoughts and calls: one parser for every
// format. It decides nothing before what follows cannot change it, so it does not matter where the
// tokens cut the text.
//
// A call that has begun to come stays one. Where its arguments stop being what the format writes,
// the rest of it is added to them as it is: a client sees what the model wrote.
#ifndef NG_CORE_TEXT_CHAT_CALLS_CALL_PARSER_H_
#define NG_CORE_TEXT_CHAT_CALLS_CALL_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/chat/calls/call_format.h"
#include "core/text/chat/calls/call_head.h"
#include "core/text/chat/calls/delta_list.h"
#include "core/text/chat/calls/member_reader.h"
#include "core/text/chat/calls/tool_schemas.h"
#include "core/text/chat/calls/value_reader.h"
#include "ng/answer_reader.h"

namespace ng::calls {

class CallParser final : public AnswerReader {
 public:
  struct Begins {
    bool calls = true;    // calls are looked for
    bool thinks = false;  // the answer begins within thoughts
  };

  // `format` outlives it.
  CallParser(const CallFormat& format, ToolSchemas tools, Begins begins);

  void Push(int32_t id, std::string_view bytes) override;
  void Finish() override;
  bool is_plain() const override { return !reads_calls_ && format_.reasoning_begin.empty(); }
  std::vector<AnswerDelta> Take() override { return deltas_.Take(); }

 private:
  enum class Place {
    kContent,
    kReasoning,
    kArguments,
    kRest,    // of the object around a call
    kAfter,   // a call
    kBroken,  // within a call, up to its end
  };

  void Run();
  // Reads something at the front of what waits; false: what follows decides.
  bool Step();
  bool StepContent();
  bool StepReasoning();
  bool StepArguments();
  bool StepObject();
  bool StepQuoted();
  bool StepMembers();
  bool StepRest();
  bool StepAfter();
  bool StepBroken();

  // Whether a mark is at the front; if so, it is taken. kMore is kNo where the answer has ended.
  Found TakeMark(SymbolsView mark);
  // The same of the beginning of a call, up to its arguments.
  Found TakeCall(bool behind_a_call);
  void BeginCall(const CallHead& head);
  void EndArguments();
  // Takes a symbol, or all up to the next that may begin a mark, as text.
  void TakeText(AnswerDelta::Kind kind);
  void EmitText(AnswerDelta::Kind kind, std::string_view text);
  bool CallMayBegin() const;
  bool MayBeginMark(char32_t symbol) const;
  SymbolsView Waiting() const { return SymbolsView(waiting_).substr(begin_); }
  void Drop(size_t n) { begin_ += n; }

  const CallFormat& format_;
  const ToolSchemas tools_;
  const bool reads_calls_;
  Symbols waiting_;  // what is not read yet, behind begin_
  size_t begin_ = 0;
  bool ended_ = false;  // nothing follows
  Place place_;
  bool drops_blanks_ = false;  // blanks here belong to the mark before
  std::string blanks_;         // that belong to the text, if it goes on
  bool said_ = false;          // there was content
  int n_calls_ = 0;
  std::string tool_;  // of this call
  CallHead head_;     // likewise
  std::optional<ValueReader> value_;
  std::optional<MemberReader> members_;
  bool arguments_begun_ = false;  // something of them was read
  size_t n_call_ends_ = 0;        // parts of its end that were looked for
  size_t n_ends_ = 0;             // the same of the section's end
  DeltaList deltas_;
};

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_CALL_PARSER_H_
