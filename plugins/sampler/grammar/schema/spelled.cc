// Values and arguments that are not written as JSON.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/automata/regex.h"
#include "plugins/sampler/grammar/schema/compiler.h"

namespace ng::grammar {
namespace {

using Style = SchemaSpelling::Style;

// The text of a mark; nothing where it has a token, which no text holds.
std::optional<std::string> TextOfMark(const Mark& mark) {
  std::string text;
  for (const MarkPiece& piece : mark) {
    if (piece.token >= 0) return std::nullopt;
    text += piece.text;
  }
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return std::nullopt;
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

std::string Escaped(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}/-").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// Texts behind which a mark can stand: none of them holds it, or ends with what is its beginning
// where that would be found first.
absl::StatusOr<Dfa> TextsBefore(const Mark& mark, Budget& budget) {
  const std::optional<std::string> text = TextOfMark(mark);
  if (!text) return AnyText();
  std::string pattern = Escaped(*text);
  for (size_t border = 1; border < text->size(); ++border) {
    if (!text->ends_with(text->substr(0, border))) continue;
    absl::StrAppend(&pattern, "|", Escaped(text->substr(0, text->size() - border)), "$");
  }
  NG_ASSIGN_OR_RETURN(const Dfa found, Found(pattern, budget));
  return Combine(AnyText(), found, Both::kAndNot, budget);
}

}  // namespace

absl::StatusOr<const Dfa*> SchemaCompiler::SharedSet(
    const std::string& what, absl::FunctionRef<absl::StatusOr<Dfa>()> make) {
  SharedSets& sets = spelling_.sets == nullptr ? own_sets_ : *spelling_.sets;
  const std::string key = absl::StrCat(what, style_);
  if (const auto found = sets.find(key); found != sets.end()) return &found->second;
  NG_ASSIGN_OR_RETURN(Dfa made, make());
  return &sets.emplace(key, std::move(made)).first->second;
}

absl::Status SchemaCompiler::PrepareSpelling() {
  const bool members = spelling_.style == Style::kMembers;
  if (members || spelling_.style == Style::kQuoted) {
    const Mark& mark = members ? spelling_.members.after : spelling_.quote;
    NG_ASSIGN_OR_RETURN(within_, SharedSet("texts", [&] { return TextsBefore(mark, budget_); }));
  }
  Net texts(budget_);
  const Part part = AddDfa(*within_, texts);
  net_.SetRule(string_, Spelled(texts, part));
  return absl::OkStatus();
}

Part SchemaCompiler::MarkPart(const Mark& mark) {
  Part whole = net_.Nothing();
  for (const MarkPiece& piece : mark) {
    if (piece.token < 0) {
      whole = net_.Then(whole, net_.Text(piece.text));
      continue;
    }
    const Part token = net_.Never();
    net_.Token(token.in, token.out, piece.token);
    whole = net_.Then(whole, token);
  }
  return whole;
}

Part SchemaCompiler::Spelled(const Net& texts, Part part) {
  if (spelling_.style == Style::kQuoted) {
    const Part raw = net_.Append(texts, part, [this](const Edge& edge) { net_.Add(edge); });
    return net_.Then(net_.Then(MarkPart(spelling_.quote), raw), MarkPart(spelling_.quote));
  }
  const auto quoted = [&](char quote) {
    const std::string_view mark(&quote, 1);
    return net_.Then(net_.Then(net_.Text(mark), AddAsString(texts, part, quote, net_)),
                     net_.Text(mark));
  };
  if (spelling_.style != Style::kPython) return quoted('"');
  const Part single = quoted('\'');
  return net_.Either({quoted('"'), single});
}

Part SchemaCompiler::SpelledText(const std::string& text) {
  if (!within_->Matches(text)) return net_.Never();
  Net texts(budget_);
  const Part part = texts.Text(text);
  return Spelled(texts, part);
}

bool SchemaCompiler::NamesAreBare(Place place) const {
  switch (spelling_.style) {
    case Style::kQuoted:
      return true;
    case Style::kPython:
      return spelling_.keywords && place == Place::kArguments;
    case Style::kMembers:
      return place == Place::kArguments;
    case Style::kJson:
      break;
  }
  return false;
}

absl::StatusOr<const Dfa*> SchemaCompiler::BareNames() {
  return SharedSet("names", [&] { return Matching("[A-Za-z_][A-Za-z0-9_]{0,62}", budget_); });
}

absl::StatusOr<Part> SchemaCompiler::NamePart(const std::string& name, Place place) {
  if (!NamesAreBare(place)) {
    if (spelling_.style == Style::kJson) return net_.Text(Json(name).dump());
    return SpelledText(name);
  }
  // What is found in no name that a format marks.
  constexpr std::string_view kSigns = " \t\r\n\"'<>{}()[],:=";
  if (!name.empty() && name.find_first_of(kSigns) == name.npos) return net_.Text(name);
  return net_.Never();
}

absl::StatusOr<Part> SchemaCompiler::Property(Part name, unsigned read_as, const AllOf& schemas,
                                              Place place) {
  const bool arguments = place == Place::kArguments;
  if (arguments && spelling_.style == SchemaSpelling::Style::kMembers) {
    return Member(name, read_as, schemas);
  }
  if (arguments && spelling_.has_keywords()) {
    return net_.Then(net_.Then(name, net_.Text("=")), net_.Calling(RuleOf(schemas)));
  }
  Part part = net_.Then(net_.Then(name, net_.Calling(blanks_)), net_.Text(":"));
  return net_.Then(net_.Then(part, net_.Calling(blanks_)), net_.Calling(RuleOf(schemas)));
}

absl::StatusOr<const Dfa*> SchemaCompiler::PlainTexts(unsigned read_as) {
  const bool told = spelling_.members.tells_texts || read_as == kReadAsText;
  if (told) return within_;
  if ((read_as & kReadAsText) == 0) return nullptr;
  // What would be read as another value.
  static constexpr struct {
    ReadAs as;
    const char* pattern;
  } kOthers[] = {
      {kReadAsNumber, "\\s*-?[0-9][-+.0-9eE]*\\s*"},
      {kReadAsBoolean, "\\s*([tT]rue|[fF]alse)\\s*"},
      {kReadAsNull, "\\s*(null|None)\\s*"},
      {kReadAsStructure, "\\s*[\\[{][\\s\\S]*"},
  };
  return SharedSet(absl::StrCat("plain ", read_as), [&]() -> absl::StatusOr<Dfa> {
    Dfa texts = *within_;
    for (const auto& [as, pattern] : kOthers) {
      if ((read_as & as) == 0) continue;
      NG_ASSIGN_OR_RETURN(const Dfa others, Matching(pattern, budget_));
      NG_ASSIGN_OR_RETURN(texts, Combine(texts, others, Both::kAndNot, budget_));
    }
    return texts;
  });
}

int32_t SchemaCompiler::AnyPlainText(unsigned read_as, const Dfa& plain) {
  const auto [place, is_new] = any_plain_texts_.emplace(read_as, 0);
  if (!is_new) return place->second;
  const int32_t rule = place->second = net_.NewRule("any text");
  net_.SetMeaning(rule, absl::StrCat("plain ", read_as, style_));
  const Part text = AddDfa(plain, net_);
  net_.SetRule(rule, net_.Then(text, MarkPart(spelling_.members.after)));
  return rule;
}

absl::StatusOr<bool> SchemaCompiler::AllowsAnyText(const AllOf& all) {
  NG_ASSIGN_OR_RETURN(const Count count, Counts(all, "minLength", "maxLength"));
  NG_ASSIGN_OR_RETURN(const std::vector<const Dfa*> limits, TextLimits(all));
  return count.any() && limits.empty();
}

absl::StatusOr<Part> SchemaCompiler::Member(Part name, unsigned read_as, const AllOf& schemas) {
  const MemberSpelling& marks = spelling_.members;
  NG_ASSIGN_OR_RETURN(const Dfa* plain, PlainTexts(read_as));
  NG_ASSIGN_OR_RETURN(const std::vector<AllOf> alternatives, nodes_.Alternatives(schemas));
  std::vector<Part> texts;
  std::vector<Part> others;
  bool any_text = false;
  const auto add_raw = [&](const Net& net, Part part) {
    texts.push_back(net_.Append(net, part, [this](const Edge& edge) { net_.Add(edge); }));
  };
  for (const AllOf& alternative : alternatives) {
    NG_ASSIGN_OR_RETURN(const std::optional<Json> values, Listed(alternative));
    for (const Json& value : values.value_or(Json::array())) {
      if (!value.is_string()) {
        others.push_back(Literal(value));
        continue;
      }
      const auto text = value.get<std::string>();
      if (plain == nullptr || !plain->Matches(text)) continue;
      texts.push_back(net_.Text(text));
    }
    if (values) continue;
    unsigned types = kAllTypes;
    for (const SchemaNode& node : alternative) {
      NG_ASSIGN_OR_RETURN(const unsigned more, TypesOf(node));
      types &= more;
    }
    const bool may_be_text = (types & kStringType) != 0 && plain != nullptr;
    NG_ASSIGN_OR_RETURN(const bool is_any, AllowsAnyText(alternative));
    any_text = any_text || (may_be_text && is_any);
    if (may_be_text && !is_any) {
      Net net(budget_);
      NG_ASSIGN_OR_RETURN(const Part part, Texts(alternative, *plain, net));
      add_raw(net, part);
    }
    if ((types & ~unsigned{kStringType}) == 0) continue;
    NG_ASSIGN_OR_RETURN(others.emplace_back(),
                        OneAlternative(alternative, types & ~unsigned{kStringType}));
  }
  const Part before = net_.Then(MarkPart(marks.before), name);
  if (!marks.tells_texts) texts.insert(texts.end(), others.begin(), others.end());
  const auto ended = [&](const std::vector<Part>& values) {
    return net_.Then(net_.Either(values), MarkPart(marks.after));
  };
  std::vector<Part> values = {ended(texts)};
  if (any_text) values.push_back(net_.Calling(AnyPlainText(read_as, *plain)));
  Part value = net_.Then(MarkPart(marks.between), net_.Either(values));
  if (marks.tells_texts) {
    value = net_.Either({value, net_.Then(MarkPart(marks.between_others), ended(others))});
  }
  return net_.Then(before, value);
}

}  // namespace ng::grammar
