#include "apps/common/columns.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/common/screen_text.h"

namespace ng {

std::string Wrapped(std::string_view text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  for (const absl::string_view word :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ' ', absl::SkipEmpty())) {
    const size_t columns = ColumnsOf({word.data(), word.size()});
    if (column > indent && column + 1 + columns > width) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '));
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    absl::StrAppend(&out, word);
    column += columns;
  }
  return out;
}

std::string TwoColumns(std::span<const TextRow> rows, size_t left, size_t width) {
  constexpr size_t kBelow = 6;  // the indent of a right text below its left one
  const bool narrow = width < 2 * left;
  const size_t indent = narrow ? kBelow : left;
  std::string out;
  for (const TextRow& row : rows) {
    std::string line = absl::StrCat("  ", Wrapped(row.left, kBelow, width));
    if (!row.right.empty()) {
      if (narrow || line.find('\n') != line.npos || line.size() + 1 > left) {
        absl::StrAppend(&line, "\n", std::string(indent, ' '));
      } else {
        line.resize(left, ' ');
      }
      line += Wrapped(row.right, indent, width);
    }
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

std::string Counted(int64_t n, std::string_view what) {
  return absl::StrCat(n, " ", absl::string_view(what.data(), what.size()), n == 1 ? "" : "s");
}

int StdoutColumns() {
  constexpr int kUsual = 80;
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 ? kUsual : size.ws_col;
}

int HelpColumns() {
  constexpr int kLeast = 40;
  constexpr int kMost = 100;
  return std::clamp(StdoutColumns(), kLeast, kMost);
}

}  // namespace ng
