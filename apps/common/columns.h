// Text in two columns, by the width of the terminal.
#ifndef NG_APPS_COMMON_COLUMNS_H_
#define NG_APPS_COMMON_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ng {

struct TextRow {
  std::string left;
  std::string right;  // may be empty
};

// Lines of at most `width` columns, unless a word is longer. The right texts begin at column
// `left`; where that leaves them too little room, below the left ones.
std::string TwoColumns(std::span<const TextRow> rows, size_t left, size_t width);

// The words of `text` on such lines. Those after the first line begin behind `indent` blanks; the
// first has no indent.
std::string Wrapped(std::string_view text, size_t indent, size_t width);

// "1 run", "2 runs".
std::string Counted(int64_t n, std::string_view what);

// The columns of the terminal that stdout is; 80 where it is none.
int StdoutColumns();
// The same within what can be read.
int HelpColumns();

}  // namespace ng

#endif  // NG_APPS_COMMON_COLUMNS_H_
