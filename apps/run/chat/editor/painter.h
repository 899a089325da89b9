// Painter: makes the bytes by which a terminal shows a message while it is typed.
//
// It knows where it has left the cursor, and writes again what differs from what is shown. The
// terminal breaks the lines itself, so that it knows what belongs together when its size changes.
// A message that is taller than the screen is shown in part, with the cursor in it.
#ifndef NG_APPS_RUN_CHAT_EDITOR_PAINTER_H_
#define NG_APPS_RUN_CHAT_EDITOR_PAINTER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "apps/run/chat/editor/editor.h"

namespace ng::run {

struct ScreenSize {
  size_t columns = 80;
  size_t rows = 24;
};

// What stands in one or two columns.
struct Cell {
  std::string text;
  size_t columns = 1;
  bool ends_line = false;  // behind the last one of a line: no text and no column

  bool operator==(const Cell&) const = default;
};

// The cells of a row, which the next row goes on with where none ends the line.
struct ScreenRow {
  std::vector<Cell> cells;

  bool operator==(const ScreenRow&) const = default;
};

struct ScreenPlace {
  size_t row = 0;
  size_t column = 0;
};

// A text on rows of a width, and where the cursor is.
struct Layout {
  std::vector<ScreenRow> rows;
  ScreenPlace cursor;
};
Layout LayOut(const EditView& view, size_t columns);

// Thread: none of its own.
class Painter {
 public:
  // Each returns what to write to the terminal.
  //
  // Shows the view in place of what is shown; where nothing is, below the cursor.
  std::string Paint(const EditView& view, const ScreenSize& size);
  // Shows all of it, and leaves the cursor on the line below.
  std::string Finish(const EditView& view, const ScreenSize& size);

  // The terminal has another size and has broken its lines anew.
  void Resize(const ScreenSize& size);
  // Nothing that was shown counts any more: the cursor is at the beginning of a line.
  void Forget();

 private:
  // Moves the cursor to a row that is shown, at its beginning.
  std::string GoTo(size_t row);
  // Writes rows from the cursor on, which is at the beginning of the first.
  std::string WriteRows(size_t from);

  ScreenSize size_;
  Layout shown_;       // of it the rows from `top_` on that fit the screen
  size_t top_ = 0;     // in the layout of the whole text
  size_t at_row_ = 0;  // where the cursor is, in shown_
};

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_EDITOR_PAINTER_H_
