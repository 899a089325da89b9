// The editor of the chat without a terminal: keys, what they do, and the bytes that show it.
#include "apps/run/chat/editor/editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "apps/common/screen_text.h"
#include "apps/run/chat/editor/keys.h"
#include "apps/run/chat/editor/painter.h"
#include "tests/support/line_model.h"

namespace ng::run {
namespace {

using test::LineModel;
using test::ModelScreen;
using ::testing::ElementsAre;

void Send(const std::string& bytes, KeyReader& reader, Editor& editor) {
  for (const Key& key : reader.Push(bytes)) editor.Take(key);
}

// What an editor has after these bytes, with a '|' where the cursor is.
class EditorTest : public ::testing::Test {
 protected:
  std::string After(const std::string& bytes) {
    Send(bytes, reader_, editor_);
    return Shown();
  }
  std::string Shown() const {
    const EditView view = editor_.View();
    std::string shown = view.text;
    return (view.prompt == "> " ? "" : view.prompt) + shown.insert(view.cursor, "|");
  }
  void Begin() {
    reader_ = KeyReader();
    editor_.Begin("");
  }

  KeyReader reader_;
  Editor editor_;
};

TEST_F(EditorTest, KeysThatNobodyKnowsAreSwallowedWhole) {
  for (const char* const key : {"\033[5~", "\033[6~", "\033[15~", "\033[1;2A", "\033[1;3D",
                                "\033[3;5~", "\033[[A", "\033OP", "\033[Z", "\033[27;5;9~",
                                "\033[97;5u", "\033x", "\033[?1;2c", "\x16", "\x1D", "\xC2\x9B"}) {
    Begin();
    EXPECT_EQ(After(std::string("a") + key + "b"), "ab|") << key;
    Begin();
    for (const char byte : std::string("a") + key + "b") Send({&byte, 1}, reader_, editor_);
    EXPECT_EQ(Shown(), "ab|") << key;
  }
}

TEST_F(EditorTest, EditsByCharactersAsTheyAreSeen) {
  EXPECT_EQ(After("e\u0301\U0001F468\u200D\U0001F469\u200D\U0001F467\x7F"), "e\u0301|");
  EXPECT_EQ(After("\x7F"), "|");
  EXPECT_EQ(After("日本\033[D\033[D\033[3~"), "|本");
  EXPECT_EQ(After("\x05\xFFz"), "本\uFFFDz|");
}

TEST_F(EditorTest, LinesOfAMessage) {
  EXPECT_EQ(After("first\033\rsecond line\033\r3"), "first\nsecond line\n3|");
  EXPECT_EQ(After("\033[A\x05"), "first\nsecond line|\n3");
  EXPECT_EQ(After("\033[A"), "first|\nsecond line\n3");
  EXPECT_EQ(After("\033[B"), "first\nsecond line|\n3");  // the column is kept
  EXPECT_EQ(After("\x01\x0B"), "first\n|\n3");
  EXPECT_EQ(After("\x0B"), "first\n|3");
  EXPECT_EQ(After("\x1F\x1F"), "first\n|second line\n3");
  EXPECT_EQ(After("\x19"), "first\n\n|second line\n3");
  EXPECT_EQ(After("\033[1;5H"), "|first\n\nsecond line\n3");
  EXPECT_EQ(After("\033[1;5F\\\rx"), "first\n\nsecond line\n3\nx|");
}

TEST_F(EditorTest, APasteIsTakenAsItIs) {
  EXPECT_EQ(After("\033[200~a\r\nb\rc\nd\t\033[5~\r\n\033[201~"), "a\nb\nc\nd\t\033[5~|");
  Begin();
  EXPECT_EQ(After("\033[200~one\033[20"), "|");
  EXPECT_TRUE(reader_.pasting());
  EXPECT_EQ(After("1~two"), "onetwo|");
}

TEST_F(EditorTest, UndoGoesBackByWords) {
  After("one two three");
  EXPECT_EQ(After("\x1F"), "one two |");
  EXPECT_EQ(After("\x1F"), "one |");
  EXPECT_EQ(After("\x1F\x1F"), "|");
}

TEST_F(EditorTest, HistoryIsAtTheEdgesOfAMessage) {
  editor_.Remember("older");
  editor_.Remember("two\nlines");
  editor_.Remember("two\nlines");
  Begin();
  EXPECT_EQ(After("draft\033[A"), "two\nlines|");
  EXPECT_EQ(After("\033[A"), "two|\nlines");
  EXPECT_EQ(After("!\033[A"), "older|");
  EXPECT_EQ(After("\033[A"), "older|");
  EXPECT_EQ(After("\033[B"), "two!\nlines|");  // as it was left
  EXPECT_EQ(After("\033[B"), "draft|");
  EXPECT_EQ(After("\033[B"), "draft|");
}

TEST_F(EditorTest, SearchFindsWithoutCase) {
  editor_.Remember("An OLD word");
  editor_.Remember("Ärger");
  editor_.Remember("something older");
  Begin();
  EXPECT_EQ(After("draft\x12"), "(search: ) draft|");
  EXPECT_EQ(After("old"), "(search: old) something older|");
  EXPECT_EQ(After("\x12"), "(search: old) An OLD word|");
  EXPECT_EQ(After("\x12"), "(search: old) An OLD word|");
  EXPECT_EQ(After("\x07"), "draft|");
  EXPECT_EQ(After("\x12"
                  "ärG\x7FGE\033[D"),
            "Ärge|r");
  EXPECT_EQ(After("\033[B\x12nowhere"), "(not found: nowhere) something older|");
  EXPECT_EQ(editor_.Take({KeyKind::kInterrupt}), Outcome::kGoesOn);
  EXPECT_EQ(After(""), "something older|");
}

TEST_F(EditorTest, AKeyThatDoesNothingEndsTheColumnOfUpAndDown) {
  const std::string lines = "\033[200~abcd\n\nabcd\033[201~";
  EXPECT_EQ(After(lines + "\033[A\033[B"), "abcd\n\nabcd|");
  EXPECT_EQ(After("\033[A\x15\033[B"), "abcd\n\n|abcd");
}

TEST_F(EditorTest, DoesWhatThePlainModelDoes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 25; ++round) {
    LineModel model;
    editor_ = Editor();
    Begin();
    for (int i = 0; i < 400; ++i) {
      const std::string bytes = model.Press(random());
      Send(bytes, reader_, editor_);
      ASSERT_EQ(editor_.text(), model.Text()) << round << ", key " << i << ": " << bytes;
      std::string before;
      for (size_t c = 0; c < model.cursor(); ++c) before += model.characters()[c];
      ASSERT_EQ(editor_.before_cursor(), before) << round << ", key " << i << ": " << bytes;
    }
  }
}

// A terminal: it takes what a Painter writes, breaks lines by itself, and when its width changes it
// breaks them anew.
class Terminal {
 public:
  explicit Terminal(ScreenSize size) : size_(size), rows_(1) {}

