// Tells the thoughts at the beginning of an answer from the answer itself, while it streams.
#ifndef NG_APPS_RUN_CHAT_THOUGHTS_H_
#define NG_APPS_RUN_CHAT_THOUGHTS_H_

#include <string>
#include <string_view>
#include <vector>

namespace ng::run {

// A piece of a streamed answer. Markers belong to the thoughts.
struct Piece {
  bool thought = false;
  std::string text;
};

// An answer has thoughts where it begins with a marker of them, after blanks at most, or where the
// prompt ends with one. They end with the marker that closes them. A marker anywhere else is text.
class Thoughts {
 public:
  // `prompt_end`: the end of the prompt's text, or all of it.
  explicit Thoughts(std::string_view prompt_end = {});

  // Returns what is known by now; what may be a part of a marker is held back.
  std::vector<Piece> Push(std::string_view text);
  // What is left.
  std::vector<Piece> Finish();
  // Whether the last piece of the answer so far is a thought.
  bool within() const { return state_ == State::kWithin; }

 private:
  enum class State { kBeginning, kWithin, kBehind };

  State state_ = State::kBeginning;
  size_t marker_ = 0;  // which pair
  std::string held_;
};

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_THOUGHTS_H_
