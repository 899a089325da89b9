// A plain model of a message that is typed: a list of characters and a place in it. A test presses
// keys of an editor and of this, and compares.
#ifndef NG_TESTS_SUPPORT_LINE_MODEL_H_
#define NG_TESTS_SUPPORT_LINE_MODEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ng::test {

// Characters that never join the next one, and the columns they take.
struct ModelCharacter {
  const char* text;
  size_t columns;
};
inline constexpr ModelCharacter kModelCharacters[] = {
    {"a", 1}, {"B", 1},  {"7", 1},  {" ", 1},       {" ", 1},          {"-", 1}, {"\u00FC", 1},
    {"x", 1}, {"한", 2}, {"日", 2}, {"e\u0301", 1}, {"\U0001F600", 2}, {".", 1}, {"\u0416", 1}};

class LineModel {
 public:
  const std::vector<std::string>& characters() const { return now_.characters; }
  size_t cursor() const { return now_.cursor; }
  std::string Text() const {
    std::string text;
    for (const std::string& one : now_.characters) text += one;
    return text;
  }

  // Types one character, as Press may.
  std::string Type(const char* character) {
    const bool blank_before = now_.cursor > 0 && !IsNoBlank(now_.characters[now_.cursor - 1]);
    if (typed_to_ != now_.cursor || blank_before) Keep();
    goal_.reset();
    Insert({character});
    typed_to_ = now_.cursor;
    return character;
  }
  // Ctrl-Z: what is typed afterwards is undone by itself.
  std::string Suspend() {
    typed_to_.reset();
    goal_.reset();
    return "\x1A";
  }
  // The message is dropped and another one begins.
  void Interrupt() {
    now_ = {};
    undo_.clear();
    typed_to_.reset();
    goal_.reset();
  }

  // Presses the key that a random number chooses, and returns what a terminal sends for it.
  std::string Press(uint64_t random) {
    static constexpr const char* kUnknown[] = {"\033[5~",   "\033[15~",  "\033[1;2D", "\033[1;3C",
                                               "\033[3;5~", "\033[[E",   "\033OP",    "\033[Z",
                                               "\033[2~",   "\033[24;2~"};
    const size_t which = random % 100;
    random /= 100;
    if (which < 50) return Type(kModelCharacters[random % std::size(kModelCharacters)].text);
    // A key that is swallowed is none.
    if (which >= 98) return kUnknown[random % std::size(kUnknown)];
    const std::optional<size_t> goal = std::exchange(goal_, std::nullopt);
    typed_to_.reset();
    if (which < 56) return Move(Left(), "\033[D");
    if (which < 60) return Move(Right(), "\033[C");
    if (which < 63) return Move(LineBegin(), random % 2 == 0 ? "\001" : "\033[H");
    if (which < 66) return Move(LineEnd(), random % 2 == 0 ? "\005" : "\033[F");
    if (which < 70) return Vertical(goal, /*up=*/true);
    if (which < 74) return Vertical(goal, /*up=*/false);
    if (which < 80) return Erase(Left(), "\x7F", false);
    if (which < 83) return Erase(Right(), "\033[3~", false);
    if (which < 84) return Move(WordLeft(IsWord), "\033b");
    if (which < 85) return Move(WordRight(), "\033[1;5C");
    if (which < 86) return Erase(WordLeft(IsNoBlank), "\x17", true);
    if (which < 87) return Erase(WordRight(), "\033d", true);
    if (which < 88) return Erase(now_.cursor == LineEnd() ? Right() : LineEnd(), "\x0B", true);
    if (which < 89) return Erase(LineBegin(), "\x15", true);
    if (which < 90) return PasteCut();
    if (which < 93) return Undo();
    if (which < 96) return Paste(random);
    return NewLine();
  }

 private:
  struct State {
    std::vector<std::string> characters;
    size_t cursor = 0;
  };

  static size_t Columns(const std::string& character) {
    for (const ModelCharacter& one : kModelCharacters) {
      if (character == one.text) return one.columns;
    }
    return 0;
  }
  static bool IsWord(const std::string& c) {
    return c != " " && c != "\n" && c != "-" && c != "." && c != "\U0001F600";
  }
  static bool IsNoBlank(const std::string& c) { return c != " " && c != "\n"; }

  size_t Left() const { return now_.cursor - std::min<size_t>(now_.cursor, 1); }
  size_t Right() const { return std::min(now_.cursor + 1, now_.characters.size()); }
  size_t LineBegin() const {
    size_t at = now_.cursor;
    while (at > 0 && now_.characters[at - 1] != "\n") --at;
    return at;
  }
  size_t LineEnd() const { return LineEndOf(now_.cursor); }
  size_t LineEndOf(size_t at) const {
    while (at < now_.characters.size() && now_.characters[at] != "\n") ++at;
    return at;
  }
  size_t WordLeft(bool (*is)(const std::string&)) const {
    size_t at = now_.cursor;
    while (at > 0 && !is(now_.characters[at - 1])) --at;
    while (at > 0 && is(now_.characters[at - 1])) --at;
    return at;
  }
  size_t WordRight() const {
    size_t at = now_.cursor;
    while (at < now_.characters.size() && !IsWord(now_.characters[at])) ++at;
    while (at < now_.characters.size() && IsWord(now_.characters[at])) ++at;
    return at;
  }

