// Keys: what a terminal sends for what is pressed, typed and pasted.
//
// A key that no table has is swallowed, whatever it sends.
#ifndef NG_APPS_RUN_CHAT_EDITOR_KEYS_H_
#define NG_APPS_RUN_CHAT_EDITOR_KEYS_H_

#include <string>
#include <string_view>
#include <vector>

#include "ng/utf8.h"

namespace ng::run {

enum class KeyKind {
  kText,   // Key::text, which has no control character
  kPaste,  // Key::text, with \n for each end of a line
  kEnter,
  kNewLine,  // an end of a line within the message
  kLeft,
  kRight,
  kUp,
  kDown,
  kWordLeft,
  kWordRight,
  kLineBegin,
  kLineEnd,
  kTextBegin,
  kTextEnd,
  kBackspace,
  kDelete,
  kDeleteOrEnd,   // Ctrl-D: where nothing is typed, the end
  kCutBlankWord,  // before the cursor, to a blank
  kCutWordBefore,
  kCutWordBehind,
  kCutToLineBegin,
  kCutToLineEnd,
  kPasteCut,
  kSwap,  // the two characters beside the cursor
  kUndo,
  kSearch,
  kCancel,
  kComplete,
  kClear,
  kSuspend,
  kInterrupt,
};

struct Key {
  KeyKind kind = KeyKind::kText;
  std::string text = {};
};

// Thread: none of its own.
class KeyReader {
 public:
  // `interrupt`: the character by which the terminal's user interrupts.
  explicit KeyReader(char interrupt = '\003') : interrupt_(interrupt) {}

  // The keys that end within these bytes. What begins one is kept for the next call.
  std::vector<Key> Push(std::string_view bytes);
  // Whether a paste has begun that has not ended.
  bool pasting() const { return pasting_; }

 private:
  // Each takes what is at the begin of `bytes` and returns how long that is; 0: the rest of it has
  // not come yet.
  size_t TakeText(std::string_view bytes, std::vector<Key>* keys);
  size_t TakeControl(std::string_view bytes, std::vector<Key>* keys);
  size_t TakeEscape(std::string_view bytes, std::vector<Key>* keys);
  size_t TakeSequence(std::string_view bytes, std::vector<Key>* keys);
  size_t TakePaste(std::string_view bytes, std::vector<Key>* keys);

  char interrupt_;
  std::string held_;
  Utf8Stream text_;
  bool pasting_ = false;
  std::string paste_;
  bool after_return_ = false;  // the \n of \r\n is no key of its own
};

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_EDITOR_KEYS_H_
