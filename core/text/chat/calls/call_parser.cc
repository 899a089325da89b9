#include "core/text/chat/calls/call_parser.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace ng::calls {
namespace {

using DeltaKind = AnswerDelta::Kind;

// How a mark begins; 0: it has nothing but blanks.
char32_t FirstOf(SymbolsView mark) {
  const SymbolsView trimmed = TrimLeft(mark);
  return trimmed.empty() ? U'\0' : trimmed.front();
}

}  // namespace

CallParser::CallParser(const CallFormat& format, ToolSchemas tools, Begins begins)
    : format_(format),
      tools_(std::move(tools)),
      reads_calls_(begins.calls),
      place_(begins.thinks ? Place::kReasoning : Place::kContent),
      drops_blanks_(begins.thinks) {}

void CallParser::Push(int32_t id, std::string_view bytes) {
  const char32_t token = kFirstToken + static_cast<char32_t>(id);
  if (format_.tokens.contains(token)) {
    waiting_ += token;
  } else {
    waiting_ += SymbolsOf(bytes);
  }
  Run();
}

void CallParser::Finish() {
  ended_ = true;
  Run();
  if (place_ == Place::kArguments) {
    std::string json;
    if (members_) {
      members_->Finish(Waiting(), &json);
    } else {
      json = TextOf(Waiting(), format_.tokens);
    }
    deltas_.Add(DeltaKind::kArguments, n_calls_ - 1,
                arguments_begun_ || !json.empty() ? json : "{}");
  }
  if (place_ == Place::kContent) EmitText(DeltaKind::kContent, {});
  if (place_ == Place::kReasoning) EmitText(DeltaKind::kReasoning, {});
  waiting_.clear();
  begin_ = 0;
  deltas_.EndPiece();
}

void CallParser::Run() {
  while (begin_ < waiting_.size() && Step()) {
  }
  constexpr size_t kMuch = 4096;
  if (begin_ == waiting_.size() || begin_ > kMuch) {
    waiting_.erase(0, begin_);
    begin_ = 0;
  }
}

bool CallParser::Step() {
  switch (place_) {
    case Place::kContent:
      return StepContent();
    case Place::kReasoning:
      return StepReasoning();
    case Place::kArguments:
      return StepArguments();
    case Place::kRest:
      return StepRest();
    case Place::kAfter:
      return StepAfter();
    case Place::kBroken:
      return StepBroken();
  }
  return false;
}

Found CallParser::TakeMark(SymbolsView mark) {
  size_t at = 0;
  if (Trim(mark).empty()) return Found::kNo;
  const Found found = FindMark(Waiting(), mark, &at);
  if (found == Found::kYes) Drop(at);
  return found == Found::kMore && ended_ ? Found::kNo : found;
}

void CallParser::EmitText(DeltaKind kind, std::string_view text) {
  if (!drops_blanks_) deltas_.Add(kind, 0, blanks_);
  blanks_.clear();
  if (text.empty()) return;
  drops_blanks_ = false;
  if (kind == DeltaKind::kContent) said_ = true;
  deltas_.Add(kind, 0, text);
}

void CallParser::TakeText(DeltaKind kind) {
  const SymbolsView in = Waiting();
  size_t n = 1;
  while (n < in.size() && !IsBlank(in[n]) && !MayBeginMark(in[n])) ++n;
  EmitText(kind, TextOf(in.substr(0, n), format_.tokens));
  Drop(n);
}

bool CallParser::CallMayBegin() const {
  return reads_calls_ && (format_.is_marked() || format_.text_before || !said_);
}

bool CallParser::MayBeginMark(char32_t symbol) const {
  if (symbol == FirstOf(format_.reasoning_begin) || symbol == FirstOf(format_.reasoning_end)) {
    return true;
  }
  for (const Symbols& mark : format_.skipped) {
    if (symbol == FirstOf(mark)) return true;
  }
  const char32_t call = FirstOf(format_.call_begin);
  const char32_t section = FirstOf(format_.section_begin);
  if (call != 0 || section != 0) return symbol == call || symbol == section;
  if (format_.has_envelope()) return symbol == '{';
  return std::ranges::any_of(format_.heads, [&](const std::vector<HeadPart>& head) {
    return head.front().kind != HeadPart::Kind::kLiteral || symbol == FirstOf(head.front().text);
  });
}

