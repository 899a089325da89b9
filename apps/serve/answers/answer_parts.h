// AnswerParts: the tokens of a chat's answer to what is said, thought and called, as they come.
//
// Bytes that may be the beginning of a text that ends the answer wait until it is known.
#ifndef NG_APPS_SERVE_ANSWERS_ANSWER_PARTS_H_
#define NG_APPS_SERVE_ANSWERS_ANSWER_PARTS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/answer_reader.h"

namespace ng::serve {

class AnswerParts {
 public:
  explicit AnswerParts(std::unique_ptr<AnswerReader> reader) : reader_(std::move(reader)) {}

  // The next token and its text. `held_bytes`: of all that came so far, this many at the end are
  // not known to be text yet.
  void Push(int32_t id, std::string bytes, int64_t held_bytes);
  // The answer has ended, and `held_bytes` at its end are no part of it.
  void Finish(int64_t held_bytes);
  // What has become known since the last call.
  std::vector<AnswerDelta> Take() { return reader_->Take(); }

 private:
  // Hands over the tokens that are known as a whole.
  void Release(int64_t held_bytes);

  std::unique_ptr<AnswerReader> reader_;
  std::deque<std::pair<int32_t, std::string>> waiting_;
  int64_t n_waiting_ = 0;  // bytes
};

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_ANSWER_PARTS_H_
