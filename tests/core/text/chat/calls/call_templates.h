// Small templates that write calls of tools as families of models do, and a tokenizer for them.
#ifndef NG_TESTS_CORE_TEXT_CHAT_CALLS_CALL_TEMPLATES_H_
#define NG_TESTS_CORE_TEXT_CHAT_CALLS_CALL_TEMPLATES_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/chat/template_metadata.h"
#include "ng/chat_template.h"
#include "ng/status.h"
#include "ng/tokenizer.h"

namespace ng::test {

struct CallTemplate {
  const char* name;
  const char* calls;               // the program that writes m.tool_calls
  std::vector<const char*> marks;  // its tokens, beside those around turns
  // Texts that have one of these cannot be written between the marks.
  std::vector<const char*> unwritable = {};
  bool several = true;
};

// One for each way of writing calls.
std::span<const CallTemplate> CallTemplates();
const CallTemplate& CallTemplateOf(std::string_view name);

// A tokenizer with a token for each byte and each mark, and the template bound to it.
struct BoundTemplate {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat;
};
// `marks_are_tokens`: else those of calls are spelled in bytes.
BoundTemplate Bind(const CallTemplate& call_template, bool marks_are_tokens = true);
// Of any template.
absl::StatusOr<BoundTemplate> BindProgram(const TemplateMetadata& program,
                                          std::span<const std::string> marks);

}  // namespace ng::test

#endif  // NG_TESTS_CORE_TEXT_CHAT_CALLS_CALL_TEMPLATES_H_