  void Write(std::string_view bytes) {
    while (!bytes.empty()) {
      size_t n = 1;
      if (bytes.starts_with("\033[")) {
        n = Sequence(bytes);
      } else if (bytes[0] == '\r') {
        column_ = 0;
      } else if (bytes[0] == '\n') {
        LineDown();
      } else {
        n = std::min(bytes.find_first_of("\033\r\n"), bytes.size());
        for (const Cluster& cluster : ClustersOf(bytes.substr(0, n))) {
          Put(std::string(bytes.substr(cluster.begin, cluster.size)), cluster.columns);
        }
      }
      bytes.remove_prefix(n);
    }
  }

  void Resize(ScreenSize size) {
    // Each line as a whole, and the place of the cursor in one.
    std::vector<Row> broken(1);
    size_t at_row = 0;
    size_t at_column = 0;
    size_t column = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      Row& row = rows_[i];
      size_t old_column = 0;
      if (row.cells.empty() && i == row_) {
        at_row = broken.size() - 1;
        at_column = column;
      }
      for (const Place& cell : row.cells) {
        if (column + cell.columns > size.columns) {
          broken.back().goes_on = true;
          broken.emplace_back();
          column = 0;
        }
        if (i == row_ && old_column <= column_) {
          at_row = broken.size() - 1;
          at_column = column + (column_ - old_column);
        }
        old_column += cell.columns;
        broken.back().cells.push_back(cell);
        column += cell.columns;
      }
      if (!row.goes_on && i + 1 < rows_.size()) {
        broken.emplace_back();
        column = 0;
      }
    }
    at_row += at_column / size.columns;
    while (broken.size() <= at_row) broken.emplace_back();
    rows_ = std::move(broken);
    row_ = at_row;
    column_ = at_column % size.columns;
    size_ = size;
    // The cursor stays on the screen.
    if (row_ + 1 > top_ + size.rows) top_ = row_ + 1 - size.rows;
    top_ = std::min(top_, row_);
    rows_.resize(std::min(rows_.size(), top_ + size.rows));
  }

