// A token as a reader can tell it from others, and the text of an answer.
#ifndef NG_APPS_COMMON_TOKEN_TEXT_H_
#define NG_APPS_COMMON_TOKEN_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ng/engine.h"
#include "ng/status.h"
#include "ng/utf8.h"

namespace ng {

// Whether it ends a text and has none itself.
bool IsStopId(const Engine& engine, int32_t id);

// VisibleText of the token's bytes. Errors: those of Engine::Decode; so without a tokenizer.
absl::StatusOr<std::string> VisibleToken(const Engine& engine, int32_t id);

// The text of generated ids. A stop id at the end has no text, and a text that ended the answer is
// left out. Errors: LimitError.
absl::StatusOr<std::string> CompletionText(const Engine& engine, const Completion& completion);

// The same text as it comes, cut between characters.
class AnswerStream {
 public:
  // What a step adds: what may be the beginning of a text that ends the answer comes later. Errors:
  // those of Engine::Decode.
  absl::StatusOr<std::string> Push(const Engine& engine, const StepRecord& record);
  // The same of a token's bytes.
  std::string Push(std::string_view bytes, int64_t held_bytes);
  // The rest. `held_bytes`: the completion's.
  std::string Finish(int64_t held_bytes);

  // Bytes of the tokens so far, and how many of them have been given or are a cut character.
  size_t n_pushed() const { return n_given_ + held_.size(); }
  size_t n_given() const { return n_given_; }

 private:
  std::string held_;  // what may not be shown yet
  size_t n_given_ = 0;
  Utf8Stream utf8_;
};

}  // namespace ng

#endif  // NG_APPS_COMMON_TOKEN_TEXT_H_
