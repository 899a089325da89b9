#include "apps/run/chat/editor/editor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/common/screen_text.h"

namespace ng::run {
namespace {

constexpr size_t kMostEntries = 1000;
constexpr size_t kMostUndone = 1000;
constexpr size_t kMostUndoneBytes = size_t{16} << 20;

bool EndsWithBlank(std::string_view text) {
  return text.ends_with(' ') || text.ends_with('\n') || text.ends_with('\t');
}

}  // namespace

void Editor::Remember(const std::string& entry) {
  if (!entries_.empty() && entries_.back() == entry) return;
  entries_.push_back(entry);
  if (entries_.size() > kMostEntries) entries_.erase(entries_.begin());
}

void Editor::Begin(std::string_view text) {
  text_.Set(std::string(text));
  entry_ = entries_.size();
  changed_.clear();
  undo_.clear();
  undo_bytes_ = 0;
  typed_to_.reset();
  search_.reset();
}

std::string_view Editor::before_cursor() const {
  return std::string_view(text_.text()).substr(0, text_.cursor());
}

EditView Editor::View() const {
  if (!search_) return {"> ", text_.text(), text_.cursor()};
  const char* const what = search_->found || search_->query.empty() ? "search" : "not found";
  return {absl::StrCat("(", what, ": ", search_->query, ") "), text_.text(), text_.cursor()};
}

void Editor::Keep(bool typing) {
  // What is typed in one go is undone in one go, word by word.
  const bool goes_on = typing && typed_to_ == text_.cursor() && !EndsWithBlank(before_cursor());
  if (goes_on) return;
  undo_.push_back({text_, entry_});
  undo_bytes_ += text_.text().size();
  while (undo_.size() > kMostUndone || (undo_bytes_ > kMostUndoneBytes && undo_.size() > 1)) {
    undo_bytes_ -= undo_.front().text.text().size();
    undo_.pop_front();
  }
}

// Much may come at once; it is undone as if it had come key by key.
void Editor::Type(std::string_view text) {
  while (!text.empty()) {
    const size_t blank = text.find_first_of(" \t");
    const std::string_view word = text.substr(0, blank == text.npos ? blank : blank + 1);
    Keep(/*typing=*/true);
    text_.Insert(word);
    typed_to_ = text_.cursor();
    text.remove_prefix(word.size());
  }
}

void Editor::PutIn(std::string_view text) {
  if (text.empty()) return;
  Keep();
  text_.Insert(text);
}

void Editor::Undo() {
  if (undo_.empty()) return;
  if (undo_.back().entry != entry_) changed_[entry_] = text_.text();
  entry_ = undo_.back().entry;
  undo_bytes_ -= undo_.back().text.text().size();
  text_ = std::move(undo_.back().text);
  text_.MoveTo(text_.cursor());
  undo_.pop_back();
}

void Editor::CutTo(size_t offset) {
  if (offset == text_.cursor()) return;
  Keep();
  cut_ = text_.Cut(offset);
}

Outcome Editor::Enter() {
  if (!text_.text().ends_with('\\')) return Outcome::kMessage;
  Keep();
  text_.MoveTo(text_.text().size());
  text_.Cut(text_.text().size() - 1);
  text_.Insert("\n");
  return Outcome::kGoesOn;
}

void Editor::GoToEntry(size_t entry) {
  changed_[entry_] = text_.text();
  entry_ = entry;
  const auto changed = changed_.find(entry);
  text_.Set(changed == changed_.end() ? entries_[entry] : changed->second);
  undo_.clear();
  undo_bytes_ = 0;
}

bool Editor::Move(KeyKind kind) {
  switch (kind) {
    case KeyKind::kLeft:
      text_.MoveTo(text_.Left());
      break;
    case KeyKind::kRight:
      text_.MoveTo(text_.Right());
      break;
    case KeyKind::kUp:
      if (!text_.MoveUp() && entry_ > 0) GoToEntry(entry_ - 1);
      break;
    case KeyKind::kDown:
      if (!text_.MoveDown() && entry_ < entries_.size()) GoToEntry(entry_ + 1);
      break;
    case KeyKind::kWordLeft:
      text_.MoveTo(text_.WordLeft());
      break;
    case KeyKind::kWordRight:
      text_.MoveTo(text_.WordRight());
      break;
    case KeyKind::kLineBegin:
      text_.MoveTo(text_.LineBegin());
      break;
    case KeyKind::kLineEnd:
      text_.MoveTo(text_.LineEnd());
      break;
    case KeyKind::kTextBegin:
      text_.MoveTo(0);
      break;
    case KeyKind::kTextEnd:
      text_.MoveTo(text_.text().size());
      break;
    default:
      return false;
  }
  return true;
}

Outcome Editor::Take(const Key& key) {
  if (search_) return TakeInSearch(key);
  const std::optional<size_t> typed_to = std::exchange(typed_to_, std::nullopt);
  if (Move(key.kind)) return Outcome::kGoesOn;
  text_.MoveTo(text_.cursor());  // Up and Down have another column, also where the key does nothing
  switch (key.kind) {
    case KeyKind::kText:
      typed_to_ = typed_to;
      Type(key.text);
      break;
    case KeyKind::kPaste:
      PutIn(key.text);
      break;
    case KeyKind::kNewLine:
      PutIn("\n");
      break;
    case KeyKind::kEnter:
      return Enter();
    case KeyKind::kDeleteOrEnd:
      if (text_.text().empty()) return Outcome::kEnd;
      [[fallthrough]];
    case KeyKind::kDelete:
    case KeyKind::kBackspace: {
      const size_t to = key.kind == KeyKind::kBackspace ? text_.Left() : text_.Right();
      if (to == text_.cursor()) break;
      Keep();
      text_.Cut(to);
      break;
    }
    case KeyKind::kCutBlankWord:
      CutTo(text_.BlankWordLeft());
      break;
    case KeyKind::kCutWordBefore:
      CutTo(text_.WordLeft());
      break;
    case KeyKind::kCutWordBehind:
      CutTo(text_.WordRight());
      break;
    case KeyKind::kCutToLineBegin:
      CutTo(text_.LineBegin());
      break;
    case KeyKind::kCutToLineEnd:
      CutTo(text_.cursor() == text_.LineEnd() ? text_.Right() : text_.LineEnd());
      break;
    case KeyKind::kPasteCut:
      PutIn(cut_);
      break;
    case KeyKind::kSwap: {
      EditText swapped = text_;
      if (!swapped.Swap()) break;
      Keep();
      text_ = std::move(swapped);
      break;
    }
    case KeyKind::kUndo:
      Undo();
      break;
    case KeyKind::kSearch:
      search_ = Search{.query = {}, .found = std::nullopt, .before = text_};
      break;
    case KeyKind::kComplete:
      return Outcome::kComplete;
    case KeyKind::kClear:
      return Outcome::kClear;
    case KeyKind::kSuspend:
      return Outcome::kSuspend;
    case KeyKind::kInterrupt:
      return Outcome::kInterrupted;
    default:
      break;
  }
  return Outcome::kGoesOn;
}

void Editor::Find(size_t from) {
  const std::string query = FoldedCase(search_->query);
  search_->found.reset();
  if (query.empty()) {
    text_ = search_->before;
    return;
  }
  for (size_t i = std::min(from + 1, entries_.size()); i > 0; --i) {
    if (FoldedCase(entries_[i - 1]).find(query) == std::string::npos) continue;
    search_->found = i - 1;
    text_.Set(entries_[i - 1]);
    return;
  }
}

Outcome Editor::TakeInSearch(const Key& key) {
  Search& search = *search_;
  const size_t newest = entries_.size();
  switch (key.kind) {
    case KeyKind::kText:
    case KeyKind::kPaste:
      search.query += key.text.substr(0, key.text.find('\n'));
      Find(search.found.value_or(newest));
      return Outcome::kGoesOn;
    case KeyKind::kBackspace:
      if (!search.query.empty()) search.query.resize(ClustersOf(search.query).back().begin);
      Find(newest);
      return Outcome::kGoesOn;
    case KeyKind::kSearch: {
      const std::optional<size_t> found = search.found;
      if (!found || *found == 0) return Outcome::kGoesOn;
      Find(*found - 1);
      if (!search.found) search.found = found;  // it was the oldest
      return Outcome::kGoesOn;
    }
    case KeyKind::kCancel:
    case KeyKind::kInterrupt:
      text_ = search.before;
      search_.reset();
      return Outcome::kGoesOn;
    case KeyKind::kClear:
      return Outcome::kClear;
    default:
      break;
  }
  // The entry that was found is taken, and then comes what the key does.
  const std::optional<size_t> found = search.found;
  const EditText before = search.before;
  search_.reset();
  if (found) {
    text_ = before;
    GoToEntry(*found);
    text_.Set(entries_[*found]);
  }
  return Take(key);
}

}  // namespace ng::run