  size_t row() const { return row_; }
  size_t column() const { return std::min(column_, size_.columns - 1); }
  size_t top() const { return top_; }
  size_t n_rows() const { return rows_.size(); }
  std::string RowText(size_t row) const {
    std::string text;
    if (row >= rows_.size()) return text;
    for (const Place& cell : rows_[row].cells) text += cell.text;
    return text;
  }

 private:
  struct Place {
    std::string text;
    size_t columns = 1;
  };
  struct Row {
    std::vector<Place> cells;
    bool goes_on = false;
  };

  void LineDown() {
    if (++row_ == rows_.size()) rows_.emplace_back();
    if (row_ == top_ + size_.rows) ++top_;
  }
  void Put(const std::string& text, size_t columns) {
    if (column_ + columns > size_.columns) {
      rows_[row_].goes_on = true;
      LineDown();
      column_ = 0;
    }
    // What was there has been erased before, or is written over by as much.
    Row& row = rows_[row_];
    size_t at = 0;
    size_t i = 0;
    while (i < row.cells.size() && at < column_) at += row.cells[i++].columns;
    ASSERT_EQ(at, column_) << "a hole before what is written";
    if (i < row.cells.size()) row.cells.erase(row.cells.begin() + static_cast<ptrdiff_t>(i));
    row.cells.insert(row.cells.begin() + static_cast<ptrdiff_t>(i), {text, columns});
    column_ += columns;
  }
  void EraseLine() {
    Row& row = rows_[row_];
    size_t at = 0;
    size_t i = 0;
    while (i < row.cells.size() && at < column_) at += row.cells[i++].columns;
    row.cells.resize(i);
    row.goes_on = false;
  }
  size_t Sequence(std::string_view bytes) {
    size_t end = 2;
    size_t n = 0;
    while (bytes[end] >= '0' && bytes[end] <= '9')
      n = n * 10 + static_cast<size_t>(bytes[end++] - '0');
    const size_t by = std::max<size_t>(1, n);
    switch (bytes[end]) {
      case 'A':
        row_ -= std::min(by, row_ - top_);
        break;
      case 'B':
        row_ = std::min(row_ + by, std::min(rows_.size(), top_ + size_.rows) - 1);
        break;
      case 'C':
        column_ = std::min(column_ + by, size_.columns - 1);
        break;
      case 'G':
        column_ = by - 1;
        break;
      case 'K':
        EraseLine();
        break;
      case 'J':
        EraseLine();
        rows_.resize(row_ + 1);
        break;
      default:
        ADD_FAILURE() << "unknown sequence " << bytes.substr(0, end + 1);
    }
    return end + 1;
  }

  ScreenSize size_;
  std::vector<Row> rows_;  // with those that have gone up
  size_t top_ = 0;         // the first on the screen
  size_t row_ = 0;
  size_t column_ = 0;
};

