// LineEditor: messages that are typed at a terminal, with libedit: keys of emacs or vi, a history,
// completion. A paste is taken as it is, its lines too.
//
// While an editor is open the terminal echoes nothing but what the editor shows. What is typed in
// between, while something else runs, waits for the next Read.
#ifndef NG_APPS_RUN_CHAT_LINE_EDITOR_H_
#define NG_APPS_RUN_CHAT_LINE_EDITOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
  // Reads ~/.editrc. Errors: RuntimeError.
  static absl::StatusOr<std::unique_ptr<LineEditor>> Open();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  using Complete = std::function<Completions(std::string_view before_cursor)>;
  void set_complete(Complete complete);
  // Adds an entry behind those that the arrow keys go back to.
  void Remember(const std::string& entry);

  // Reads one message, which begins with `text` for the user to change. A backslash at the end of a
  // line, or Alt-Enter, goes on with another line.
  Typed Read(std::string_view text = {});

 private:
  struct State;
  explicit LineEditor(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_LINE_EDITOR_H_
