// How an answer looks on a terminal, and the line below it. Makes texts and writes nothing.
#ifndef NG_APPS_RUN_CHAT_ANSWER_VIEW_H_
#define NG_APPS_RUN_CHAT_ANSWER_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/screen_text.h"
#include "apps/run/chat/thoughts.h"
#include "ng/request.h"

namespace ng::run {

struct ViewStyle {
  bool colors = false;                   // thoughts and notes are dim
  bool terminal = false;                 // stdout is one; otherwise the text is written as it is
  bool moves = false;                    // the terminal can move its cursor
  bool folded = true;                    // thoughts are one line
  std::function<size_t()> columns = {};  // lines are broken at words; none: they are not
};

// `text` dim, where there are colors.
std::string Dim(std::string_view text, const ViewStyle& style);

// A streamed answer. On a terminal it is shown as TerminalText.
class AnswerView {
 public:
  // `prompt_end`: as that of Thoughts. `said`: how the answer begins, which is not shown again.
  AnswerView(const ViewStyle& style, std::string_view prompt_end, std::string_view said);

  // What to write for the text of one more token.
  std::string Push(std::string_view text);
  // What to write at the end, with the end of the line.
  std::string Finish();
  // The answer's thoughts as far as they were pushed, without markers.
  const std::string& thought() const { return thought_; }

 private:
  std::string Show(const std::vector<Piece>& pieces);
  // A text, with its lines broken, and what was held back of a text in the other color.
  std::string InLines(std::string_view text, bool dim);
  std::string Flush();
  // Remembers how what is shown ends.
  std::string Noted(std::string shown);
  // The one line of folded thoughts, when they have ended.
  std::string EndFold();

  ViewStyle style_;
  Thoughts thoughts_;
  WordWrap wrap_;
  bool dim_ = false;  // what wrap_ holds back
  std::string thought_;
  int64_t n_thought_tokens_ = 0;
  bool folding_ = false;      // the line of folded thoughts is there and not ended
  bool ends_line_ = false;    // what is shown so far
  bool drop_blanks_ = false;  // that follow folded thoughts
};

// What the line below an answer says.
inline constexpr const char* kFullHelp = "the context is full, /new or /set run.on_full=drop_turns";
struct TurnFigures {
  StopReason stop_reason = StopReason::kEot;
  bool full = false;     // what cut the answer is that the context has no more room
  int64_t n_answer = 0;  // tokens of the answer, all of it
  int64_t length = 0;    // tokens of the conversation
  int64_t capacity = 0;
  int64_t seed = 0;
  Timings timings;
};
// "stopped, /more goes on | context 71 of 256, 185 left | 64 tokens, 512.3/s | ...": as much of it
// as `columns` take, at least the first two.
std::string StatusLine(const TurnFigures& figures, size_t columns);

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_ANSWER_VIEW_H_
