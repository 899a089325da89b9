// What a model's own files say about its conversations: its chat templates, programs in the Jinja
// language, and the special tokens that they are told of.
#ifndef NG_CORE_TEXT_CHAT_TEMPLATE_METADATA_H_
#define NG_CORE_TEXT_CHAT_TEMPLATE_METADATA_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/formats/gguf.h"
#include "ng/status.h"

namespace ng {

struct TemplateSource {
  std::string path;  // the file it is from
  std::string text;

  bool operator==(const TemplateSource&) const = default;
};

struct TemplateMetadata {
  std::optional<TemplateSource> own = {};
  // The others, by name. "tool_use" is for conversations with tools where `own` is for the rest.
  std::map<std::string, TemplateSource, std::less<>> named = {};
  // "bos_token": "<s>", as far as the files tell them.
  std::map<std::string, std::string> special_tokens = {};
};

inline constexpr std::string_view kWithTools = "tool_use";

// Reads chat_template.jinja and additional_chat_templates/<name>.jinja in a model folder, otherwise
// "chat_template" of tokenizer_config.json. Errors: ModelFileError.
absl::StatusOr<TemplateMetadata> FindTemplateMetadata(const std::string& folder);
// The same for a GGUF file, which has the keys tokenizer.chat_template and
// tokenizer.chat_template.<name>.
absl::StatusOr<TemplateMetadata> FindTemplateMetadata(const GgufMetadata& metadata);
// The same for a tokenizer that OpenTokenizer opens.
absl::StatusOr<TemplateMetadata> FindTemplateMetadataOf(const std::string& tokenizer_path);

// A file that holds a template. Errors: ModelFileError.
absl::StatusOr<TemplateSource> ReadTemplate(const std::string& path);

}  // namespace ng

#endif  // NG_CORE_TEXT_CHAT_TEMPLATE_METADATA_H_
