// Chat templates: a conversation -> ids.
//
// A template is data: the text around what the system, the user and the model say. In this text the
// literals of special tokens become their ids. What people say is encoded without parsing special
// tokens, so nothing that a user types can open or close a turn.
#ifndef NG_CORE_TEXT_CHAT_CHAT_TEMPLATE_H_
#define NG_CORE_TEXT_CHAT_CHAT_TEMPLATE_H_

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/status.h"
#include "ng/tokenizer.h"

namespace ng {

// The names that chat_template accepts, "none" first, separated by '|'.
const char* ChatTemplateNames();

struct ChatTemplateRow;  // one template as data

// A template by its name, and what the form of it that one model has does differently.
struct ChatTemplateChoice {
  std::string_view name;
  std::string_view default_system = {};  // the system text of a conversation that has none
  std::string_view before_again = {};    // the text between a finished answer and the next turn
};

class ChatTemplate {
 public:
  static constexpr int64_t kAnyLength = std::numeric_limits<int64_t>::max();

  // Binds a template to a tokenizer. The tokenizer must have the template's special tokens and must
  // outlive it.
  // Errors: UsageError naming the template and the token that is missing.
  static absl::StatusOr<ChatTemplate> Bind(const ChatTemplateChoice& choice,
                                           const Tokenizer& tokenizer);
  // The template that can be told from a tokenizer's special tokens alone: "niels", or "none".
  static std::string_view Recognise(const Tokenizer& tokenizer);

  // The beginning of a conversation, up to where the answer begins. An empty system text means that
  // there is none. `most` is that of EncodeOptions.
  absl::StatusOr<std::vector<int32_t>> FirstTurn(std::string_view system, std::string_view user,
                                                 int64_t most = kAnyLength) const;
  // What a further turn adds after eot() has closed the last answer.
  absl::StatusOr<std::vector<int32_t>> NextTurn(std::string_view user,
                                                int64_t most = kAnyLength) const;
  // The id that ends an answer.
  int32_t eot() const { return eot_; }

 private:
  class Writer;

  const ChatTemplateRow* row_ = nullptr;
  const Tokenizer* tokenizer_ = nullptr;
  std::string default_system_;
  std::string before_again_;
  std::vector<std::pair<std::string_view, int32_t>> specials_;  // literal and id
  int32_t eot_ = 0;
};

}  // namespace ng

#endif  // NG_CORE_TEXT_CHAT_CHAT_TEMPLATE_H_
