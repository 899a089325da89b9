// The variables of a chat template that are the same in all conversations: the special tokens of
// the model's files, those that the user has set, and today's date.
#ifndef NG_CORE_TEXT_CHAT_TEMPLATE_VARIABLES_H_
#define NG_CORE_TEXT_CHAT_TEMPLATE_VARIABLES_H_

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "core/text/jinja/run.h"
#include "ng/chat_template.h"
#include "ng/status.h"

namespace ng {

class TemplateVariables {
 public:
  using Names = std::set<std::string, std::less<>>;
  using SpecialTokens = std::map<std::string, std::string>;  // "eos_token" -> literal

  TemplateVariables() = default;
  // `names`: what the template `name` reads. Errors: UsageError for an option that it does not
  // take.
  static absl::StatusOr<TemplateVariables> Make(SpecialTokens special_tokens, Names names,
                                                const std::string& name,
                                                const ChatOptions& options);

  const nlohmann::ordered_json& values() const { return values_; }
  // Puts those of a conversation over them: an object as JSON text, or nothing. What the template
  // does not read is left out. Errors: UsageError.
  absl::Status AddTo(const std::string& text, nlohmann::ordered_json* values) const;

  const SpecialTokens& special_tokens() const { return special_tokens_; }
  jinja::Moment now() const { return now_; }
  // Empty where the template does not ask for it.
  const std::string& date() const { return date_; }

 private:
  bool IsOwn(const std::string& name) const;
  absl::Status Set(const std::string& name, const ChatOptions& options);

  SpecialTokens special_tokens_;
  Names names_;
  nlohmann::ordered_json values_ = nlohmann::ordered_json::object();
  jinja::Moment now_;
  std::string date_;
};

}  // namespace ng

#endif  // NG_CORE_TEXT_CHAT_TEMPLATE_VARIABLES_H_
