// The chat templates that have a name: for models whose files bring none.
#ifndef NG_CORE_TEXT_CHAT_NAMED_TEMPLATES_H_
#define NG_CORE_TEXT_CHAT_NAMED_TEMPLATES_H_

#include <string>
#include <string_view>
#include <vector>

#include "ng/status.h"
#include "ng/tokenizer.h"

namespace ng {

inline constexpr std::string_view kNoTemplate = "none";
inline constexpr std::string_view kOwnTemplate = "auto";
inline constexpr std::string_view kDefaultTemplate = "default";  // of several that a model has

// Their names, "none" first, separated by '|'.
const char* ChatTemplateNames();

// The program of a named template for a tokenizer, in the Jinja language. Errors: UsageError for a
// name that there is not, with all names that there are, `own` being those of the model's
// templates; and where the tokenizer lacks a special token of the template.
absl::StatusOr<std::string> NamedTemplate(std::string_view name, const Tokenizer& tokenizer,
                                          const std::vector<std::string>& own = {});

// The template that can be told from a tokenizer's special tokens alone: "niels", or "none".
std::string_view RecognisedTemplate(const Tokenizer& tokenizer);

}  // namespace ng

#endif  // NG_CORE_TEXT_CHAT_NAMED_TEMPLATES_H_
