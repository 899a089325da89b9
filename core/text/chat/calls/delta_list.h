// The pieces of an answer as they become known: neighbours of one kind are one piece, and each ends
// between characters.
#ifndef NG_CORE_TEXT_CHAT_CALLS_DELTA_LIST_H_
#define NG_CORE_TEXT_CHAT_CALLS_DELTA_LIST_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/answer_reader.h"
#include "ng/utf8.h"

namespace ng::calls {

class DeltaList {
 public:
  // More of what was added last, or of something else: `call` tells the arguments of two calls
  // apart.
  void Add(AnswerDelta::Kind kind, int call, std::string_view bytes) {
    if (bytes.empty()) return;
    if (kind != kind_ || call != call_) EndPiece();
    kind_ = kind;
    call_ = call;
    Append(utf8_.Push(bytes));
  }
  void AddCall(int call, std::string name, std::string id) {
    EndPiece();
    deltas_.push_back({AnswerDelta::Kind::kCall, std::move(name), call, std::move(id)});
    fresh_ = true;
  }
  // What is held back of a character comes as U+FFFD.
  void EndPiece() {
    Append(utf8_.Finish());
    fresh_ = true;
  }
  std::vector<AnswerDelta> Take() {
    fresh_ = true;
    return std::exchange(deltas_, {});
  }

 private:
  void Append(const std::string& text) {
    if (text.empty()) return;
    if (std::exchange(fresh_, false)) {
      deltas_.push_back({kind_, text, call_, {}});
    } else {
      deltas_.back().text += text;
    }
  }

  AnswerDelta::Kind kind_ = AnswerDelta::Kind::kContent;
  int call_ = 0;
  bool fresh_ = true;  // the next text begins a piece
  Utf8Stream utf8_;
  std::vector<AnswerDelta> deltas_;
};

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_DELTA_LIST_H_
