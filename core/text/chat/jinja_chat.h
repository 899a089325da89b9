// The one implementation of ChatTemplate: a program in the Jinja language, a tokenizer, and what
// the user has set for it. The model's own templates and the named ones are run alike.
#ifndef NG_CORE_TEXT_CHAT_JINJA_CHAT_H_
#define NG_CORE_TEXT_CHAT_JINJA_CHAT_H_

#include <memory>

#include "core/text/chat/template_metadata.h"
#include "ng/chat_template.h"
#include "ng/status.h"
#include "ng/tokenizer.h"

namespace ng {

// Chooses the template that the options name, and binds it to a tokenizer, which must outlive it.
// Returns null where there is none. Errors: those of OpenChatTemplate; about an option they begin
// with "chat template", "template.<name> =" or "date =".
absl::StatusOr<std::unique_ptr<ChatTemplate>> BindChatTemplate(TemplateMetadata found,
                                                               const Tokenizer& tokenizer,
                                                               const ChatOptions& options);

}  // namespace ng

#endif  // NG_CORE_TEXT_CHAT_JINJA_CHAT_H_