bool CallParser::StepContent() {
  const char32_t symbol = Waiting().front();
  if (IsBlank(symbol)) {
    blanks_ += static_cast<char>(symbol);
    Drop(1);
    return true;
  }
  if (!MayBeginMark(symbol)) {
    TakeText(DeltaKind::kContent);
    return true;
  }
  // Where the mark is no token, only an answer's beginning is one of thoughts.
  const bool may_think = IsToken(FirstOf(format_.reasoning_begin)) || !said_;
  const Found thinks = may_think ? TakeMark(format_.reasoning_begin) : Found::kNo;
  if (thinks == Found::kYes) place_ = Place::kReasoning;
  Found skipped = Found::kNo;
  for (size_t i = 0; i < format_.skipped.size() && skipped != Found::kYes; ++i) {
    if (thinks == Found::kYes) break;
    skipped = std::max(skipped, TakeMark(format_.skipped[i]));
  }
  if (thinks == Found::kYes || skipped == Found::kYes) {
    blanks_.clear();
    drops_blanks_ = true;
    return true;
  }
  const Found call = CallMayBegin() ? TakeCall(/*behind_a_call=*/false) : Found::kNo;
  if (call == Found::kYes) return true;
  if (thinks == Found::kMore || skipped == Found::kMore || call == Found::kMore) return false;
  TakeText(DeltaKind::kContent);
  return true;
}

bool CallParser::StepReasoning() {
  const char32_t symbol = Waiting().front();
  if (IsBlank(symbol)) {
    blanks_ += static_cast<char>(symbol);
    Drop(1);
    return true;
  }
  const Found end = TakeMark(format_.reasoning_end);
  if (end == Found::kMore) return false;
  if (end == Found::kYes) {
    blanks_.clear();
    drops_blanks_ = true;
    place_ = Place::kContent;
    return true;
  }
  // A call may come without the end of the thoughts, where its mark is a token.
  if (reads_calls_ && IsToken(symbol)) {
    const Found call = TakeCall(/*behind_a_call=*/false);
    if (call != Found::kNo) return call == Found::kYes;
  }
  TakeText(DeltaKind::kReasoning);
  return true;
}

Found CallParser::TakeCall(bool behind_a_call) {
  const SymbolsView in = Waiting();
  const SymbolsView first = behind_a_call ? format_.separator : format_.section_begin;
  const bool may_lack_first = !Trim(first).empty() && !Trim(format_.call_begin).empty();
  Found best = Found::kNo;
  for (const bool lacks : {false, true}) {
    if (lacks && !may_lack_first) break;
    size_t at = 0;
    Found found = lacks ? Found::kYes : FindMark(in, first, &at);
    if (found == Found::kYes) found = FindMark(in, format_.call_begin, &at);
    CallHead head;
    if (found == Found::kYes) found = FindHead(in, format_, &at, &head);
    if (found == Found::kMore && !ended_) best = found;
    if (found != Found::kYes) continue;
    if (!format_.is_marked() && !tools_.empty() && !tools_.Has(head.name)) continue;
    Drop(at);
    BeginCall(head);
    return found;
  }
  return best;
}

void CallParser::BeginCall(const CallHead& head) {
  blanks_.clear();
  head_ = head;
  tool_ = head.name;
  deltas_.AddCall(n_calls_++, head.name, head.id);
  n_call_ends_ = 0;
  n_ends_ = 0;
  arguments_begun_ = false;
  value_.reset();
  members_.reset();
  if (!head.has_arguments) {
    deltas_.Add(DeltaKind::kArguments, n_calls_ - 1, head.arguments);
    return EndArguments();
  }
  place_ = Place::kArguments;
  if (format_.arguments == CallFormat::Arguments::kMembers) {
    members_.emplace(format_, tools_, tool_);
  } else {
    value_.emplace(format_.notation, format_.tokens, ValueReader::Kind::kArguments);
  }
}

