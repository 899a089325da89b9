#include "apps/common/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/common/columns.h"
#include "apps/common/screen_text.h"

namespace ng {
namespace {

constexpr size_t kGap = 1;

std::string Padded(const std::string& text, const TableColumn& column) {
  const size_t columns = ColumnsOf(text);
  const std::string blanks(column.columns - std::min(column.columns, columns), ' ');
  return column.left ? text + blanks : blanks + text;
}

}  // namespace

Table::Table(std::vector<TableColumn> columns, size_t width)
    : width_(width), columns_(std::move(columns)), shown_(columns_.size(), true) {
  size_t all = 0;
  for (TableColumn& column : columns_) {
    column.columns = std::max(column.columns, ColumnsOf(column.name));
    all += column.columns + kGap;
  }
  while (width > 0 && all > width + kGap) {
    size_t out = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i) {
      const bool may_go = shown_[i] && columns_[i].rank > 0;
      if (may_go && (out == columns_.size() || columns_[i].rank >= columns_[out].rank)) out = i;
    }
    if (out == columns_.size()) break;
    shown_[out] = false;
    all -= columns_[out].columns + kGap;
  }
}

std::string Table::Head() const {
  std::vector<std::string> names;
  for (const TableColumn& column : columns_) names.push_back(column.name);
  return Line(names);
}

std::string Table::Line(const std::vector<std::string>& cells) const {
  std::string line;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!shown_[i]) continue;
    const std::string cell = i < cells.size() ? cells[i] : "";
    absl::StrAppend(&line, line.empty() ? "" : " ", Padded(cell, columns_[i]));
  }
  line.resize(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string Table::Note() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!shown_[i]) names.push_back(columns_[i].name);
  }
  if (names.empty()) return "";
  return WrappedText(absl::StrCat("(--wide shows ", absl::StrJoin(names, ", "), " too)\n"), width_);
}

size_t TableWidth(bool wide) { return wide ? 0 : static_cast<size_t>(StdoutColumns()); }

}  // namespace ng
