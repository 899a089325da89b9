// Editor: a message while it is typed: keys go in, and what there is to show comes out. It knows no
// terminal.
#ifndef NG_APPS_RUN_CHAT_EDITOR_EDITOR_H_
#define NG_APPS_RUN_CHAT_EDITOR_EDITOR_H_

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/run/chat/editor/edit_text.h"
#include "apps/run/chat/editor/keys.h"

namespace ng::run {

// What a key has come to.
enum class Outcome {
  kGoesOn,
  kMessage,      // text() is to be sent
  kInterrupted,  // it is to be dropped
  kEnd,
  // These are for whoever has the terminal; the message goes on.
  kComplete,
  kClear,
  kSuspend,
};

// What is shown: the prompt, the text, and where in the text the cursor is.
struct EditView {
  std::string prompt;
  std::string text;
  size_t cursor = 0;  // npos: behind the last character, and nothing comes there any more
};

// Thread: none of its own.
class Editor {
 public:
  // Adds an entry behind those that the arrow keys go back to, unless it is the last one already.
  void Remember(const std::string& entry);

  // Begins a message, with a text for the user to change.
  void Begin(std::string_view text);
  Outcome Take(const Key& key);

  EditView View() const;
  const std::string& text() const { return text_.text(); }
  std::string_view before_cursor() const;
  // Puts a text in, as if it had been typed.
  void Insert(std::string_view text) { Take({KeyKind::kText, std::string(text)}); }

 private:
  // A search in what was typed before.
  struct Search {
    std::string query;
    std::optional<size_t> found;  // the entry; none: nothing has the query
    EditText before;              // the text when it began
  };
  struct Undone {
    EditText text;
    size_t entry;
  };

  // Remembers the text as it is for kUndo. `typing`: text is put in where the last was.
  void Keep(bool typing = false);
  void Type(std::string_view text);
  // Puts in a text that is undone by itself.
  void PutIn(std::string_view text);
  void Undo();
  void CutTo(size_t offset);
  // Whether the key moves the cursor; it has been moved then.
  bool Move(KeyKind kind);
  Outcome Enter();
  // Moves in the history: to what was typed before, or after.
  void GoToEntry(size_t entry);
  Outcome TakeInSearch(const Key& key);
  // Finds the newest entry at or before `from` that has the query.
  void Find(size_t from);

  std::vector<std::string> entries_;
  EditText text_;
  size_t entry_ = 0;                       // that is shown; entries_.size(): the new message
  std::map<size_t, std::string> changed_;  // texts of entries that were left
  std::string cut_;
  std::deque<Undone> undo_;
  size_t undo_bytes_ = 0;
  std::optional<size_t> typed_to_;  // where the cursor was when text was typed last
  std::optional<Search> search_;
};

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_EDITOR_EDITOR_H_