void CallParser::EndArguments() { place_ = head_.depth > 0 ? Place::kRest : Place::kAfter; }

bool CallParser::StepArguments() {
  const char32_t symbol = Waiting().front();
  if (!arguments_begun_ && IsBlank(symbol)) {
    Drop(1);
    return true;
  }
  if (members_) return StepMembers();
  if (!arguments_begun_) {
    if (format_.has_envelope() && symbol == '"') return StepQuoted();
    if (symbol != format_.notation.open) {
      deltas_.Add(DeltaKind::kArguments, n_calls_ - 1, "{}");
      EndArguments();
      return true;
    }
    arguments_begun_ = true;
  }
  return StepObject();
}

bool CallParser::StepObject() {
  std::string json;
  const size_t n = value_->Read(Waiting(), ended_, &json);
  Drop(n);
  deltas_.Add(DeltaKind::kArguments, n_calls_ - 1, json);
  if (value_->state() == ValueReader::State::kDone) EndArguments();
  if (value_->state() == ValueReader::State::kBroken) place_ = Place::kBroken;
  return n > 0 || value_->state() != ValueReader::State::kGoing;
}

bool CallParser::StepQuoted() {
  std::string json;
  ValueReader reader(format_.notation, format_.tokens);
  const size_t n = reader.Read(Waiting(), ended_, &json);
  if (reader.state() == ValueReader::State::kGoing) return false;
  arguments_begun_ = true;
  const auto text = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (reader.state() == ValueReader::State::kBroken || !text.is_string()) {
    place_ = Place::kBroken;
    return true;
  }
  Drop(n);
  const std::string arguments = text.get<std::string>();
  deltas_.Add(DeltaKind::kArguments, n_calls_ - 1, arguments.empty() ? "{}" : arguments);
  EndArguments();
  return true;
}

bool CallParser::StepMembers() {
  std::string json;
  const size_t n = members_->Read(Waiting(), ended_, &json);
  Drop(n);
  arguments_begun_ = arguments_begun_ || !json.empty();
  deltas_.Add(DeltaKind::kArguments, n_calls_ - 1, json);
  if (members_->state() == MemberReader::State::kDone) EndArguments();
  if (members_->state() == MemberReader::State::kBroken) place_ = Place::kBroken;
  return n > 0 || members_->state() != MemberReader::State::kGoing;
}

bool CallParser::StepRest() {
  size_t at = 0;
  const Found rest = FindRest(Waiting(), format_, head_.depth, &at);
  if (rest == Found::kMore && !ended_) return false;
  if (rest == Found::kYes) Drop(at);
  place_ = Place::kAfter;
  return true;
}

bool CallParser::StepAfter() {
  if (IsBlank(Waiting().front())) {
    Drop(1);
    return true;
  }
  if (n_call_ends_ < format_.call_end.size()) {
    const Found end = TakeMark(format_.call_end[n_call_ends_]);
    if (end != Found::kMore) ++n_call_ends_;
    return end != Found::kMore;
  }
  if (n_ends_ == 0) {
    const Found next = TakeCall(/*behind_a_call=*/true);
    if (next != Found::kNo) return next == Found::kYes;
  }
  if (n_ends_ < format_.section_end.size()) {
    const Found end = TakeMark(format_.section_end[n_ends_]);
    if (end != Found::kMore) ++n_ends_;
    return end != Found::kMore;
  }
  place_ = Place::kContent;
  drops_blanks_ = true;
  return true;
}

bool CallParser::StepBroken() {
  const SymbolsView in = Waiting();
  if (!IsBlank(in.front())) {
    for (n_call_ends_ = 0; n_call_ends_ < format_.call_end.size(); ++n_call_ends_) {
      const Found end = TakeMark(format_.call_end[n_call_ends_]);
      if (end == Found::kMore) return false;
      if (end == Found::kNo) continue;
      ++n_call_ends_;
      place_ = Place::kAfter;
      return true;
    }
  }
  deltas_.Add(DeltaKind::kArguments, n_calls_ - 1, TextOf(in.substr(0, 1), format_.tokens));
  Drop(1);
  return true;
}

}  // namespace ng::calls