// The screen has rows of the model around the cursor, and nothing below them.
void ExpectShown(const Terminal& terminal, const ModelScreen& model, ScreenSize size) {
  const size_t n = std::min(model.rows.size(), size.rows);
  ASSERT_EQ(terminal.column(), model.column);
  // The row of the model that is at the top of what is shown.
  bool found = false;
  for (size_t first = 0; first + n <= model.rows.size() && !found; ++first) {
    if (model.row < first || model.row >= first + n) continue;
    if (terminal.row() < model.row - first) continue;
    const size_t top = terminal.row() - (model.row - first);
    if (top < terminal.top()) continue;
    found = true;
    for (size_t i = 0; i < n && found; ++i) {
      std::string text = terminal.RowText(top + i);
      found = text == model.rows[first + i] || text == model.rows[first + i] + " ";
    }
    found = found && terminal.n_rows() == top + n;
  }
  std::string screen;
  for (size_t i = terminal.top(); i < terminal.n_rows(); ++i) screen += terminal.RowText(i) + "\n";
  std::string wanted;
  for (const std::string& row : model.rows) wanted += row + "\n";
  ASSERT_TRUE(found) << "shown at row " << terminal.row() - terminal.top() << ":\n"
                     << screen << "wanted at row " << model.row << ":\n"
                     << wanted;
}

TEST(Painter, TheScreenShowsWhatTheModelSays) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 15; ++round) {
    ScreenSize size = {10 + random() % 70, 3 + random() % 20};
    Terminal terminal(size);
    terminal.Write("above\r\n");
    KeyReader reader;
    Editor editor;
    Painter painter;
    LineModel model;
    editor.Begin("");
    for (int i = 0; i < 200; ++i) {
      for (size_t n = random() % 4; n > 0; --n) Send(model.Press(random()), reader, editor);
      if (random() % 20 == 0) {
        size = {10 + random() % 70, 3 + random() % 20};
        terminal.Resize(size);
      }
      terminal.Write(painter.Paint(editor.View(), size));
      ASSERT_NO_FATAL_FAILURE(ExpectShown(terminal, ScreenOf(model, size.columns), size))
          << "round " << round << ", key " << i;
    }
    terminal.Write(painter.Finish(editor.View(), size));
    EXPECT_EQ(terminal.RowText(terminal.row()), "");
    EXPECT_EQ(terminal.column(), 0U);
  }
}

TEST(Painter, WhatIsAboveStaysWhenTheWindowGetsNarrowAndWide) {
  ScreenSize size = {60, 20};
  Terminal terminal(size);
  terminal.Write("above\r\n");
  Painter painter;
  const std::string text = "a message of some length, which takes two rows of this screen, or more";
  for (const size_t columns : {60, 20, 33, 10, 80, 9, 61}) {
    size.columns = columns;
    terminal.Resize(size);
    terminal.Write(painter.Paint({"> ", text, 30}, size));
    EXPECT_EQ(terminal.RowText(0), "above");
    EXPECT_EQ(terminal.RowText(1), ("> " + text).substr(0, columns));
  }
  terminal.Write(painter.Finish({"> ", text, 30}, size));
  EXPECT_EQ(terminal.RowText(2), ("> " + text).substr(61));
  EXPECT_EQ(terminal.row(), 3U);
}

TEST(Painter, AMessageTallerThanTheScreenIsAllThereWhenItIsSent) {
  const ScreenSize size = {20, 5};
  Terminal terminal(size);
  Painter painter;
  std::string text = "1";
  for (int i = 2; i <= 12; ++i) text += "\n" + std::to_string(i);
  terminal.Write(painter.Paint({"> ", text, text.size()}, size));
  EXPECT_EQ(terminal.RowText(terminal.row()), "12");
  terminal.Write(painter.Paint({"> ", text, 0}, size));
  EXPECT_EQ(terminal.RowText(terminal.row()), "> 1");
  EXPECT_EQ(terminal.RowText(terminal.row() + 4), "5");
  terminal.Write(painter.Finish({"> ", text, 0}, size));
  for (size_t i = 1; i < 12; ++i) {
    EXPECT_EQ(terminal.RowText(terminal.row() - 12 + i), std::to_string(i + 1));
  }
}

TEST(Painter, ShowsControlCharactersAndTabs) {
  const ScreenSize size = {40, 5};
  Terminal terminal(size);
  Painter painter;
  terminal.Write(painter.Paint({"> ", "a\tb\033[2J\u202Ec", 3}, size));
  EXPECT_EQ(terminal.RowText(0), "> a     b^[[2J<U+202E>c");
  EXPECT_EQ(terminal.column(), 9U);
}

}  // namespace
}  // namespace ng::run
