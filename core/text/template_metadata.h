// The chat template that a model brings along: a Jinja program in its metadata.
//
// It is not run. It is recognised when it is, byte for byte, one of those whose conversations a
// named template writes.
#ifndef NG_CORE_TEXT_TEMPLATE_METADATA_H_
#define NG_CORE_TEXT_TEMPLATE_METADATA_H_

#include <optional>
#include <string>
#include <string_view>

#include "core/formats/gguf.h"
#include "core/text/chat_template.h"
#include "ng/status.h"

namespace ng {

struct TemplateMetadata {
  std::string path;  // the file it is from
  std::string text;

  bool operator==(const TemplateMetadata&) const = default;
};

// chat_template.jinja in a model folder, else "chat_template" of tokenizer_config.json; nothing
// where there is neither. Errors: ModelFileError.
absl::StatusOr<std::optional<TemplateMetadata>> FindTemplateMetadata(const std::string& folder);
// The same of a GGUF file: its tokenizer.chat_template.
absl::StatusOr<std::optional<TemplateMetadata>> FindTemplateMetadata(const GgufMetadata& metadata);

// The template that a text is; nothing for any other text.
std::optional<ChatTemplateChoice> RecogniseTemplate(std::string_view text);

}  // namespace ng

#endif  // NG_CORE_TEXT_TEMPLATE_METADATA_H_
