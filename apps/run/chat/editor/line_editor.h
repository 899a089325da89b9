// LineEditor: messages that are typed at a terminal. An Editor takes the keys, a Painter shows what
// comes of them; this is what they know nothing of: the terminal itself, its size, signals.
//
// While an editor is open the terminal echoes nothing but what the editor shows. What is typed in
// between, while something else runs, waits for the next Read.
#ifndef NG_APPS_RUN_CHAT_EDITOR_LINE_EDITOR_H_
#define NG_APPS_RUN_CHAT_EDITOR_LINE_EDITOR_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/terminal.h"
#include "apps/run/chat/editor/editor.h"
#include "apps/run/chat/editor/keys.h"
#include "apps/run/chat/editor/painter.h"
#include "ng/status.h"

namespace ng::run {

// What may stand at the end of a line that is typed: whole words, each in place of what begins at
// `begin`.
struct Completions {
  size_t begin = 0;
  std::vector<std::string> words;
};

struct Typed {
  enum class How {
    kMessage,
    kInterrupted,  // Ctrl-C or another signal: what was typed is dropped
    kEnd,          // Ctrl-D, or the terminal has gone
  } how = How::kEnd;
  std::string text;      // kMessage: without its last line's end. Valid UTF-8
  bool nothing = false;  // kInterrupted: nothing had been typed
};

// Thread: the program's own. One at a time. REQUIRES: WatchSignals has been called.
class LineEditor {
 public:
  // Whether there is a terminal to type at and to draw on: stdin and stderr are one, and it can
  // move its cursor.
  static bool HasTerminal();
  // Errors: RuntimeError.
  static absl::StatusOr<std::unique_ptr<LineEditor>> Open();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  using Complete = std::function<Completions(std::string_view before_cursor)>;
  void set_complete(Complete complete) { complete_ = std::move(complete); }
  // Adds an entry behind those that the arrow keys go back to.
  void Remember(const std::string& entry) { editor_.Remember(entry); }

  // Reads one message, which begins with `text` for the user to change. A backslash at the end of
  // the message, or Alt-Enter, goes on with another line. Lines that come at once are one message,
  // as where a terminal does not mark what is pasted; those that came before the call are not.
  Typed Read(std::string_view text = {});
  // What has been typed since the last Read is not wanted any more.
  void DropTypedAhead();

 private:
  LineEditor() = default;

  // Waits for keys, and paints anew where the screen has changed. False: `ended_` says why.
  bool WaitForKeys();
  // Reads what there is. False: the terminal has gone.
  bool ReadBytes(std::string* bytes);
  void AddKeys(std::string_view bytes, bool at_once);
  // What a key comes to besides what it changes. True: Read returns `ended_`.
  bool TakeKey(const Key& key);
  void CompleteWord();
  void Suspend();
  void Paint();
  void Finish();

  TerminalGuard guard_;
  termios editing_ = {};
  termios waiting_ = {};
  Editor editor_;
  Painter painter_;
  KeyReader reader_;
  std::deque<Key> keys_;  // that have been typed and not been taken
  Complete complete_;
  Typed::How ended_ = Typed::How::kEnd;
};

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_EDITOR_LINE_EDITOR_H_