  void Keep() { undo_.push_back(now_); }
  std::string Move(size_t to, const char* sent) {
    now_.cursor = to;
    return sent;
  }
  std::string Vertical(std::optional<size_t> goal, bool up) {
    const char* const sent = up ? "\033[A" : "\033[B";
    const size_t begin = LineBegin();
    const size_t end = LineEnd();
    size_t column = 0;
    for (size_t i = begin; i < now_.cursor; ++i) column += Columns(now_.characters[i]);
    goal_ = goal ? goal : column;
    if (up ? begin == 0 : end == now_.characters.size()) {
      goal_ = goal;
      return sent;
    }
    size_t at = end + 1;
    if (up) {
      at = begin - 1;
      while (at > 0 && now_.characters[at - 1] != "\n") --at;
    }
    const size_t line_end = LineEndOf(at);
    for (column = 0; at < line_end; ++at) {
      column += Columns(now_.characters[at]);
      if (column > *goal_) break;
    }
    now_.cursor = at;
    return sent;
  }
  std::string Erase(size_t to, const char* sent, bool cut) {
    const auto [begin, end] = std::minmax(now_.cursor, to);
    if (begin == end) return sent;
    Keep();
    const auto at = [&](size_t i) { return now_.characters.begin() + static_cast<ptrdiff_t>(i); };
    if (cut) cut_.assign(at(begin), at(end));
    now_.characters.erase(at(begin), at(end));
    now_.cursor = begin;
    return sent;
  }
  void Insert(const std::vector<std::string>& characters) {
    now_.characters.insert(now_.characters.begin() + static_cast<ptrdiff_t>(now_.cursor),
                           characters.begin(), characters.end());
    now_.cursor += characters.size();
  }
  std::string NewLine() {
    Keep();
    Insert({"\n"});
    return "\033\r";
  }
  std::string PasteCut() {
    if (cut_.empty()) return "\x19";
    Keep();
    Insert(cut_);
    return "\x19";
  }
  std::string Undo() {
    if (!undo_.empty()) {
      now_ = undo_.back();
      undo_.pop_back();
    }
    return "\x1F";
  }
  std::string Paste(uint64_t random) {
    std::string text;
    for (size_t n = random % 30; n > 0; --n) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      const size_t which = (random >> 33U) % 20;
      const bool ends_line = which >= std::size(kModelCharacters);
      const char* const end = which % 3 == 0 ? "\r\n" : which % 3 == 1 ? "\r" : "\n";
      text += ends_line ? end : kModelCharacters[which].text;
    }
    const std::string sent = "\033[200~" + text + "\033[201~";
    const std::vector<std::string> pasted = Pasted(text);
    if (pasted.empty()) return sent;
    Keep();
    Insert(pasted);
    return sent;
  }
  static std::vector<std::string> Pasted(std::string_view text) {
    std::vector<std::string> pasted;
    while (!text.empty()) {
      size_t n = text.starts_with("\r\n") ? 2 : 1;
      std::string one = "\n";
      if (text[0] != '\r' && text[0] != '\n') {
        for (const ModelCharacter& c : kModelCharacters) {
          if (text.starts_with(c.text)) one = c.text;
        }
        n = one.size();
      }
      pasted.push_back(one);
      text.remove_prefix(n);
    }
    if (!pasted.empty() && pasted.back() == "\n") pasted.pop_back();
    return pasted;
  }

  State now_;
  std::vector<State> undo_;
  std::vector<std::string> cut_;
  std::optional<size_t> typed_to_;
  std::optional<size_t> goal_;  // column that Up and Down keep to
};

// The rows of a screen that show the prompt and the text, and where the cursor is.
struct ModelScreen {
  std::vector<std::string> rows;
  size_t row = 0;
  size_t column = 0;
};
inline ModelScreen ScreenOf(const LineModel& model, size_t columns) {
  ModelScreen screen = {.rows = {"> "}};
  size_t at = 2;
  const auto next_row = [&] {
    screen.rows.emplace_back();
    at = 0;
  };
  for (size_t i = 0; i <= model.characters().size(); ++i) {
    const bool end = i == model.characters().size();
    const std::string one = end ? "" : model.characters()[i];
    size_t width = 0;
    for (const ModelCharacter& c : kModelCharacters) width = one == c.text ? c.columns : width;
    const bool has_cursor = i == model.cursor();
    if (at + std::max<size_t>(width, has_cursor ? 1 : 0) > columns) next_row();
    if (has_cursor) {
      screen.row = screen.rows.size() - 1;
      screen.column = at;
    }
    if (end) break;
    if (one == "\n") {
      next_row();
      continue;
    }
    screen.rows.back() += one;
    at += width;
  }
  return screen;
}

}  // namespace ng::test

#endif  // NG_TESTS_SUPPORT_LINE_MODEL_H_
