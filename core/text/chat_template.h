// Chat templates: a conversation -> ids.
//
// A template is data: for each role the special literal that opens a turn, and the one that closes
// it. The text of a turn is encoded without parsing specials, so nothing a user types can open or
// close one.
#ifndef NG_CORE_TEXT_CHAT_TEMPLATE_H_
#define NG_CORE_TEXT_CHAT_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/tokenizer.h"
#include "ng/status.h"

namespace ng {

// The names that chat_template accepts, "none" first, separated by '|'.
const char* ChatTemplateNames();

class ChatTemplate {
 public:
  // Binds a template by name to a tokenizer, which must have its special tokens and outlive it.
  // Errors: UsageError naming the template and the token that is missing.
  static absl::StatusOr<ChatTemplate> Bind(std::string_view name, const Tokenizer& tokenizer);
  // The template that this tokenizer's special tokens are exactly those of, or "none".
  static std::string_view Recognise(const Tokenizer& tokenizer);

  // [sys] S [eot] (if any) [usr] U [eot] [asst]
  absl::StatusOr<std::vector<int32_t>> FirstTurn(std::string_view system,
                                                 std::string_view user) const;
  // [usr] U [eot] [asst]: what a further turn adds once the last answer has been closed.
  absl::StatusOr<std::vector<int32_t>> NextTurn(std::string_view user) const;
  // The id that ends an answer.
  int32_t eot() const { return eot_; }

 private:
  absl::Status AppendTurn(int32_t opening, std::string_view text, std::vector<int32_t>* ids) const;

  const Tokenizer* tokenizer_ = nullptr;
  int32_t sys_ = 0;
  int32_t usr_ = 0;
  int32_t asst_ = 0;
  int32_t eot_ = 0;
};

}  // namespace ng

#endif  // NG_CORE_TEXT_CHAT_TEMPLATE_H_
