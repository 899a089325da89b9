#include "apps/serve/answers/answer_parts.h"

#include <iterator>

namespace ng::serve {

void AnswerParts::Push(int32_t id, std::string bytes, int64_t held_bytes) {
  n_waiting_ += std::ssize(bytes);
  waiting_.emplace_back(id, std::move(bytes));
  Release(held_bytes);
}

void AnswerParts::Release(int64_t held_bytes) {
  while (!waiting_.empty() && n_waiting_ - std::ssize(waiting_.front().second) >= held_bytes) {
    const auto& [id, bytes] = waiting_.front();
    n_waiting_ -= std::ssize(bytes);
    reader_->Push(id, bytes);
    waiting_.pop_front();
  }
}

void AnswerParts::Finish(int64_t held_bytes) {
  Release(held_bytes);
  if (!waiting_.empty() && n_waiting_ > held_bytes) {
    constexpr int32_t kNoToken = -1;  // a part of one
    const auto n = static_cast<size_t>(n_waiting_ - held_bytes);
    reader_->Push(kNoToken, std::string_view(waiting_.front().second).substr(0, n));
  }
  reader_->Finish();
}

}  // namespace ng::serve
