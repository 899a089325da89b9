#include "apps/run/chat/editor/painter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/common/screen_text.h"
#include "apps/common/terminal_text.h"

namespace ng::run {
namespace {

constexpr size_t kTab = 8;

// Puts cells on rows as a terminal does.
class Flow {
 public:
  explicit Flow(size_t columns) : columns_(std::max<size_t>(1, columns)) {
    layout_.rows.emplace_back();
  }

  size_t column() const { return column_; }
  void Add(Cell cell) {
    cell.columns = std::min(cell.columns, columns_);
    if (column_ + cell.columns > columns_) NextRow();
    column_ += cell.columns;
    layout_.rows.back().cells.push_back(std::move(cell));
  }
  void EndLine() {
    layout_.rows.back().cells.push_back({.text = {}, .columns = 0, .ends_line = true});
    NextRow();
  }
  // The cursor is where the next cell of `columns` comes.
  void PutCursor(size_t columns) {
    if (column_ + std::min(columns, columns_) > columns_) NextRow();
    layout_.cursor = {layout_.rows.size() - 1, column_};
  }
  Layout Take() { return std::move(layout_); }

 private:
  void NextRow() {
    layout_.rows.emplace_back();
    column_ = 0;
  }

  size_t columns_;
  size_t column_ = 0;
  Layout layout_;
};

// Whether a terminal may give it more or fewer columns than we think.
bool IsUncertain(const Cell& cell) { return cell.text.size() > 4; }

void AddCluster(std::string_view text, const Cluster& cluster, Flow* flow) {
  const std::string_view bytes = text.substr(cluster.begin, cluster.size);
  if (bytes == "\n") {
    flow->EndLine();
  } else if (bytes == "\t") {
    const size_t n = kTab - flow->column() % kTab;
    for (size_t i = 0; i < n; ++i) flow->Add({.text = " "});
  } else if (SteersTerminal(bytes)) {
    // In characters of ASCII, which may be on two rows.
    for (const char c : TerminalText(bytes)) flow->Add({.text = std::string(1, c)});
  } else if (cluster.columns == 0) {
    // A mark without a letter: something has to carry it.
    flow->Add({.text = absl::StrCat("\u25CC", absl::string_view(bytes.data(), bytes.size()))});
  } else {
    flow->Add({.text = std::string(bytes), .columns = cluster.columns});
  }
}

}  // namespace

Layout LayOut(const EditView& view, size_t columns) {
  Flow flow(columns);
  const std::string prompt = TerminalText(view.prompt);
  for (const Cluster& cluster : ClustersOf(prompt)) AddCluster(prompt, cluster, &flow);
  const std::string_view text = view.text;
  for (const Cluster& cluster : ClustersOf(text)) {
    if (cluster.begin == view.cursor) flow.PutCursor(std::max<size_t>(1, cluster.columns));
    AddCluster(text, cluster, &flow);
  }
  if (view.cursor == text.size()) flow.PutCursor(1);
  if (view.cursor > text.size()) flow.PutCursor(0);
  return flow.Take();
}

std::string Painter::GoTo(size_t row) {
  std::string bytes = "\r";
  if (row < at_row_) absl::StrAppend(&bytes, "\033[", at_row_ - row, "A");
  if (row > at_row_) absl::StrAppend(&bytes, "\033[", row - at_row_, "B");
  at_row_ = row;
  return bytes;
}

std::string Painter::WriteRows(size_t from) {
  std::string bytes;
  bool goes_on = false;  // the row before has no end of a line
  for (size_t i = from; i < shown_.rows.size(); ++i) {
    const ScreenRow& row = shown_.rows[i];
    // With a blank the terminal begins the row itself.
    if (goes_on && (row.cells.empty() || row.cells.front().ends_line)) bytes += " \r\033[K";
    size_t column = 0;
    goes_on = true;
    for (const Cell& cell : row.cells) {
      bytes += cell.text;
      column += cell.columns;
      if (IsUncertain(cell) && column < size_.columns) {
        absl::StrAppend(&bytes, "\033[", column + 1, "G");
      }
      if (!cell.ends_line) continue;
      goes_on = false;
      if (i + 1 < shown_.rows.size()) bytes += "\r\n";
    }
    at_row_ = i;
  }
  return bytes;
}

std::string Painter::Paint(const EditView& view, const ScreenSize& size) {
  if (size.columns != size_.columns || size.rows != size_.rows) Resize(size);
  Layout layout = LayOut(view, size.columns);
  const size_t n_rows = std::min(layout.rows.size(), std::max<size_t>(1, size.rows));
  const size_t old_top = top_;
  top_ = std::min(top_, layout.rows.size() - n_rows);
  top_ = std::clamp(layout.cursor.row, top_, top_ + n_rows - 1) == layout.cursor.row
             ? top_
             : (layout.cursor.row < top_ ? layout.cursor.row : layout.cursor.row - n_rows + 1);
  const std::vector<ScreenRow> before = std::move(shown_.rows);
  const auto begin = layout.rows.begin() + static_cast<ptrdiff_t>(top_);
  shown_.rows.assign(begin, begin + static_cast<ptrdiff_t>(n_rows));
  shown_.cursor = {layout.cursor.row - top_, layout.cursor.column};
  std::string bytes;
  const bool same = before == shown_.rows && old_top == top_;
  if (!same) {
    size_t first = 0;  // row that differs
    while (first < std::min(before.size(), n_rows) && before[first] == shown_.rows[first]) ++first;
    first = std::min(first, before.empty() ? 0 : before.size() - 1);
    first = std::min(first, n_rows - 1);
    bytes = GoTo(first) + "\033[J";
    bytes += WriteRows(first);
  }
  bytes += GoTo(shown_.cursor.row);
  if (shown_.cursor.column > 0) absl::StrAppend(&bytes, "\033[", shown_.cursor.column, "C");
  return bytes;
}

std::string Painter::Finish(const EditView& view, const ScreenSize& size) {
  EditView ended = view;
  ended.cursor = std::string::npos;
  std::string bytes;
  const Layout whole = LayOut(ended, size.columns);
  if (whole.rows.size() > size.rows) {
    // From the first row that is shown on it goes up above the screen.
    Resize(size);
    bytes = GoTo(0) + "\033[J";
    top_ = 0;
    shown_ = whole;
    bytes += WriteRows(0);
  } else {
    bytes = Paint(ended, size);
  }
  Forget();
  return bytes + "\r\n";
}

void Painter::Resize(const ScreenSize& size) {
  if (size.columns != size_.columns) {
    // Where the cursor is now.
    Flow flow(size.columns);
    for (size_t i = 0; i < shown_.rows.size(); ++i) {
      size_t column = 0;
      for (const Cell& cell : shown_.rows[i].cells) {
        if (i == shown_.cursor.row && column == shown_.cursor.column) flow.PutCursor(1);
        column += cell.columns;
        if (cell.ends_line) {
          flow.EndLine();
        } else {
          flow.Add(cell);
        }
      }
      if (i == shown_.cursor.row && column <= shown_.cursor.column) flow.PutCursor(1);
    }
    shown_ = flow.Take();
    at_row_ = shown_.cursor.row;
  }
  size_ = size;
  at_row_ = std::min(at_row_, std::max<size_t>(1, size.rows) - 1);
  // All of it is written again.
  shown_.rows.clear();
}

void Painter::Forget() {
  shown_ = {};
  at_row_ = 0;
  top_ = 0;
}

}  // namespace ng::run
