#include "apps/run/chat/editor/edit_text.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "apps/common/screen_text.h"

namespace ng::run {
namespace {

bool IsWord(std::string_view character) {
  int32_t i = 0;
  UChar32 c = 0;
  U8_NEXT_OR_FFFD(character.data(), i, static_cast<int32_t>(character.size()), c);
  return u_isalnum(c) != 0 || c == '_';
}

bool IsNoBlank(std::string_view character) {
  return character != " " && character != "\t" && character != "\n";
}

}  // namespace

void EditText::Set(std::string text, std::optional<size_t> cursor) {
  text_ = std::move(text);
  cursor_ = cursor.value_or(text_.size());
  column_.reset();
}

void EditText::Insert(std::string_view text) {
  text_.insert(cursor_, text);
  MoveTo(cursor_ + text.size());
}

std::string EditText::Cut(size_t offset) {
  const auto [begin, end] = std::minmax(cursor_, offset);
  std::string cut = text_.substr(begin, end - begin);
  text_.erase(begin, end - begin);
  MoveTo(begin);
  return cut;
}

bool EditText::Swap() {
  if (cursor_ == LineEnd()) MoveTo(Left());
  if (cursor_ == LineBegin() || cursor_ == LineEnd()) return false;
  const size_t begin = Left();
  const size_t end = Right();
  const std::string before = text_.substr(begin, cursor_ - begin);
  const std::string behind = text_.substr(cursor_, end - cursor_);
  text_.replace(begin, end - begin, behind + before);
  MoveTo(end);
  return true;
}

// What has been taken out or put in may have joined the characters beside it.
void EditText::MoveTo(size_t offset) {
  cursor_ = offset;
  column_.reset();
  if (const size_t begin = CharacterAt(offset); begin < offset) cursor_ = Right();
}

size_t EditText::LineBeginOf(size_t offset) const {
  return offset == 0 ? 0 : text_.rfind('\n', offset - 1) + 1;  // npos + 1 is 0
}

size_t EditText::LineEndOf(size_t offset) const {
  return std::min(text_.find('\n', offset), text_.size());
}

size_t EditText::CharacterAt(size_t offset) const {
  const size_t line = LineBeginOf(offset);
  size_t begin = line;
  for (const Cluster& cluster :
       ClustersOf(std::string_view(text_).substr(line, LineEndOf(offset) - line))) {
    if (line + cluster.begin > offset) break;
    begin = line + cluster.begin;
    if (begin + cluster.size <= offset) begin += cluster.size;
  }
  return begin;
}

size_t EditText::LineBegin() const { return LineBeginOf(cursor_); }
size_t EditText::LineEnd() const { return LineEndOf(cursor_); }

size_t EditText::Left() const {
  if (cursor_ == 0 || cursor_ == LineBegin()) return cursor_ - std::min<size_t>(cursor_, 1);
  return CharacterAt(cursor_ - 1);
}

size_t EditText::Right() const {
  if (cursor_ == LineEnd()) return std::min(cursor_ + 1, text_.size());
  const size_t line = LineBegin();
  for (const Cluster& cluster :
       ClustersOf(std::string_view(text_).substr(line, LineEnd() - line))) {
    const size_t end = line + cluster.begin + cluster.size;
    if (end > cursor_) return end;
  }
  return LineEnd();
}

namespace {

// The end of the word behind `from`, or the begin of the one before.
size_t WordEnd(std::string_view text, size_t from, bool (*is_word)(std::string_view)) {
  bool within = false;
  for (const Cluster& cluster : ClustersOf(text.substr(from))) {
    const bool word = is_word(text.substr(from + cluster.begin, cluster.size));
    if (within && !word) return from + cluster.begin;
    within |= word;
  }
  return text.size();
}

size_t WordBegin(std::string_view text, bool (*is_word)(std::string_view)) {
  bool within = false;
  const std::vector<Cluster> clusters = ClustersOf(text);
  for (size_t i = clusters.size(); i > 0; --i) {
    const Cluster& cluster = clusters[i - 1];
    const bool word = is_word(text.substr(cluster.begin, cluster.size));
    if (within && !word) return cluster.begin + cluster.size;
    within |= word;
  }
  return 0;
}

}  // namespace

size_t EditText::WordLeft() const {
  return WordBegin(std::string_view(text_).substr(0, cursor_), IsWord);
}
size_t EditText::WordRight() const { return WordEnd(text_, cursor_, IsWord); }
size_t EditText::BlankWordLeft() const {
  return WordBegin(std::string_view(text_).substr(0, cursor_), IsNoBlank);
}

void EditText::MoveIntoLine(size_t line_begin) {
  const std::string_view text = text_;
  const size_t begin = LineBegin();
  const size_t wanted = column_ ? *column_ : ColumnsOf(text.substr(begin, cursor_ - begin));
  size_t to = line_begin;
  size_t column = 0;
  const std::string_view line = text.substr(line_begin, LineEndOf(line_begin) - line_begin);
  for (const Cluster& cluster : ClustersOf(line)) {
    column = ColumnBehind(line.substr(cluster.begin, cluster.size), column);
    if (column > wanted) break;
    to = line_begin + cluster.begin + cluster.size;
  }
  MoveTo(to);
  column_ = wanted;
}

bool EditText::MoveUp() {
  const size_t begin = LineBegin();
  if (begin == 0) return false;
  MoveIntoLine(LineBeginOf(begin - 1));
  return true;
}

bool EditText::MoveDown() {
  const size_t end = LineEnd();
  if (end == text_.size()) return false;
  MoveIntoLine(end + 1);
  return true;
}

}  // namespace ng::run
