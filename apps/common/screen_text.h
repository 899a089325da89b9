// Text as it takes room on a screen: characters as a reader sees them, and the columns they take.
//
// A character is an extended grapheme cluster of Unicode: a letter with its marks, an emoji of
// several code points. A terminal gives it one column or two.
//
// Thread: pure functions; a WordWrap belongs to one thread.
#ifndef NG_APPS_COMMON_SCREEN_TEXT_H_
#define NG_APPS_COMMON_SCREEN_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ng {

struct Cluster {
  size_t begin = 0;    // of its bytes
  size_t size = 0;     // bytes
  size_t columns = 0;  // 0: a control character, or a mark without a letter
};

// The characters of a text, one behind the other. A byte that is no UTF-8 is one of its own.
std::vector<Cluster> ClustersOf(std::string_view text);

// The columns of a line of text. A tab goes on to the next multiple of 8.
size_t ColumnsOf(std::string_view line);
// The column behind a part of a line that begins at `column`.
size_t ColumnBehind(std::string_view part, size_t column);

// The code points as small letters, so that two texts can be compared without their case.
std::string FoldedCase(std::string_view text);

// Breaks a text that streams into lines of a screen, between words, or beside a character of two
// columns. A word is held back until it is whole; one that is longer than a line is not.
class WordWrap {
 public:
  // Returns what can be shown by now. `columns`: of the screen; 0: no line is broken.
  std::string Push(std::string_view text, size_t columns);
  // Returns what is held back. The line goes on.
  std::string Flush();
  // What follows begins a line.
  void BeginLine() { column_ = 0; }

 private:
  std::string Emit(std::string_view blanks, std::string_view word);

  std::string held_;  // blanks and the word behind them
  size_t columns_ = 0;
  size_t column_ = 0;     // that comes next
  bool in_long_ = false;  // the word so far is longer than a line and has been shown
};

// A whole text, wrapped.
std::string WrappedText(std::string_view text, size_t columns);

}  // namespace ng

#endif  // NG_APPS_COMMON_SCREEN_TEXT_H_
