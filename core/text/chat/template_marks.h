// The marks of a chat template: the tokens that it writes around what people say. In what people
// say they are text, whatever the tokenizer's files call them, so that nobody forges a turn.
#ifndef NG_CORE_TEXT_CHAT_TEMPLATE_MARKS_H_
#define NG_CORE_TEXT_CHAT_TEMPLATE_MARKS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/text/added_tokens.h"
#include "core/text/jinja/text.h"
#include "ng/tokenizer.h"

namespace ng {

// Thread: const methods may be called from any thread.
class TemplateMarks {
 public:
  TemplateMarks() = default;
  explicit TemplateMarks(const Tokenizer& tokenizer);

  // Adds the tokens that stand in a template's program, so that it may write them.
  void AddOfProgram(std::string_view program);
  // Adds the tokens that a template wrote in a text.
  void AddOfText(const jinja::Text& text);

  // Those that were added and those of this text. Ascending.
  std::vector<int32_t> With(const jinja::Text& text) const;
  // The text in parts, the tokens that the template wrote in it and what is between them.
  std::vector<TextFragment> PartsOf(const jinja::Text& text) const;
  // Whether a token was added, or is special.
  bool Has(int32_t id) const;
  // A token that is found whole, by its text, a mark or not.
  std::optional<int32_t> Find(std::string_view literal) const;
  // The text of a token that is found whole.
  std::string_view TextOf(int32_t id) const;

 private:
  std::vector<WholeToken> whole_;
  std::vector<int32_t> special_;  // ascending
  AddedTokens candidates_;
  std::vector<int32_t> marks_;  // ascending
};

}  // namespace ng

#endif  // NG_CORE_TEXT_CHAT_TEMPLATE_MARKS_H_
