#include "apps/serve/answer_text.h"

#include <algorithm>
#include <utility>

namespace ng::serve {

void AnswerText::Give(size_t n) {
  text_ += utf8_.Push(held_.substr(0, n));
  held_.erase(0, n);
  n_given_ += n;
}

void AnswerText::Push(ShownToken token, int64_t held_bytes) {
  held_ += token.bytes;
  const size_t begin = n_given_ + held_.size() - token.bytes.size();
  if (with_tokens_) tokens_.push_back({begin, std::move(token)});
  Give(held_.size() - std::min(held_.size(), static_cast<size_t>(held_bytes)));
}

void AnswerText::Finish(int64_t held_bytes) {
  Give(held_.size() - std::min(held_.size(), static_cast<size_t>(held_bytes)));
  held_.clear();
  text_ += utf8_.Finish();
  finished_ = true;
  std::erase_if(tokens_, [&](const Waiting& one) { return one.begin >= n_given_; });
}

AnswerPiece AnswerText::Take() {
  AnswerPiece piece{.text = std::exchange(text_, {})};
  const bool ready = finished_ || !piece.text.empty();
  while (ready && !tokens_.empty() && tokens_.front().begin < n_given_) {
    piece.tokens.push_back(std::move(tokens_.front().token));
    tokens_.pop_front();
  }
  return piece;
}

}  // namespace ng::serve
