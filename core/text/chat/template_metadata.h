// What a model's own files say about its conversations: its chat templates, programs in the Jinja
// language, and the special tokens that they are told of.
#ifndef NG_CORE_TEXT_CHAT_TEMPLATE_METADATA_H_
#define NG_CORE_TEXT_CHAT_TEMPLATE_METADATA_H_

#include <map>
#include <optional>
#include <string>

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
  std::optional<TemplateSource> with_tools = {};  // for conversations with tools; else `own`
  // "bos_token": "<s>", as far as the files tell them.
  std::map<std::string, std::string> special_tokens = {};
};

// Reads chat_template.jinja in a model folder, otherwise "chat_template" of tokenizer_config.json;
// the template "tool_use" too, if there is one. Errors: ModelFileError.
absl::StatusOr<TemplateMetadata> FindTemplateMetadata(const std::string& folder);
// The same for a GGUF file, which has the key tokenizer.chat_template.
absl::StatusOr<TemplateMetadata> FindTemplateMetadata(const GgufMetadata& metadata);
// The same for a tokenizer that OpenTokenizer opens.
absl::StatusOr<TemplateMetadata> FindTemplateMetadataOf(const std::string& tokenizer_path);

// A file that holds a template. Errors: ModelFileError.
absl::StatusOr<TemplateSource> ReadTemplate(const std::string& path);

}  // namespace ng

#endif  // NG_CORE_TEXT_CHAT_TEMPLATE_METADATA_H_
