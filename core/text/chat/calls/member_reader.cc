#include "core/text/chat/calls/member_reader.h"

#include <utility>

#include "core/text/chat/calls/value_reader.h"

namespace ng::calls {
namespace {

constexpr size_t kLongestKey = 256;

// The blanks at the ends of a mark, which are part of what is between the mark and a value.
SymbolsView LeadingBlanks(SymbolsView mark) {
  return mark.substr(0, mark.size() - TrimLeft(mark).size());
}
SymbolsView TrailingBlanks(SymbolsView mark) { return mark.substr(TrimRight(mark).size()); }

}  // namespace

size_t MemberReader::Read(SymbolsView in, bool last, std::string* json) {
  size_t done = 0;
  while (state_ == State::kGoing) {
    const Place before = place_;
    const size_t n = Step(in.substr(done), last, json);
    done += n;
    if (n == 0 && place_ == before) break;
  }
  return done;
}

size_t MemberReader::Step(SymbolsView in, bool last, std::string* json) {
  if (!std::exchange(begun_, true)) *json += '{';
  return place_ == Place::kValue ? StepValue(in, json) : StepKey(in, last, json);
}

size_t MemberReader::End(size_t n, std::string* json) {
  *json += '}';
  state_ = State::kDone;
  return n;
}

size_t MemberReader::StepKey(SymbolsView in, bool last, std::string* json) {
  size_t at = 0;
  const bool has_end = !Trim(members_->end).empty();
  const Found end = has_end ? FindMark(in, members_->end, &at) : Found::kNo;
  if (end == Found::kYes) return End(at, json);
  size_t key = 0;
  Found before = first_ ? Found::kYes : FindMark(in, members_->separator, &key);
  if (before == Found::kNo && !Trim(members_->before).empty()) before = Found::kYes;
  if (before == Found::kYes) before = FindMark(in, members_->before, &key);
  if (before == Found::kNo) return End(0, json);  // with or without the mark
  if (before == Found::kMore || end == Found::kMore || key == in.size()) {
    return last && !first_ ? End(0, json) : 0;
  }
  const size_t n_ways = 1 + members_->between_others.size();
  for (at = key; at < in.size() && at - key <= kLongestKey; ++at) {
    if (IsToken(in[at]) && in[at] != TrimLeft(members_->between).front()) break;
    for (size_t way = 0; way < n_ways; ++way) {
      const Symbols& between = way == 0 ? members_->between : members_->between_others[way - 1];
      size_t value = at;
      const Found found = IsBlank(in[at]) ? Found::kNo : FindMark(in, between, &value);
      if (found == Found::kMore) return 0;
      if (found == Found::kNo) continue;
      const std::string name = TextOf(Trim(in.substr(key, at - key)), format_->tokens);
      *json += first_ ? "\"" : ", \"";
      AppendEscaped(name, json);
      *json += "\": ";
      const bool told = n_ways > 1;
      types_ = !told ? tools_->TypesOf(*tool_, name) : way == 0 ? kTextType : kAnyType & ~kTextType;
      is_text_ = types_ == kTextType;
      if (is_text_) *json += '"';
      value_.clear();
      first_ = false;
      begins_ = true;
      place_ = Place::kValue;
      return value;
    }
  }
  if (at == in.size()) return 0;
  state_ = State::kBroken;
  return 0;
}

Found MemberReader::FindAfter(SymbolsView in, size_t* at) const {
  const SymbolsView mark = TrimLeft(members_->after);
  const SymbolsView blanks = LeadingBlanks(members_->after);
  const SymbolsView rest = in.substr(*at);
  if (!blanks.empty() && rest.size() < blanks.size() && blanks.starts_with(rest)) {
    return Found::kMore;
  }
  size_t from = *at;
  if (rest.starts_with(blanks)) from += blanks.size();
  if (from < in.size() && IsBlank(in[from])) return Found::kNo;
  const Found found = FindMark(in, mark, &from);
  if (found == Found::kYes) *at = from;
  return found;
}

size_t MemberReader::StepValue(SymbolsView in, std::string* json) {
  if (begins_) {
    const SymbolsView blanks = TrailingBlanks(members_->between);
    if (in.size() < blanks.size() && blanks.starts_with(in)) return 0;
    begins_ = false;
    if (!blanks.empty() && in.starts_with(blanks)) return blanks.size();
  }
  size_t at = 0;
  while (at < in.size()) {
    size_t end = at;
    const Found after = FindAfter(in, &end);
    if (after == Found::kMore) break;
    if (after == Found::kYes) {
      if (is_text_) {
        *json += '"';
      } else {
        *json += TypedJson(value_, types_);
      }
      place_ = Place::kKey;
      return end;
    }
    const std::string text = TextOf(in.substr(at, 1), format_->tokens);
    if (is_text_) {
      AppendEscaped(text, json);
    } else {
      value_ += text;
    }
    ++at;
  }
  return at;
}

void MemberReader::Finish(SymbolsView in, std::string* json) {
  if (place_ == Place::kValue && !is_text_) *json += value_;
  if (place_ == Place::kValue && is_text_) {
    AppendEscaped(TextOf(in, format_->tokens), json);
  } else {
    *json += TextOf(in, format_->tokens);
  }
}

}  // namespace ng::calls
