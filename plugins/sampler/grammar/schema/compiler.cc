#include "plugins/sampler/grammar/schema/compiler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/automata/regex.h"

namespace ng::grammar {
namespace {

// Nothing, a blank, or a new line with its indent. Never more, so that an answer does not end in
// blanks without an end.
constexpr char kBetween[] = " ?|\\n( {0,32}|\\t{1,8})";
constexpr char kCharacter[] =
    "[^\"\\\\\\x00-\\x1f]|\\\\([\"\\\\/"
    "bfnrt]|u([0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|"
    "[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}))";

Part Pattern(const char* pattern, Net& net) { return *AddRegex(pattern, net); }

// Of a value that is no list and no object.
std::string TextOf(const Json& value, SchemaSpelling::Style style) {
  if (style == SchemaSpelling::Style::kPython) {
    if (value.is_null()) return "None";
    if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  }
  const bool whole =
      value.is_number_float() && IsOfType(value, "integer") && std::abs(value.get<double>()) < 1e15;
  return whole ? absl::StrCat(static_cast<int64_t>(value.get<double>())) : value.dump();
}

// What tells a spelling from others in a net that schemas share.
std::string StyleOf(const SchemaSpelling& spelling) {
  std::string style = absl::StrCat(" ", static_cast<int>(spelling.style), spelling.compact,
                                   spelling.assert_formats, spelling.members.tells_texts);
  for (const Mark* const mark : {&spelling.quote, &spelling.members.after}) {
    for (const MarkPiece& piece : *mark) absl::StrAppend(&style, " ", piece.token, " ", piece.text);
    style += '\0';
  }
  return style;
}

}  // namespace

SchemaCompiler::SchemaCompiler(SchemaNodes& nodes, const SchemaSpelling& spelling, Net& net)
    : nodes_(nodes),
      spelling_(spelling),
      assert_formats_(spelling.assert_formats),
      net_(net),
      budget_(net.budget()),
      style_(StyleOf(spelling)),
      within_(&AnyText()) {
  const bool compact = spelling.compact || spelling.style == SchemaSpelling::Style::kQuoted;
  blanks_ = net.NewRule("blanks");
  net.SetRule(blanks_, compact ? net.Nothing() : Pattern(kBetween, net));
  net.SetMeaning(blanks_, absl::StrCat("blanks", style_));
  string_ = net.NewRule("string");
  net.SetMeaning(string_, absl::StrCat("string", style_));
  if (spelling.style != SchemaSpelling::Style::kJson) {
    spelling_status_ = PrepareSpelling();
    return;
  }
  const Part quote = net.Text("\"");
  const Net::Mark begin = net.Here();
  const Part character = Pattern(kCharacter, net);
  const Part characters = net.Repeat(begin, character, {});
  net.SetRule(string_, net.Then(net.Then(quote, characters), net.Text("\"")));
}

absl::StatusOr<int32_t> SchemaCompiler::Compile() {
  const int32_t root = RuleOf({nodes_.root()});
  NG_RETURN_IF_ERROR(CompileRest());
  return root;
}

absl::StatusOr<int32_t> SchemaCompiler::CompileArguments() {
  NG_RETURN_IF_ERROR(spelling_status_);
  const int32_t root = net_.NewRule("arguments");
  NG_ASSIGN_OR_RETURN(const Part part,
                      Arguments({nodes_.root(), nodes_.Made(Json{{"type", "object"}}, "#")}));
  net_.SetRule(root, part);
  NG_RETURN_IF_ERROR(CompileRest());
  return root;
}

absl::StatusOr<Part> SchemaCompiler::Arguments(const AllOf& all) {
  NG_ASSIGN_OR_RETURN(const std::vector<AllOf> alternatives, nodes_.Alternatives(all));
  std::vector<Part> parts;
  for (const AllOf& alternative : alternatives) {
    NG_ASSIGN_OR_RETURN(const std::optional<Json> values, Listed(alternative));
    for (const Json& value : values.value_or(Json::array())) {
      if (!value.is_object()) continue;
      NG_ASSIGN_OR_RETURN(parts.emplace_back(), Object({nodes_.Only(value)}, Place::kArguments));
    }
    unsigned types = kAllTypes;
    for (const SchemaNode& node : alternative) {
      NG_ASSIGN_OR_RETURN(const unsigned more, TypesOf(node));
      types &= more;
    }
    if (values || (types & kObjectType) == 0) continue;
    NG_ASSIGN_OR_RETURN(parts.emplace_back(), Object(alternative, Place::kArguments));
  }
  return net_.Either(parts);
}

absl::Status SchemaCompiler::CompileRest() {
  constexpr size_t kMaxRules = 10000;
  while (!to_do_.empty()) {
    const auto [rule, all] = to_do_.front();
    to_do_.pop_front();
    NG_ASSIGN_OR_RETURN(const Part part, Value(all));
    net_.SetRule(rule, part);
    const std::string at = all.empty() ? "#" : all.front().at;
    if (!net_.status().ok()) return SchemaError(at, std::string(net_.status().message()));
    if (rules_.size() > kMaxRules) {
      return SchemaError(at,
                         absl::StrCat("stands for more than ", kMaxRules, " different schemas"));
    }
  }
  return absl::OkStatus();
}

int32_t SchemaCompiler::RuleOf(const AllOf& all) {
  std::vector<std::pair<const Json*, int32_t>> key;
  for (const SchemaNode& node : all) {
    const bool anything = (node.json->is_boolean() && node.json->get<bool>()) ||
                          (node.json->is_object() && node.json->empty());
    if (!anything) key.emplace_back(node.json, node.scope);
  }
  std::ranges::sort(key);
  key.erase(std::unique(key.begin(), key.end()), key.end());
  const auto [place, is_new] = rules_.emplace(key, 0);
  if (!is_new) return place->second;
  place->second = net_.NewRule(all.empty() ? "any value" : all.front().at);
  if (key.empty()) net_.SetMeaning(place->second, absl::StrCat("any value", style_));
  to_do_.emplace_back(place->second, all);
  return place->second;
}

absl::StatusOr<Part> SchemaCompiler::Value(const AllOf& all) {
  NG_ASSIGN_OR_RETURN(const std::vector<AllOf> alternatives, nodes_.Alternatives(all));
  std::vector<Part> parts;
  for (const AllOf& alternative : alternatives) {
    NG_ASSIGN_OR_RETURN(parts.emplace_back(), OneAlternative(alternative));
  }
  return net_.Either(parts);
}

absl::StatusOr<std::optional<Json>> SchemaCompiler::Listed(const AllOf& all) {
  for (const SchemaNode& node : all) {
    if (node.json->contains("enum")) return Allowed(all, (*node.json)["enum"]);
    if (node.json->contains("const")) return Allowed(all, Json::array({(*node.json)["const"]}));
  }
  return std::nullopt;
}

absl::StatusOr<Part> SchemaCompiler::OneAlternative(const AllOf& all, unsigned types) {
  for (const SchemaNode& node : all) {
    NG_ASSIGN_OR_RETURN(const unsigned more, TypesOf(node));
    types &= more;
    if (node.json->contains("enum")) return ListedValues(all, (*node.json)["enum"]);
    if (node.json->contains("const")) {
      return ListedValues(all, Json::array({(*node.json)["const"]}));
    }
  }
  // What const and enum of an opposite take away.
  const auto differs = [&](const Json& value) {
    return std::ranges::none_of(all, [&](const SchemaNode& node) {
      const auto list = node.json->find(kDiffers);
      return list != node.json->end() && nodes_.Holds(*list, value);
    });
  };
  std::vector<Part> parts;
  if ((types & kNullType) != 0 && differs(nullptr)) {
    parts.push_back(net_.Text(TextOf(nullptr, spelling_.style)));
  }
  if ((types & kBooleanType) != 0) {
    for (const bool value : {true, false}) {
      if (differs(value)) parts.push_back(net_.Text(TextOf(value, spelling_.style)));
    }
  }
  if ((types & kStringType) != 0) {
    NG_ASSIGN_OR_RETURN(parts.emplace_back(), Text(all));
  }
  if ((types & (kIntegerType | kFractionType)) != 0) {
    NG_ASSIGN_OR_RETURN(parts.emplace_back(), Number(all, types));
  }
  if ((types & kArrayType) != 0) {
    NG_ASSIGN_OR_RETURN(parts.emplace_back(), Array(all));
  }
  if ((types & kObjectType) != 0) {
    NG_ASSIGN_OR_RETURN(parts.emplace_back(), Object(all, Place::kWithin));
  }
  return net_.Either(parts);
}

absl::StatusOr<Json> SchemaCompiler::Allowed(const AllOf& all, const Json& values) {
  Json found = Json::array();
  for (const Json& value : values) {
    bool allowed = true;
    for (const SchemaNode& node : all) {
      NG_ASSIGN_OR_RETURN(const bool keeps, Keeps(node, value, 0));
      allowed &= keeps;
      if (!allowed) break;
    }
    if (allowed) found.push_back(value);
  }
  return found;
}

absl::StatusOr<Part> SchemaCompiler::ListedValues(const AllOf& all, const Json& values) {
  NG_ASSIGN_OR_RETURN(const Json allowed, Allowed(all, values));
  const bool spelled = spelling_.style != SchemaSpelling::Style::kJson;
  std::vector<Part> parts;
  std::vector<std::string> texts;
  for (const Json& value : allowed) {
    if (value.is_structured() || (spelled && value.is_string())) {
      parts.push_back(Literal(value));
    } else {
      texts.push_back(TextOf(value, spelling_.style));
    }
  }
  if (!texts.empty()) parts.push_back(net_.Texts(std::move(texts)));
  return net_.Either(parts);
}

Part SchemaCompiler::Literal(const Json& value) {
  if (value.is_string() && spelling_.style != SchemaSpelling::Style::kJson) {
    return SpelledText(value.get<std::string>());
  }
  if (!value.is_structured()) return net_.Text(TextOf(value, spelling_.style));
  // An object as a schema of its own, so that its properties may come in any order.
  if (value.is_object()) return net_.Calling(RuleOf({nodes_.Only(value)}));
  Part whole = net_.Then(net_.Text("["), net_.Calling(blanks_));
  for (size_t i = 0; i < value.size(); ++i) {
    if (i > 0) whole = net_.Then(whole, net_.Then(net_.Text(","), net_.Calling(blanks_)));
    whole = net_.Then(net_.Then(whole, Literal(value[i])), net_.Calling(blanks_));
  }
  return net_.Then(whole, net_.Text("]"));
}

absl::StatusOr<Count> SchemaCompiler::Counts(const AllOf& all, const char* least,
                                             const char* most) const {
  Count count;
  for (const SchemaNode& node : all) {
    for (const char* name : {least, most}) {
      const auto found = node.json->find(name);
      if (found == node.json->end()) continue;
      const bool whole = found->is_number() && IsOfType(*found, "integer");
      const double value = whole ? found->get<double>() : -1;
      // No answer has so much, so it is no limit.
      if (value > Count::kLargest && name == most) continue;
      if (value < 0 || value > Count::kLargest) {
        return SchemaError(
            PointerTo(node.at, name),
            absl::StrCat(found->dump(), ", must be a whole number up to ", Count::kLargest));
      }
      const auto n = static_cast<int64_t>(value);
      if (name == least) count.least = std::max(count.least, n);
      if (name == most) count.most = count.most < 0 ? n : std::min(count.most, n);
    }
  }
  return count;
}

absl::StatusOr<Part> SchemaCompiler::Number(const AllOf& all, unsigned types) {
  NumberRules rules;
  rules.integers = (types & kIntegerType) != 0;
  rules.fractions = (types & kFractionType) != 0;
  for (const SchemaNode& node : all) {
    for (const auto& [name, value] : node.json->items()) {
      const std::string at = PointerTo(node.at, name);
      const bool limits = name == "minimum" || name == "maximum" || name == "exclusiveMinimum" ||
                          name == "exclusiveMaximum" || name == "multipleOf";
      if (limits && !value.is_number()) return SchemaError(at, "must be a number");
      if (name == "multipleOf") {
        const absl::StatusOr<bool> known = IsMultiple(0, value);
        if (!known.ok()) return SchemaError(at, std::string(known.status().message()));
        rules.multiples_of.push_back(value);
      } else if (limits) {
        const bool least = name == "minimum" || name == "exclusiveMinimum";
        const bool equal = name == "minimum" || name == "maximum";
        rules.limits.push_back({.number = value, .less = !least, .equal = equal, .greater = least});
      } else if (name == kNoMultiple) {
        const absl::StatusOr<bool> known = IsMultiple(0, value);
        if (!known.ok()) return SchemaError(node.at, std::string(known.status().message()));
        rules.no_multiples_of.push_back(value);
      } else if (name == kDiffers) {
        for (const Json& other : value) {
          if (other.is_number()) {
            rules.limits.push_back({.number = other, .less = true, .greater = true});
          }
        }
      }
    }
  }
  absl::StatusOr<Part> part = AddNumber(rules, net_);
  if (part.ok()) return part;
  return SchemaError(all.empty() ? "#" : all.front().at, std::string(part.status().message()));
}

}  // namespace ng::grammar
