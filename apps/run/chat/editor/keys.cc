#include "apps/run/chat/editor/keys.h"

#include <algorithm>
#include <utility>

namespace ng::run {
namespace {

constexpr char kEscape = '\033';
constexpr std::string_view kPasteEnd = "\033[201~";

struct ControlKey {
  char byte;
  KeyKind kind;
};
constexpr ControlKey kControlKeys[] = {
    {'\x01', KeyKind::kLineBegin},      {'\x02', KeyKind::kLeft},
    {'\x04', KeyKind::kDeleteOrEnd},    {'\x05', KeyKind::kLineEnd},
    {'\x06', KeyKind::kRight},          {'\x07', KeyKind::kCancel},
    {'\x08', KeyKind::kBackspace},      {'\x09', KeyKind::kComplete},
    {'\x0A', KeyKind::kEnter},          {'\x0B', KeyKind::kCutToLineEnd},
    {'\x0C', KeyKind::kClear},          {'\x0D', KeyKind::kEnter},
    {'\x0E', KeyKind::kDown},           {'\x10', KeyKind::kUp},
    {'\x12', KeyKind::kSearch},         {'\x14', KeyKind::kSwap},
    {'\x15', KeyKind::kCutToLineBegin}, {'\x17', KeyKind::kCutBlankWord},
    {'\x19', KeyKind::kPasteCut},       {'\x1A', KeyKind::kSuspend},
    {'\x1F', KeyKind::kUndo},           {'\x7F', KeyKind::kBackspace},
};
// Behind ESC.
constexpr ControlKey kAltKeys[] = {
    {'\x0A', KeyKind::kNewLine},       {'\x0D', KeyKind::kNewLine},
    {'b', KeyKind::kWordLeft},         {'f', KeyKind::kWordRight},
    {'d', KeyKind::kCutWordBehind},    {'<', KeyKind::kTextBegin},
    {'>', KeyKind::kTextEnd},          {'\x08', KeyKind::kCutWordBefore},
    {'\x7F', KeyKind::kCutWordBefore},
};

struct SequenceKey {
  std::string_view sequence;  // behind ESC [ or ESC O
  KeyKind kind;
};
constexpr SequenceKey kSequenceKeys[] = {
    {"A", KeyKind::kUp},          {"B", KeyKind::kDown},         {"C", KeyKind::kRight},
    {"D", KeyKind::kLeft},        {"H", KeyKind::kLineBegin},    {"F", KeyKind::kLineEnd},
    {"1~", KeyKind::kLineBegin},  {"7~", KeyKind::kLineBegin},   {"4~", KeyKind::kLineEnd},
    {"8~", KeyKind::kLineEnd},    {"3~", KeyKind::kDelete},      {"1;5C", KeyKind::kWordRight},
    {"1;5D", KeyKind::kWordLeft}, {"1;5H", KeyKind::kTextBegin}, {"1;5F", KeyKind::kTextEnd},
    {"13;2u", KeyKind::kNewLine}, {"13;3u", KeyKind::kNewLine},  {"27;2;13~", KeyKind::kNewLine},
};

// Ends of lines of any kind become \n, and a NUL nothing. The last end of a line goes: whole lines
// were copied.
std::string PastedText(std::string_view pasted) {
  std::string text;
  for (size_t i = 0; i < pasted.size(); ++i) {
    const char c = pasted[i];
    const bool of_pair = c == '\n' && i > 0 && pasted[i - 1] == '\r';
    if (c != '\0' && !of_pair) text += c == '\r' ? '\n' : c;
  }
  if (text.ends_with('\n')) text.pop_back();
  return ReplaceInvalidUtf8(text);
}

// Without the control characters that are two bytes, U+0080 to U+009F.
std::string WithoutControls(std::string text) {
  for (size_t at = 0; (at = text.find('\xC2', at)) != text.npos;) {
    const bool control = at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xA0;
    if (control) {
      text.erase(at, 2);
    } else {
      ++at;
    }
  }
  return text;
}

bool IsControl(char byte) { return static_cast<unsigned char>(byte) < 0x20 || byte == '\x7F'; }

}  // namespace

std::vector<Key> KeyReader::Push(std::string_view bytes) {
  held_ += bytes;
  std::vector<Key> keys;
  std::string_view left = held_;
  while (!left.empty()) {
    const bool text = !pasting_ && !IsControl(left.front());
    if (!text && !pasting_) {
      // A control character ends a character that is not whole.
      std::string cut = text_.Finish();
      if (!cut.empty()) keys.push_back({KeyKind::kText, std::move(cut)});
    }
    const bool escape = !pasting_ && left.front() == kEscape;
    const size_t taken = pasting_ ? TakePaste(left, &keys)
                         : text   ? TakeText(left, &keys)
                         : escape ? TakeEscape(left, &keys)
                                  : TakeControl(left, &keys);
    if (taken == 0) break;
    left.remove_prefix(taken);
  }
  held_.erase(0, held_.size() - left.size());
  return keys;
}

size_t KeyReader::TakeText(std::string_view bytes, std::vector<Key>* keys) {
  after_return_ = false;
  const auto end = std::ranges::find_if(bytes, IsControl);
  const auto size = static_cast<size_t>(end - bytes.begin());
  std::string text = WithoutControls(text_.Push(bytes.substr(0, size)));
  if (!text.empty()) keys->push_back({KeyKind::kText, std::move(text)});
  return size;
}

size_t KeyReader::TakeControl(std::string_view bytes, std::vector<Key>* keys) {
  const char byte = bytes.front();
  const bool same_end = std::exchange(after_return_, byte == '\r') && byte == '\n';
  if (same_end) return 1;
  if (byte == interrupt_) {
    keys->push_back({KeyKind::kInterrupt});
    return 1;
  }
  const auto* const found = std::ranges::find(kControlKeys, byte, &ControlKey::byte);
  if (found != std::end(kControlKeys)) keys->push_back({found->kind});
  return 1;
}

size_t KeyReader::TakeEscape(std::string_view bytes, std::vector<Key>* keys) {
  after_return_ = false;
  if (bytes.size() == 1) return 0;
  const char next = bytes[1];
  if (next == kEscape) return 1;
  if (next == '[' || next == 'O') return TakeSequence(bytes, keys);
  const auto* const found = std::ranges::find(kAltKeys, next, &ControlKey::byte);
  if (found != std::end(kAltKeys)) {
    keys->push_back({found->kind});
    after_return_ = next == '\r';
    return 2;
  }
  const bool ascii = static_cast<unsigned char>(next) < 0x80;
  return ascii && !IsControl(next) ? 2 : 1;
}

// ESC [ numbers and a letter, ESC O and the same; the keys F1 to F5 of a console are ESC [ [ A.
size_t KeyReader::TakeSequence(std::string_view bytes, std::vector<Key>* keys) {
  constexpr size_t kBegin = 2;
  constexpr size_t kLongest = 64;
  size_t end = kBegin;
  if (bytes.substr(kBegin).starts_with('[')) ++end;
  while (end < bytes.size() && bytes[end] >= ' ' && bytes[end] < '@') ++end;
  if (end == bytes.size()) return end < kLongest ? 0 : end;
  if (IsControl(bytes[end]) || static_cast<unsigned char>(bytes[end]) >= 0x80) return end;
  const std::string_view sequence = bytes.substr(kBegin, end + 1 - kBegin);
  if (bytes[1] == '[' && sequence == "200~") {
    pasting_ = true;
  } else {
    const auto* const found = std::ranges::find(kSequenceKeys, sequence, &SequenceKey::sequence);
    if (found != std::end(kSequenceKeys)) keys->push_back({found->kind});
  }
  return end + 1;
}

size_t KeyReader::TakePaste(std::string_view bytes, std::vector<Key>* keys) {
  // The end may have come in two parts.
  const size_t before = paste_.size();
  paste_ += bytes;
  const size_t from = before - std::min(before, kPasteEnd.size());
  const size_t end = paste_.find(kPasteEnd, from);
  if (end == paste_.npos) return bytes.size();
  const size_t taken = end + kPasteEnd.size() - before;
  paste_.resize(end);
  keys->push_back({KeyKind::kPaste, PastedText(std::exchange(paste_, {}))});
  pasting_ = false;
  return taken;
}

}  // namespace ng::run
