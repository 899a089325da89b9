// Grammars of some size, in the three languages, for the tests of growth.
#ifndef NG_TESTS_GROWTH_GRAMMAR_TEXTS_H_
#define NG_TESTS_GROWTH_GRAMMAR_TEXTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/grammar.h"

namespace ng::test {

using Json = nlohmann::ordered_json;

// A grammar in one of the three languages.
struct GrammarText {
  enum Language { kSchema, kRegex, kGbnf };
  Language language;
  std::string text;

  GrammarSource source() const {
    return {.json_schema = language == kSchema ? std::string_view(text) : "",
            .regex = language == kRegex ? std::string_view(text) : "",
            .gbnf = language == kGbnf ? std::string_view(text) : ""};
  }
};
using Written = std::function<GrammarText(size_t n)>;

inline GrammarText Schema(const Json& schema) { return {GrammarText::kSchema, schema.dump()}; }
inline GrammarText Pattern(const std::string& pattern) {
  return Schema({{"type", "string"}, {"pattern", pattern}});
}

// A list of what `make` gives for the numbers below n.
template <class Make>
Json ListOf(size_t n, const Make& make) {
  Json list = Json::array();
  for (size_t i = 0; i < n; ++i) list.push_back(make(i));
  return list;
}
template <class Make>
Json ObjectOf(size_t n, const Make& make) {
  Json object = Json::object();
  auto& members = object.get_ref<Json::object_t&>();
  for (size_t i = 0; i < n; ++i) members.emplace_back(absl::StrCat("k", i), make(i));
  return object;
}
inline Json Reference(size_t i) { return {{"$ref", absl::StrCat("#/$defs/k", i)}}; }
inline Json TypeOf(const char* name) { return {{"type", name}}; }

// n definitions, the last of which is `last`.
template <class Make>
GrammarText Definitions(size_t n, const Json& last, const Make& make) {
  return Schema(
      {{"$defs", ObjectOf(n, [&](size_t i) { return i + 1 < n ? Json(make(i + 1)) : last; })},
       {"$ref", "#/$defs/k0"}});
}

// n pieces of a text.
template <class Make>
std::string Joined(size_t n, const char* between, const Make& make) {
  std::string all;
  for (size_t i = 0; i < n; ++i) absl::StrAppend(&all, i > 0 ? between : "", make(i));
  return all;
}
inline GrammarText Gbnf(const std::string& text) { return {GrammarText::kGbnf, text}; }
inline GrammarText RegexOf(const std::string& text) { return {GrammarText::kRegex, text}; }

// The bytes that it takes to make the stage; nothing where it is refused, which then says why.
std::optional<int64_t> BytesToMake(const GrammarText& grammar, std::string* refusal);

}  // namespace ng::test

#endif  // NG_TESTS_GROWTH_GRAMMAR_TEXTS_H_
