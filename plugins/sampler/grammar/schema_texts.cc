// What a schema says of strings: lengths, patterns and formats.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/schema_compiler.h"

namespace ng::grammar {
namespace {

// Each matches texts of the format, not all of them.
#define NG_DATE                                                                                 \
  "(?:(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(?:(?:0[13578]|1[02])-"            \
  "(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|"       \
  "2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-" \
  "02-29)"
#define NG_TIME                                                                                   \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-" \
  "5][0-9])"
#define NG_HOST                                                                                    \
  "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9]" \
  ")?){0,3}"
#define NG_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

struct Format {
  const char* name;
  const char* pattern;
};
constexpr Format kFormats[] = {
    {"date", NG_DATE},
    {"time", NG_TIME},
    {"date-time", NG_DATE "T" NG_TIME},
    {"duration",
     "P(?:[0-9]{1,4}W|(?:[0-9]{1,4}D)|[0-9]{1,4}Y(?:[0-9]{1,4}M(?:[0-9]{1,4}D)?)?|"
     "[0-9]{1,4}M(?:[0-9]{1,4}D)?|T[0-9]{1,4}(?:S|M(?:[0-9]{1,4}S)?|"
     "H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?))"},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"ipv4", NG_OCTET "(?:\\." NG_OCTET "){3}"},
    {"hostname", NG_HOST},
    {"email", "[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,32}){0,2}@" NG_HOST},
    {"uri", "https?://" NG_HOST "(?::[1-9][0-9]{0,3})?(?:/[A-Za-z0-9._~-]*)*"
            "(?:\\?[A-Za-z0-9._~=&-]*)?(?:#[A-Za-z0-9._~-]*)?"},
};
#undef NG_DATE
#undef NG_TIME
#undef NG_HOST
#undef NG_OCTET

}  // namespace

absl::StatusOr<const Dfa*> SchemaCompiler::FormatDfa(const std::string& name,
                                                     const std::string& at) {
  const std::string key = absl::StrCat("format ", name);
  if (const auto found = patterns_.find(key); found != patterns_.end()) return &found->second;
  const auto* const format = std::ranges::find(kFormats, name, &Format::name);
  if (format == std::end(kFormats)) {
    std::string names;
    for (const Format& known : kFormats) absl::StrAppend(&names, " ", known.name);
    return SchemaError(at,
                       absl::StrCat("the format '", OneLine(name), "' is none of", names,
                                    " (sampler.grammar.formats = annotate passes over formats)"));
  }
  absl::StatusOr<Dfa> dfa = Matching(format->pattern);
  if (!dfa.ok()) return SchemaError(at, std::string(dfa.status().message()));
  return &patterns_.emplace(key, *std::move(dfa)).first->second;
}

absl::StatusOr<const Dfa*> SchemaCompiler::PatternDfa(const std::string& pattern,
                                                      const std::string& at) {
  const std::string key = absl::StrCat("pattern ", pattern);
  if (const auto found = patterns_.find(key); found != patterns_.end()) return &found->second;
  absl::StatusOr<Dfa> dfa = Found(pattern);
  if (!dfa.ok()) {
    return SchemaError(
        at, absl::StrCat("'", OneLine(pattern), "' ", std::string(dfa.status().message())));
  }
  return &patterns_.emplace(key, *std::move(dfa)).first->second;
}

absl::StatusOr<std::vector<const Dfa*>> SchemaCompiler::TextLimits(const AllOf& all) {
  std::vector<const Dfa*> limits;
  for (const SchemaNode& node : all) {
    const Json& json = *node.json;
    for (const char* name : {"pattern", "format"}) {
      if (!json.contains(name)) continue;
      const std::string at = PointerTo(node.at, name);
      if (!json[name].is_string()) return SchemaError(at, "must be a text");
      const auto text = json[name].get<std::string>();
      if (std::string_view(name) == "pattern") {
        NG_ASSIGN_OR_RETURN(limits.emplace_back(), PatternDfa(text, at));
      } else if (assert_formats_) {
        NG_ASSIGN_OR_RETURN(limits.emplace_back(), FormatDfa(text, at));
      }
    }
    if (!json.contains("_differs")) continue;
    std::vector<std::string> texts;
    for (const Json& value : json["_differs"]) {
      if (value.is_string()) texts.push_back(value.get<std::string>());
    }
    if (texts.empty()) continue;
    NG_ASSIGN_OR_RETURN(const Dfa listed, TheTexts(texts));
    NG_ASSIGN_OR_RETURN(Dfa others, Combine(AnyText(), listed, Both::kAndNot));
    dfas_.push_back(std::move(others));
    limits.push_back(&dfas_.back());
  }
  return limits;
}

absl::StatusOr<Part> SchemaCompiler::Text(const AllOf& all) {
  NG_ASSIGN_OR_RETURN(const Count count, Counts(all, "minLength", "maxLength"));
  NG_ASSIGN_OR_RETURN(const std::vector<const Dfa*> limits, TextLimits(all));
  if (count.most >= 0 && count.least > count.most) return net_.Never();
  if (limits.empty() && count.least == 0 && count.most < 0) return net_.Calling(string_);
  const Part open = net_.Text("\"");
  if (limits.empty()) {
    // As long as it is counted, a character has one spelling: that keeps large counts small.
    const Net::Mark begin = net_.Here();
    Net one(1);
    NG_ASSIGN_OR_RETURN(const Dfa character, Determinize(one, one.Code(Complement({}))));
    const Part once = AddAsJsonString(character, net_);
    const Part characters = net_.Repeat(begin, once, count.least, count.most);
    return net_.Then(net_.Then(open, characters), net_.Text("\""));
  }
  const std::string& at = all.front().at;
  Dfa dfa = AnyText();
  for (const Dfa* limit : limits) {
    absl::StatusOr<Dfa> both = Combine(dfa, *limit, Both::kAnd);
    if (!both.ok()) return SchemaError(at, std::string(both.status().message()));
    dfa = *std::move(both);
  }
  if (count.least > 0 || count.most >= 0) {
    constexpr int64_t kMost = 2000;
    if (std::max(count.least, count.most) > kMost) {
      return SchemaError(at, absl::StrCat("a length above ", kMost,
                                          " together with a pattern or format is not supported"));
    }
    absl::StatusOr<Dfa> length = OfLength(count.least, count.most);
    absl::StatusOr<Dfa> both = length.ok() ? Combine(dfa, *length, Both::kAnd) : length.status();
    if (!both.ok()) return SchemaError(at, std::string(both.status().message()));
    dfa = *std::move(both);
  }
  return net_.Then(net_.Then(open, AddAsJsonString(dfa, net_)), net_.Text("\""));
}

}  // namespace ng::grammar
