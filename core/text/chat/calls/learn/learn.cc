#include "core/text/chat/calls/learn/learn.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/text/chat/calls/argument_kinds.h"
#include "core/text/chat/calls/learn/check_format.h"
#include "core/text/chat/calls/learn/known_formats.h"
#include "core/text/chat/calls/learn/learn_members.h"
#include "core/text/chat/calls/value_reader.h"

namespace ng::calls {
namespace {

using Json = nlohmann::ordered_json;

// A call that a template has written, and where its parts are.
struct WrittenCall {
  Symbols text;  // from where the answer begins to where it ends
  std::string key;
  std::string value;
  size_t key_at = 0;
  size_t value_end = 0;
  size_t begin = 0;  // of the call within its marks
  size_t end = 0;
};

size_t FindText(SymbolsView in, std::string_view text, size_t from = 0) {
  return in.find(SymbolsOf(text), from);
}

// Where to is on the way to a value of which `is_it` says that it is the one; empty: nowhere.
template <typename IsIt>
std::vector<std::string> PathTo(const Json& object, const IsIt& is_it) {
  for (const auto& [key, value] : object.items()) {
    if (is_it(value)) return {key};
    if (!value.is_object()) continue;
    std::vector<std::string> path = PathTo(value, is_it);
    if (path.empty()) continue;
    path.insert(path.begin(), key);
    return path;
  }
  return {};
}

// An object around the name and the arguments.
bool LearnEnvelope(WrittenCall* call, CallFormat* format) {
  const Symbols& text = call->text;
  const size_t inside = std::min(FindText(text, kProbeNames[0]), call->key_at);
  for (const bool python : {false, true}) {
    const Notation notation = {.python = python};
    for (size_t at = text.find('{'); at < inside; at = text.find('{', at + 1)) {
      ValueReader reader(notation, format->tokens);
      std::string json;
      const size_t n = reader.Read(SymbolsView(text).substr(at), /*last=*/true, &json);
      if (reader.state() != ValueReader::State::kDone || at + n < call->value_end) continue;
      const Json object = Json::parse(json);
      const auto is_arguments = [&](const Json& value) {
        return value.is_object() && value.contains(call->key);
      };
      const auto is_quoted = [&](const Json& value) {
        return value.is_string() && value.get<std::string>().starts_with('{');
      };
      format->notation = notation;
      format->name_is_key = object.contains(kProbeNames[0]) && object.size() == 1;
      format->name_path = PathTo(object, [](const Json& value) { return value == kProbeNames[0]; });
      format->arguments_path = PathTo(object, is_arguments);
      if (format->arguments_path.empty()) {
        format->arguments_path = PathTo(object, is_quoted);
        format->arguments = CallFormat::Arguments::kText;
      }
      call->begin = at;
      call->end = at + n;
      return format->name_is_key || (!format->name_path.empty() && !format->arguments_path.empty());
    }
  }
  return false;
}

// The ways in which arguments between brackets may be written, as far as this call shows it.
std::vector<Notation> NotationsOf(const WrittenCall& call) {
  std::vector<Notation> notations = {{}, {.python = true}};
  const SymbolsView text = call.text;
  const size_t colon = call.key_at + call.key.size();
  const size_t value_at = call.value_end - call.value.size();
  if (colon < value_at && text[colon] == ':') {
    const SymbolsView quote = text.substr(colon + 1, value_at - colon - 1);
    if (!quote.empty() && text.substr(call.value_end).starts_with(quote)) {
      notations.push_back({.quote = Symbols(quote), .bare_keys = true});
    }
  }
  notations.push_back({.python = true, .bare_keys = true, .open = '(', .close = ')', .colon = '='});
  return notations;
}

// Arguments between brackets behind the name. Where they begin, or npos.
size_t LearnObject(WrittenCall* call, const Prober& prober, CallFormat* format) {
  const Symbols& text = call->text;
  const size_t name_end = text.rfind(SymbolsOf(kProbeNames[0]), call->key_at);
  const size_t from = name_end == Symbols::npos ? 0 : name_end;
  for (const Notation& notation : NotationsOf(*call)) {
    for (size_t at = text.find(notation.open, from); at < call->key_at;
         at = text.find(notation.open, at + 1)) {
      ValueReader reader(notation, format->tokens, ValueReader::Kind::kArguments);
      std::string json;
      const size_t n = reader.Read(SymbolsView(text).substr(at), /*last=*/true, &json);
      if (reader.state() != ValueReader::State::kDone || at + n < call->value_end) continue;
      if (!notation.quote.empty()) {
        // A format that puts all values between the same marks does not tell a text by them.
        const auto number = prober.Answer({.arguments = {{{"ngnumber", 31337}}}});
        const size_t value = number ? FindText(*number, "31337") : Symbols::npos;
        if (value == Symbols::npos || value < notation.quote.size() ||
            SymbolsView(*number).substr(0, value).ends_with(notation.quote)) {
          continue;
        }
      }
      format->notation = notation;
      call->end = at + n;
      return at;
    }
  }
  return Symbols::npos;
}

// What comes before the arguments, from the first thing in it that is another one in each call.
void LearnHead(WrittenCall* call, size_t arguments_at, CallFormat* format) {
  struct Slot {
    HeadPart::Kind kind;
    std::string_view text;
  };
  constexpr Slot kSlots[] = {{HeadPart::Kind::kName, kProbeNames[0]},
                             {HeadPart::Kind::kId, kProbeIds[0]}};
  std::vector<HeadPart> head;
  const SymbolsView text = SymbolsView(call->text).substr(0, arguments_at);
  size_t done = std::min(FindText(text, kProbeNames[0]), FindText(text, kProbeIds[0]));
  call->begin = done;
  while (done < text.size()) {
    size_t next = text.size();
    const Slot* slot = nullptr;
    for (const Slot& one : kSlots) {
      const size_t at = FindText(text, one.text, done);
      if (at >= next) continue;
      next = at;
      slot = &one;
    }
    if (next > done) {
      head.push_back({HeadPart::Kind::kLiteral, Symbols(text.substr(done, next - done))});
    }
    if (slot != nullptr) head.push_back({slot->kind, {}});
    done = next + (slot == nullptr ? 0 : slot->text.size());
  }
  format->heads = {std::move(head)};
}

// A number in a head's literals that counts the calls: it is another one in the second call.
void LearnIndex(SymbolsView second, CallFormat* format) {
  std::vector<HeadPart>& head = format->heads.front();
  size_t at = 0;
  for (size_t i = 0; i < head.size() && at < second.size(); ++i) {
    if (head[i].kind != HeadPart::Kind::kLiteral) {
      const std::string_view text =
          head[i].kind == HeadPart::Kind::kName ? kProbeNames[1] : kProbeIds[1];
      const size_t found = FindText(second, text, at);
      if (found == SymbolsView::npos) return;
      at = found + text.size();
      continue;
    }
    const Symbols literal = head[i].text;
    const SymbolsView other = second.substr(at, literal.size());
    const auto differ = std::ranges::mismatch(literal, other);
    at += literal.size();
    if (differ.in1 == literal.end() || differ.in2 == other.end()) continue;
    const auto is_digit = [](char32_t c) { return c >= '0' && c <= '9'; };
    if (!is_digit(*differ.in1) || !is_digit(*differ.in2)) return;
    const auto index = static_cast<size_t>(differ.in1 - literal.begin());
    head[i].text = literal.substr(0, index);
    const HeadPart rest[] = {{HeadPart::Kind::kIndex, {}},
                             {HeadPart::Kind::kLiteral, literal.substr(index + 1)}};
    head.insert(head.begin() + static_cast<ptrdiff_t>(i) + 1, std::begin(rest), std::end(rest));
    return;
  }
}

// What is around the calls and between them, from an answer with two.
void LearnMarks(const WrittenCall& call, const Prober& prober, CallFormat* format) {
  const SymbolsView text = call.text;
  const SymbolsView before = text.substr(0, call.begin);
  const SymbolsView behind = text.substr(call.end);
  Json first = Json::object();
  first[call.key] =
      Json::parse(call.value, nullptr, false).is_number() ? Json(31337) : Json(call.value);
  const std::optional<Symbols> two =
      prober.Answer({.arguments = {first, {{"ngother", "ngsecond"}}}});
  size_t next = Symbols::npos;
  if (two && two->starts_with(text.substr(0, call.end))) {
    const size_t name = FindText(*two, kProbeNames[1], call.end);
    next = format->has_envelope() ? (name == Symbols::npos ? name : two->find('{', call.end))
                                  : std::min(name, FindText(*two, kProbeIds[1], call.end));
  }
  format->several = next != Symbols::npos;
  if (!format->several) {
    format->call_begin = before;
    format->call_end = PartsOf(behind);
    return;
  }
  const SymbolsView between = SymbolsView(*two).substr(call.end, next - call.end);
  const SymbolsView end = SharedBeginning(between, behind);
  const SymbolsView rest = between.substr(end.size());
  const SymbolsView begin = SharedEnd(before, rest);
  format->call_end = PartsOf(end);
  format->section_end = PartsOf(behind.substr(end.size()));
  format->call_begin = begin;
  format->separator = rest.substr(0, rest.size() - begin.size());
  format->section_begin = before.substr(0, before.size() - begin.size());
  if (!format->has_envelope()) LearnIndex(SymbolsView(*two).substr(next), format);
}

std::optional<CallFormat> LearnFrom(const Prober& prober, const std::string& key,
                                    const Json& value) {
  CallFormat format;
  Json arguments = Json::object();
  arguments[key] = value;
  const std::optional<Symbols> text = prober.Answer({.arguments = {arguments}});
  if (!text) return std::nullopt;
  WrittenCall call;
  call.text = *text;
  call.key = key;
  call.value = value.is_string() ? value.get<std::string>() : value.dump();
  call.key_at = FindText(call.text, key);
  const size_t value_at = FindText(call.text, call.value, call.key_at);
  const size_t name_at = FindText(call.text, kProbeNames[0]);
  if (call.key_at == Symbols::npos || value_at == Symbols::npos || name_at == Symbols::npos) {
    return std::nullopt;
  }
  call.value_end = value_at + call.value.size();
  if (LearnEnvelope(&call, &format)) {
    format.arguments_first = name_at > call.key_at;
  } else {
    if (name_at > call.key_at) return std::nullopt;
    size_t begin = LearnObject(&call, prober, &format);
    if (begin == Symbols::npos) {
      const std::optional<Members> members = LearnMembers(prober);
      // What is behind a text need not be behind a number.
      const SymbolsView behind = SymbolsView(call.text).substr(call.value_end);
      if (!members || !behind.starts_with(members->after)) return std::nullopt;
      format.arguments = CallFormat::Arguments::kMembers;
      format.members = *members;
      begin = call.key_at - TrimLeft(members->before).size();
      call.end = call.value_end + members->after.size();
    }
    LearnHead(&call, begin, &format);
  }
  LearnMarks(call, prober, &format);
  return format;
}

// What is around thoughts, before a call or before content.
std::optional<std::pair<Symbols, Symbols>> AroundThoughts(const Prober& prober,
                                                          const CallFormat& format,
                                                          bool with_call) {
  const std::string thought = "ngthought";
  ProbedAnswer answer = {.content = with_call ? "" : "ngcontent", .thoughts = thought};
  if (with_call) answer.arguments.push_back({{"ngkey", "ngvalue"}});
  const std::optional<Symbols> turn = prober.Turn(answer);
  const size_t at = turn ? FindText(*turn, thought) : Symbols::npos;
  if (at == Symbols::npos) return std::nullopt;
  const SymbolsView before = SymbolsView(*turn).substr(0, at);
  const SymbolsView rest = SymbolsView(*turn).substr(at + thought.size());
  const Symbols call = format.section_begin + format.call_begin;
  const size_t end = with_call ? rest.find(TrimLeft(call)) : FindText(rest, "ngcontent");
  SymbolsView begin = Trim(before.substr(prober.HeaderOf(before)));
  if (begin.empty()) {  // the prompt ends within thoughts: their mark is the last one in it
    begin = TrimRight(before);
    size_t mark = begin.size();
    while (mark > 0 && !IsToken(begin[mark - 1]) && begin[mark - 1] != '<' &&
           begin[mark - 1] != '[') {
      --mark;
    }
    begin = begin.substr(mark == 0 ? 0 : mark - 1);
  }
  if (end == SymbolsView::npos || begin.empty() || Trim(rest.substr(0, end)).empty()) {
    return std::nullopt;
  }
  return std::pair(Symbols(begin), Symbols(rest.substr(0, end)));
}

void LearnThoughts(const Prober& prober, CallFormat* format) {
  auto around = AroundThoughts(prober, *format, /*with_call=*/false);
  const auto before_call = AroundThoughts(prober, *format, /*with_call=*/true);
  if (around && before_call) {
    // Content may have a mark of its own, which no call has.
    Symbols& end = around->second;
    const Symbols shared(SharedBeginning(end, before_call->second));
    if (!Trim(shared).empty() && shared.size() < end.size()) {
      const SymbolsView own = Trim(SymbolsView(end).substr(shared.size()));
      if (!own.empty()) format->skipped.emplace_back(own);
      end = shared;
    }
  }
  if (!around) around = before_call;
  if (!around) around = KnownThoughts(prober.probed());
  format->reasoning_begin = around->first;
  format->reasoning_end = Trim(around->second);
}

void AddTokens(const ProbedTemplate& probed, CallFormat* format) {
  Symbols all = format->section_begin + format->call_begin + format->separator +
                format->reasoning_begin + format->reasoning_end + format->notation.quote +
                format->members.before + format->members.between + format->members.after +
                format->members.separator + format->members.end;
  for (const auto* const list : {&format->section_end, &format->call_end, &format->skipped,
                                 &format->members.between_others}) {
    for (const Symbols& mark : *list) all += mark;
  }
  for (const auto& head : format->heads) {
    for (const HeadPart& part : head) all += part.text;
  }
  for (const char32_t symbol : all) {
    if (IsToken(symbol)) format->tokens[symbol] = probed.token_text(symbol);
  }
}

// Whether the template writes content before a call.
bool WritesTextBefore(const Prober& prober) {
  const auto text = prober.Answer({.content = "ngcontent", .arguments = {{{"ngkey", "ngvalue"}}}});
  const size_t key_at = text ? FindText(*text, "ngkey") : Symbols::npos;
  return key_at != Symbols::npos && FindText(*text, "ngcontent") < key_at;
}

}  // namespace

Learned LearnFormat(const ProbedTemplate& probed) {
  std::optional<CallFormat> best;
  const auto complete = [&](CallFormat* format, const Prober& prober) {
    if (format->reasoning_begin.empty()) LearnThoughts(prober, format);
    AddTokens(probed, format);
  };
  const auto take = [&](CallFormat format, const Prober& prober, bool arguments_text) {
    format.text_before = WritesTextBefore(prober);
    format.arguments_text = arguments_text;
    complete(&format, prober);
    format.cannot = CannotWrite(format, prober);
    const auto rank = [](const CallFormat& one) {
      return std::pair(one.cannot.size(), one.notation.python);
    };
    const bool comes_back = format.cannot.size() < ArgumentKinds().size();
    if (comes_back && (!best || rank(format) < rank(*best))) best = std::move(format);
  };
  std::optional<CallFormat> known = KnownFormat(probed);
  for (const bool arguments_text : {false, true}) {
    const Prober prober(probed, arguments_text);
    if (known) take(*known, prober, arguments_text);
    for (const auto& [key, value] :
         {std::pair<std::string, Json>("ngkey", "ngvalue"), {"ngnumber", 31337}}) {
      std::optional<CallFormat> format = LearnFrom(prober, key, value);
      if (format) take(*std::move(format), prober, arguments_text);
    }
  }
  if (best) return {*std::move(best), absl::OkStatus()};
  CallFormat format = known.value_or(CallFormat());
  complete(&format, Prober(probed, /*arguments_text=*/false));
  if (known) return {std::move(format), absl::OkStatus()};
  return {std::move(format), UsageError("writes calls in no way that ng can read back")};
}

}  // namespace ng::calls
