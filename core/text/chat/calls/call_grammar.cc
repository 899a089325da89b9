#include "core/text/chat/calls/call_grammar.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/text/chat/calls/tool_schemas.h"

namespace ng::calls {
namespace {

using Json = nlohmann::ordered_json;
using PartKind = HeadPart::Kind;

// Between the parts of an object: what is written, and what is taken for it.
constexpr const char* kWritten = " [ ]? ";
constexpr const char* kTaken = " [ \\t\\r\\n]* ";

// Between thoughts and what is held to a form.
constexpr const char* kBehindThoughts = "[ \\n]{0,2} ";

std::string Literal(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      literal += '\\';
      literal += c;
    } else if (static_cast<unsigned char>(c) < ' ') {
      literal += absl::StrFormat("\\x%02x", static_cast<unsigned>(c));
    } else {
      literal += c;
    }
  }
  return literal + '"';
}

// A text as Python writes it.
std::string PythonText(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < ' ') {
      quoted += absl::StrFormat("\\x%02x", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

// A mark as items of a grammar, each with a blank behind it.
std::string Items(SymbolsView mark) {
  std::string items;
  std::string text;
  const auto end_text = [&] {
    if (!text.empty()) items += Literal(std::exchange(text, {})) + ' ';
  };
  for (const char32_t symbol : mark) {
    if (!IsToken(symbol)) {
      text += static_cast<char>(symbol);
      continue;
    }
    end_text();
    absl::StrAppend(&items, "<[", static_cast<int64_t>(symbol - kFirstToken), "]> ");
  }
  end_text();
  return items;
}

std::string AllOf(const std::vector<Symbols>& parts) {
  std::string items;
  for (const Symbols& part : parts) items += Items(part);
  return items;
}

struct Tool {
  std::string name;
  const Json* schema = nullptr;  // of the list of tools, or of no arguments
  bool strict = false;
};

// Without a schema a tool has no arguments.
const Json& NoArguments() {
  static const Json schema = {{"type", "object"}, {"additionalProperties", false}};
  return schema;
}

std::vector<Tool> ToolsOf(const Json& list, const std::vector<std::string>& names) {
  const std::set<std::string> called(names.begin(), names.end());
  std::vector<Tool> tools;
  for (const auto& [name, said] : DeclaredTools(list)) {
    if (!called.empty() && !called.contains(name)) continue;
    const Json& function = *said;
    Tool& one = tools.emplace_back();
    one.name = name;
    const auto parameters = function.find("parameters");
    const bool has = parameters != function.end() && !parameters->is_null();
    one.schema = has ? &*parameters : &NoArguments();
    const auto strict = function.find("strict");
    one.strict = strict != function.end() && *strict == true;
  }
  return tools;
}

// A list of its texts and of the numbers of its tokens.
Json MarkJson(SymbolsView mark) {
  Json json = Json::array();
  std::string text;
  const auto end_text = [&] {
    if (!text.empty()) json.push_back(std::exchange(text, {}));
  };
  for (const char32_t symbol : mark) {
    if (!IsToken(symbol)) {
      text += static_cast<char>(symbol);
      continue;
    }
    end_text();
    json.push_back(static_cast<int64_t>(symbol - kFirstToken));
  }
  end_text();
  return json;
}

// As much of a mark as tells it from the others: its first token, or its first word.
size_t TellingSize(const CallFormat& format, SymbolsView mark) {
  size_t n = 1;
  while (!IsToken(mark.front()) && n < mark.size() && !IsToken(mark[n]) && !IsBlank(mark[n])) ++n;
  std::vector<Symbols> others = format.skipped;
  others.push_back(format.reasoning_begin);
  // Less than a word of text may be anything.
  constexpr size_t kShortWord = 3;
  while (n < mark.size() && n < kShortWord && std::ranges::none_of(mark.substr(0, n), IsToken)) {
    ++n;
  }
  while (n < mark.size() && std::ranges::any_of(others, [&](const Symbols& other) {
           return TrimLeft(other).starts_with(mark.substr(0, n));
         })) {
    ++n;
  }
  return n;
}

Symbols FirstLiteral(const std::vector<HeadPart>& head) {
  return !head.empty() && head.front().kind == PartKind::kLiteral ? head.front().text : Symbols();
}

// How a call begins where an answer is searched for one, and how it goes on.
struct Trigger {
  std::string begin;
  std::string rest;
  bool is_token = false;
};

class GrammarWriter {
 public:
  GrammarWriter(const CallFormat& format, const Json& tools, const CallChoice& choice)
      : format_(format),
        tools_(ToolsOf(tools, choice.names)),
        schemas_(tools),
        several_(choice.several && format.several) {}

  absl::StatusOr<std::string> Write(bool must, bool thinks) {
    if (tools_.empty()) return UsageError("tools: there is none that may be called");
    for (const Tool& tool : tools_) NG_RETURN_IF_ERROR(CheckName(tool.name));
    for (size_t i = 0; i < tools_.size(); ++i) Rule(absl::StrCat("a", i), Arguments(tools_[i]));
    Rule("call", OneCall());
    must ? WriteForced(thinks) : WriteSearch(thinks);
    return std::move(text_);
  }

 private:
  void Rule(const std::string& name, const std::string& body) {
    absl::StrAppend(&text_, name, " ::= ", body, "\n");
  }

  absl::Status CheckName(const std::string& name) const {
    // An object writes any name as a text of JSON.
    const bool is_plain = std::ranges::none_of(name, [](char c) {
      return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '\'' || c == '\\' ||
             c == '<' || c == '>' || c == '(' || c == '{' || c == '[' || c == ':' || c == '=';
    });
    constexpr size_t kLongestName = 256;
    const bool fits = !name.empty() && name.size() <= kLongestName;
    if (fits && (is_plain || format_.has_envelope())) return absl::OkStatus();
    return UsageError(absl::StrCat("tools: the name '", OneLine(name.substr(0, kLongestName)),
                                   "' cannot be written in a call of this chat template"));
  }

  std::string Arguments(const Tool& tool, bool opened = false) const {
    Json item = Json::object();
    item["tool"] = tool.name;
    item["schema"] = *tool.schema;
    if (!tool.strict) item["loose"] = true;
    const bool in_text = format_.arguments == CallFormat::Arguments::kText;
    if (in_text) item["in_text"] = true;
    if (format_.notation.python && !in_text) item["python"] = true;
    if (HasKeywords()) item["keywords"] = true;
    if (opened) item["opened"] = true;
    if (!format_.notation.quote.empty()) item["quote"] = MarkJson(format_.notation.quote);
    if (format_.arguments == CallFormat::Arguments::kMembers) item["members"] = Members(tool);
    return absl::StrCat("%arguments ", item.dump());
  }

  bool HasKeywords() const { return format_.notation.python && format_.notation.open == U'('; }

  Json Members(const Tool& tool) const {
    const auto& members = format_.members;
    // The blanks before the first name belong to the head.
    const SymbolsView before = TrimLeft(members.before);
    const SymbolsView blanks =
        SymbolsView(members.before).substr(0, members.before.size() - before.size());
    Json json = Json::object();
    json["before"] = MarkJson(before);
    json["between"] = MarkJson(members.between);
    if (!members.between_others.empty()) {
      json["between_others"] = MarkJson(members.between_others.front());
    }
    json["after"] = MarkJson(members.after);
    json["separator"] = MarkJson(members.separator + Symbols(blanks));
    json["end"] = MarkJson(members.end);
    json["read_as"] = Json::object();
    if (!tool.schema->is_object() || !tool.schema->contains("properties")) return json;
    const Json& properties = (*tool.schema)["properties"];
    if (!properties.is_object()) return json;
    for (const auto& [name, schema] : properties.items()) {
      const unsigned types = schemas_.TypesOf(tool.name, name);
      Json& words = json["read_as"][name] = Json::array();
      if ((types & kTextType) != 0) words.push_back("text");
      if ((types & (kIntegerType | kNumberType)) != 0) words.push_back("number");
      if ((types & kBooleanType) != 0) words.push_back("boolean");
      if ((types & kNullType) != 0) words.push_back("null");
      if ((types & (kObjectType | kArrayType)) != 0) words.push_back("structure");
    }
    return json;
  }

  std::string Key(const std::string& key) const {
    return Literal(format_.notation.python ? PythonText(key) : Json(key).dump());
  }

  // Of an object around a call: the keys on the way to a value, from the `from`th on.
  std::string WayTo(const std::vector<std::string>& path, size_t from, const char* blanks) const {
    std::string items;
    for (size_t k = from; k < path.size(); ++k) {
      if (k > from) items += "\"{\"";
      absl::StrAppend(&items, blanks, Key(path[k]), blanks, "\":\"", blanks);
    }
    return items;
  }
  // Behind the value at the end of the `first` way: the second one with its value, and all ends.
  std::string RestBehind(const std::vector<std::string>& first,
                         const std::vector<std::string>& second, const std::string& value) const {
    const std::string end = absl::StrCat(kWritten, "\"}\"");
    size_t shared = 0;
    while (shared + 1 < std::min(first.size(), second.size()) && first[shared] == second[shared]) {
      ++shared;
    }
    std::string items;
    for (size_t k = shared + 1; k < first.size(); ++k) items += end;
    absl::StrAppend(&items, kWritten, "\",\"", WayTo(second, shared, kWritten), value);
    for (size_t k = 0; k < second.size(); ++k) items += end;
    return items;
  }
  // With the name first: up to its end, and behind that.
  std::string NamedBegin(const Tool& tool, const char* blanks) const {
    const std::string way = format_.name_is_key ? blanks : WayTo(format_.name_path, 0, blanks);
    return absl::StrCat("\"{\"", way, Key(tool.name));
  }
  std::string NamedRest(size_t i) const {
    const std::string arguments = absl::StrCat("a", i);
    if (!format_.name_is_key) {
      return RestBehind(format_.name_path, format_.arguments_path, arguments);
    }
    return absl::StrCat(kWritten, "\":\"", kWritten, arguments, kWritten, "\"}\"");
  }
  // With the arguments first: up to their beginning, and from there.
  std::string UnnamedBegin(const char* blanks) const {
    return absl::StrCat("\"{\"", WayTo(format_.arguments_path, 0, blanks));
  }
  std::string UnnamedRest(size_t i) const {
    return absl::StrCat("a", i,
                        RestBehind(format_.arguments_path, format_.name_path, Key(tools_[i].name)));
  }

  // Of a head: its parts from `from` on, with this name.
  static std::string HeadItems(const std::vector<HeadPart>& head, size_t from, const Tool& tool) {
    std::string items;
    for (size_t i = from; i < head.size(); ++i) {
      switch (head[i].kind) {
        case PartKind::kLiteral:
          items += Items(head[i].text);
          break;
        case PartKind::kName:
          items += Literal(tool.name) + ' ';
          break;
        case PartKind::kId:
          items += "[a-zA-Z0-9]{9} ";
          break;
        case PartKind::kIndex:
          items += "(\"0\" | [1-9] [0-9]?) ";
          break;
      }
    }
    return items;
  }

  // All calls, from what is within the marks around one; heads behind their first literal, if that
  // is `only`.
  std::string OneCall(const Symbols* only = nullptr) const {
    std::vector<std::string> ways;
    for (size_t i = 0; i < tools_.size(); ++i) {
      if (format_.has_envelope()) {
        ways.push_back(format_.arguments_first ? UnnamedBegin(kWritten) + UnnamedRest(i)
                                               : NamedBegin(tools_[i], kWritten) + NamedRest(i));
        continue;
      }
      for (const std::vector<HeadPart>& head : format_.heads) {
        const Symbols first = FirstLiteral(head);
        if (only != nullptr && first != *only) continue;
        const size_t from = only != nullptr && !first.empty() ? 1 : 0;
        ways.push_back(absl::StrCat(HeadItems(head, from, tools_[i]), "a", i));
      }
    }
    return absl::StrJoin(ways, " | ");
  }

  std::string CallEnd() const {
    return format_.ends_differ && !format_.call_end.empty() ? Items(format_.call_end.front())
                                                            : AllOf(format_.call_end);
  }
  // Behind the first call.
  std::string MoreCalls() const {
    return absl::StrCat("(", Items(format_.separator + format_.call_begin), "call ", CallEnd(),
                        ")* ");
  }

  void WriteForced(bool thinks) {
    Rule("calls", absl::StrCat(Items(TrimLeft(format_.section_begin + format_.call_begin)), "call ",
                               CallEnd(), several_ ? MoreCalls() : "", AllOf(format_.section_end)));
    if (thinks) {
      Rule("root", absl::StrCat("%until(", Items(Trim(format_.reasoning_end)), ": ",
                                kBehindThoughts, "calls)"));
    } else {
      Rule("root", "calls");
    }
  }

  // Behind a call's beginning.
  std::string Behind(const std::string& begin, const std::string& call) const {
    const bool may_go_on =
        several_ && (!format_.section_end.empty() || Trim(format_.call_begin).empty());
    return absl::StrCat(begin, call, " ", CallEnd(), may_go_on ? MoreCalls() : "",
                        AllOf(format_.section_end), several_ ? "content" : "");
  }

  Trigger MarkedTrigger(SymbolsView mark, const std::string& call) const {
    const size_t n = TellingSize(format_, mark);
    return {Items(mark.substr(0, n)), Behind(Items(mark.substr(n)), call), IsToken(mark.front())};
  }

  std::vector<Trigger> MarkedTriggers() {
    std::vector<Trigger> triggers;
    const Symbols all = format_.section_begin + format_.call_begin;
    const SymbolsView mark = TrimLeft(all);
    if (!mark.empty()) {
      triggers.push_back(MarkedTrigger(mark, "call"));
      // A call may come without the mark of the section.
      const SymbolsView call_begin = TrimLeft(format_.call_begin);
      const bool may_lack = !Trim(call_begin).empty() && !Trim(format_.section_begin).empty();
      if (may_lack) triggers.push_back(MarkedTrigger(call_begin, "call"));
      return triggers;
    }
    std::vector<Symbols> firsts;
    for (const std::vector<HeadPart>& head : format_.heads) {
      const Symbols first = FirstLiteral(head);
      if (std::ranges::find(firsts, first) == firsts.end()) firsts.push_back(first);
    }
    // Where one ends with another one, it is the longer one that is there.
    std::ranges::stable_sort(firsts, {}, [](const Symbols& first) { return -std::ssize(first); });
    for (size_t i = 0; i < firsts.size(); ++i) {
      const std::string rule = absl::StrCat("call", i);
      Rule(rule, OneCall(&firsts[i]));
      triggers.push_back(MarkedTrigger(TrimLeft(firsts[i]), rule));
    }
    return triggers;
  }

  // Without a mark a call is told by a declared name.
  std::vector<Trigger> NamedTriggers() {
    const Symbols mark = format_.section_begin + format_.call_begin;
    const std::string begin =
        absl::StrCat(format_.text_before ? "" : "^ ", kTaken, Items(Trim(mark)), kTaken);
    std::vector<Trigger> triggers;
    if (format_.has_envelope() && !format_.name_is_key) {
      // Models may write the arguments first: which tool they are for is told behind them.
      std::vector<std::string> ways;
      for (size_t i = 0; i < tools_.size(); ++i) ways.push_back(UnnamedRest(i));
      Rule("unnamed", absl::StrCat(kWritten, "(", absl::StrJoin(ways, " | "), ")"));
      triggers.push_back({begin + UnnamedBegin(kTaken), Behind("", "unnamed")});
    }
    for (size_t i = 0; i < tools_.size(); ++i) {
      if (format_.has_envelope()) {
        triggers.push_back({begin + NamedBegin(tools_[i], kTaken), Behind("", NamedRest(i))});
        continue;
      }
      // With the bracket behind it, so that it is no other word.
      const std::string rule = absl::StrCat("o", i);
      Rule(rule, Arguments(tools_[i], /*opened=*/HasKeywords()));
      for (const std::vector<HeadPart>& head : format_.heads) {
        triggers.push_back(
            {absl::StrCat(begin, HeadItems(head, 0, tools_[i]), HasKeywords() ? "\"(\"" : ""),
             Behind("", rule)});
      }
    }
    return triggers;
  }

  void WriteSearch(bool thinks) {
    const std::vector<Trigger> triggers = format_.is_marked() ? MarkedTriggers() : NamedTriggers();
    std::string in_content;
    std::string in_thoughts;
    for (const Trigger& trigger : triggers) {
      const std::string way = absl::StrCat(trigger.begin, ": ", trigger.rest, " | ");
      in_content += way;
      if (trigger.is_token) in_thoughts += way;
    }
    if (!format_.reasoning_begin.empty()) {
      const SymbolsView begin = Trim(format_.reasoning_begin);
      const SymbolsView end = Trim(format_.reasoning_end);
      // A mark that is no token begins thoughts only where the answer begins.
      absl::StrAppend(&in_content, IsToken(begin.front()) ? "" : absl::StrCat("^", kTaken),
                      Items(begin), ": thoughts | ");
      Rule("thoughts", absl::StrCat("%until(", in_thoughts, Items(end), ": content | )"));
    }
    Rule("content", absl::StrCat("%until(", in_content, ")"));
    Rule("root", thinks && !format_.reasoning_begin.empty() ? "thoughts" : "content");
  }

  const CallFormat& format_;
  const std::vector<Tool> tools_;
  const ToolSchemas schemas_;
  const bool several_;
  std::string text_;
};

}  // namespace

absl::StatusOr<std::string> CallGrammar(const CallFormat& format, const Json& tools,
                                        const CallChoice& choice, bool thinks) {
  return GrammarWriter(format, tools, choice).Write(choice.must, thinks);
}

std::string ThoughtsGrammar(const CallFormat& format, bool begun) {
  if (format.reasoning_begin.empty() || format.reasoning_end.empty()) return {};
  std::string items = absl::StrCat("%until(", Items(Trim(format.reasoning_end)), ": ) ");
  if (!begun) items = absl::StrCat("(", Items(Trim(format.reasoning_begin)), items, ")? ");
  if (format.skipped.empty()) return items + kBehindThoughts;
  std::vector<std::string> marks;
  for (const Symbols& skipped : format.skipped) marks.push_back(Items(Trim(skipped)));
  // One of each: behind thoughts begins another message, and in it the answer.
  return absl::StrCat(items, "(", absl::StrJoin(marks, " | "), "){0,", marks.size(), "} ",
                      kBehindThoughts);
}

Json ThoughtMarks(const CallFormat& format) {
  std::vector<Symbols> calls = {format.section_begin + format.call_begin, format.call_begin};
  if (TrimLeft(calls.front()).empty()) {
    for (const std::vector<HeadPart>& head : format.heads) calls.push_back(FirstLiteral(head));
  }
  Json marks = Json::object();
  marks["begin"] = MarkJson(Trim(format.reasoning_begin));
  Json& ends = marks["ends"] = Json::array();
  ends.push_back(MarkJson(Trim(format.reasoning_end)));
  for (const Symbols& call : calls) {
    const SymbolsView mark = TrimLeft(call);
    if (mark.empty() || !IsToken(mark.front())) continue;
    Json end = MarkJson(mark.substr(0, TellingSize(format, mark)));
    if (std::ranges::find(ends, end) == ends.end()) ends.push_back(std::move(end));
  }
  return marks;
}

}  // namespace ng::calls
