#include "apps/serve/answers/answer_text.h"

#include <utility>

namespace ng::serve {

void AnswerText::Push(ShownToken token, int64_t held_bytes) {
  const size_t begin = stream_.n_pushed();
  text_ += stream_.Push(token.special ? "" : token.bytes, held_bytes);
  if (with_tokens_) tokens_.push_back({begin, std::move(token)});
}

void AnswerText::Finish(int64_t held_bytes) {
  text_ += stream_.Finish(held_bytes);
  finished_ = true;
}

AnswerPiece AnswerText::Take() {
  AnswerPiece piece{.text = std::exchange(text_, {})};
  const bool given = !piece.text.empty();
  while (!tokens_.empty() && (finished_ || (given && tokens_.front().begin < stream_.n_given()))) {
    piece.tokens.push_back(std::move(tokens_.front().token));
    tokens_.pop_front();
  }
  return piece;
}

}  // namespace ng::serve
