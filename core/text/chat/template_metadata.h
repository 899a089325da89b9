// The chat template that a model brings with it: a Jinja program in its metadata.
//
// The program is not run. It is recognised when it is, byte for byte, one of the published programs
// for which ng has a named template that writes the same conversations.
#ifndef NG_CORE_TEXT_CHAT_TEMPLATE_METADATA_H_
#define NG_CORE_TEXT_CHAT_TEMPLATE_METADATA_H_

#include <optional>
#include <string>
#include <string_view>

#include "core/formats/gguf.h"
#include "core/text/chat/chat_template.h"
#include "ng/status.h"

namespace ng {

struct TemplateMetadata {
  std::string path;  // the file it is from
  std::string text;

  bool operator==(const TemplateMetadata&) const = default;
};

// Reads chat_template.jinja in a model folder, otherwise "chat_template" of tokenizer_config.json.
// Returns nothing where neither exists. Errors: ModelFileError.
absl::StatusOr<std::optional<TemplateMetadata>> FindTemplateMetadata(const std::string& folder);
// The same for a GGUF file, which has the key tokenizer.chat_template.
absl::StatusOr<std::optional<TemplateMetadata>> FindTemplateMetadata(const GgufMetadata& metadata);

// The named template for this program; nothing for any other text.
std::optional<ChatTemplateChoice> RecogniseTemplate(std::string_view text);

}  // namespace ng

#endif  // NG_CORE_TEXT_CHAT_TEMPLATE_METADATA_H_
