// What a schema says of strings: lengths, patterns and formats.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/automata/regex.h"
#include "plugins/sampler/grammar/schema/compiler.h"

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
  absl::StatusOr<Dfa> dfa = Matching(format->pattern, budget_);
  if (!dfa.ok()) return SchemaError(at, std::string(dfa.status().message()));
  return &patterns_.emplace(key, *std::move(dfa)).first->second;
}

absl::StatusOr<const Dfa*> SchemaCompiler::PatternDfa(const std::string& pattern,
                                                      const std::string& at) {
  const std::string key = absl::StrCat("pattern ", pattern);
  if (const auto found = patterns_.find(key); found != patterns_.end()) return &found->second;
  absl::StatusOr<Dfa> dfa = Found(pattern, budget_);
  if (!dfa.ok()) {
    constexpr size_t kShown = 80;
    return SchemaError(at, absl::StrCat("'", OneLine(pattern.substr(0, kShown)),
                                        pattern.size() > kShown ? "..." : "", "' ",
                                        std::string(dfa.status().message())));
  }
  return &patterns_.emplace(key, *std::move(dfa)).first->second;
}

absl::StatusOr<std::vector<const Dfa*>> SchemaCompiler::PatternsOf(const SchemaNode& node) {
  std::vector<const Dfa*> limits;
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
  return limits;
}

absl::StatusOr<std::vector<const Dfa*>> SchemaCompiler::LackedBy(const SchemaNode& node) {
  std::vector<const Dfa*> lacks;
  const auto list = node.json->find(kLacks);
  if (list == node.json->end()) return lacks;
  for (const Json& pattern : *list) {
    if (!pattern.is_string()) return SchemaError(node.at, "a pattern must be a text");
    NG_ASSIGN_OR_RETURN(lacks.emplace_back(), PatternDfa(pattern.get<std::string>(), node.at));
  }
  return lacks;
}

absl::StatusOr<std::vector<const Dfa*>> SchemaCompiler::TextLimits(const AllOf& all) {
  std::vector<const Dfa*> limits;
  for (const SchemaNode& node : all) {
    NG_ASSIGN_OR_RETURN(const std::vector<const Dfa*> patterns, PatternsOf(node));
    limits.insert(limits.end(), patterns.begin(), patterns.end());
    std::vector<std::string> texts;
    for (const Json& value : node.json->value(kDiffers, Json::array())) {
      if (value.is_string()) texts.push_back(value.get<std::string>());
    }
    const auto add_others = [&](const Dfa& without) {
      absl::StatusOr<Dfa> others = Combine(AnyText(), without, Both::kAndNot, budget_);
      if (!others.ok()) return SchemaError(node.at, std::string(others.status().message()));
      dfas_.push_back(*std::move(others));
      limits.push_back(&dfas_.back());
      return absl::OkStatus();
    };
    if (!texts.empty()) {
      const absl::StatusOr<Dfa> without = TheTexts(texts);
      if (!without.ok()) return SchemaError(node.at, std::string(without.status().message()));
      NG_RETURN_IF_ERROR(add_others(*without));
    }
    NG_ASSIGN_OR_RETURN(const std::vector<const Dfa*> lacks, LackedBy(node));
    for (const Dfa* dfa : lacks) NG_RETURN_IF_ERROR(add_others(*dfa));
  }
  return limits;
}

absl::StatusOr<std::optional<Part>> SchemaCompiler::CountingPattern(const AllOf& all) {
  const SchemaNode* only = nullptr;
  for (const SchemaNode& node : all) {
    const bool others = node.json->contains(kDiffers) || node.json->contains(kLacks) ||
                        (assert_formats_ && node.json->contains("format"));
    const bool limits = node.json->contains("pattern");
    if (others || (limits && only != nullptr)) return std::nullopt;
    if (limits) only = &node;
  }
  if (only == nullptr) return std::nullopt;
  const Json& pattern = (*only->json)["pattern"];
  if (!pattern.is_string()) return std::nullopt;
  Net found(budget_);
  const absl::StatusOr<Part> part = AddTexts(pattern.get<std::string>(), /*anywhere=*/true, found);
  if (!part.ok() || !found.status().ok() || !found.counts()) return std::nullopt;
  return AddAsJsonString(found, *part, net_);
}

absl::StatusOr<Part> SchemaCompiler::Text(const AllOf& all) {
  NG_ASSIGN_OR_RETURN(const Count count, Counts(all, "minLength", "maxLength"));
  if (count.any() && spelling_.style == SchemaSpelling::Style::kJson) {
    NG_ASSIGN_OR_RETURN(const std::optional<Part> pattern, CountingPattern(all));
    if (pattern) return net_.Then(net_.Then(net_.Text("\""), *pattern), net_.Text("\""));
  }
  NG_ASSIGN_OR_RETURN(const std::vector<const Dfa*> limits, TextLimits(all));
  if (limits.empty() && count.any()) return net_.Calling(string_);
  Net texts(budget_);
  NG_ASSIGN_OR_RETURN(
      const Part part,
      Texts(all, spelling_.style == SchemaSpelling::Style::kJson ? AnyText() : *within_, texts));
  return Spelled(texts, part);
}

absl::StatusOr<Part> SchemaCompiler::Texts(const AllOf& all, const Dfa& within, Net& texts) {
  NG_ASSIGN_OR_RETURN(const Count count, Counts(all, "minLength", "maxLength"));
  if (count.most >= 0 && count.least > count.most) return texts.Never();
  NG_ASSIGN_OR_RETURN(const std::vector<const Dfa*> limits, TextLimits(all));
  const std::string at = all.empty() ? "#" : all.front().at;
  Dfa dfa = within;
  for (const Dfa* limit : limits) {
    absl::StatusOr<Dfa> both = Combine(dfa, *limit, Both::kAnd, budget_);
    if (!both.ok()) return SchemaError(at, std::string(both.status().message()));
    dfa = *std::move(both);
  }
  Part part = {};
  if (count.any()) {
    part = AddDfa(dfa, texts);
  } else {
    // Only the product of pattern and length knows all lengths that there are; it may be too large.
    constexpr int64_t kMaxUnrolled = 300;
    const bool try_product = !limits.empty() && std::max(count.least, count.most) <= kMaxUnrolled;
    absl::StatusOr<Dfa> both = try_product ? OfLength(count, budget_) : absl::StatusOr<Dfa>(Dfa());
    if (try_product && both.ok()) both = Combine(dfa, *both, Both::kAnd, budget_);
    part = try_product && both.ok() ? AddDfa(*both, texts) : AddCounted(dfa, count, texts);
  }
  NG_RETURN_IF_ERROR(texts.status());
  return part;
}

}  // namespace ng::grammar
