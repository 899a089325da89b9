// AnswerText: the text of an answer, as its tokens come.
//
// Text is given as whole characters. What may be the beginning of a text that ends the answer is
// held back until it is known. A token comes with the piece in which its text begins; one without
// text, and one whose text is no part of the answer, at the latest with the last.
#ifndef NG_APPS_SERVE_ANSWERS_ANSWER_TEXT_H_
#define NG_APPS_SERVE_ANSWERS_ANSWER_TEXT_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/token_text.h"

namespace ng::serve {

// A token that could have been chosen.
struct LikelyToken {
  std::string bytes;
  double logprob = 0.0;
};

// A token as logprobs show it.
struct ShownToken {
  std::string bytes = {};
  bool special = false;                // its bytes are its name, and no text
  std::optional<double> logprob = {};  // nats; empty: the first of a prompt
  std::vector<LikelyToken> top = {};   // the most probable, the best first
};

struct AnswerPiece {
  std::string text = {};
  std::vector<ShownToken> tokens = {};
};

class AnswerText {
 public:
  // `with_tokens`: pieces have them.
  explicit AnswerText(bool with_tokens) : with_tokens_(with_tokens) {}

  // The next token. `held_bytes`: of all that came so far, this many at the end are not known to be
  // text yet.
  void Push(ShownToken token, int64_t held_bytes);
  // The answer has ended, and `held_bytes` at its end are no part of it.
  void Finish(int64_t held_bytes);
  // What has become known since the last call. Tokens wait for a text, or for the end.
  AnswerPiece Take();

 private:
  struct Waiting {
    size_t begin;  // of its bytes, in all bytes of the answer
    ShownToken token;
  };

  bool with_tokens_;
  bool finished_ = false;
  AnswerStream stream_;
  std::string text_;
  std::deque<Waiting> tokens_;
};

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_ANSWER_TEXT_H_
