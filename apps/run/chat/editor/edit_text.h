// EditText: a text that is edited and the place of the cursor in it.
//
// The cursor is always between two characters as a reader sees them (apps/common/screen_text.h).
// Offsets are in bytes.
#ifndef NG_APPS_RUN_CHAT_EDITOR_EDIT_TEXT_H_
#define NG_APPS_RUN_CHAT_EDITOR_EDIT_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ng::run {

// Texts are valid UTF-8. Thread: none of its own.
class EditText {
 public:
  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }

  // The cursor goes to the end, or to a place that it has been at in this text.
  void Set(std::string text, std::optional<size_t> cursor = std::nullopt);
  void Insert(std::string_view text);
  // Takes what is between the cursor and an offset out, and returns it.
  std::string Cut(size_t offset);
  // The two characters beside the cursor, or before it at the end of a line. False: there are none.
  bool Swap();

  void MoveTo(size_t offset);
  // To the line above or below, in the same column as far as there is one. False: there is none.
  bool MoveUp();
  bool MoveDown();

  // Places that the cursor may go to.
  size_t Left() const;
  size_t Right() const;
  size_t WordLeft() const;  // a word is letters and digits
  size_t WordRight() const;
  size_t BlankWordLeft() const;  // a word is all but blanks
  size_t LineBegin() const;
  size_t LineEnd() const;

 private:
  size_t LineBeginOf(size_t offset) const;
  size_t LineEndOf(size_t offset) const;
  // The beginning of the character that `offset` is in.
  size_t CharacterAt(size_t offset) const;
  // Where in a line the column of the cursor's line is.
  void MoveIntoLine(size_t line_begin);

  std::string text_;
  size_t cursor_ = 0;
  std::optional<size_t> column_;  // that MoveUp and MoveDown keep to
};

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_EDITOR_EDIT_TEXT_H_
