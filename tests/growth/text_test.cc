// Inputs of tokenizers and templates whose cost once grew faster than they did.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/text/added_tokens.h"
#include "core/text/chat/jinja_chat.h"
#include "core/text/files/open_tokenizer.h"
#include "core/text/files/tokenizer_json.h"
#include "core/text/jinja/template.h"
#include "core/text/pipeline/finder.h"
#include "tests/growth/growth.h"

namespace ng {
namespace {

using Json = nlohmann::ordered_json;

using test::BytesOf;
using test::GrowthKind;
using test::TextTimes;

class TextGrowth : public ::testing::TestWithParam<GrowthKind> {};

TEST_P(TextGrowth, IsNoMoreThanThatOfTheInput) { test::ExpectGrowthOfTheInput(GetParam()); }

// The fewest steps within which a template writes this conversation, without those that every
// variable is given.
int64_t Steps(const std::string& program, const Json& values) {
  const auto parsed = jinja::Template::Parse(program, "t").value();
  int64_t low = -8 * static_cast<int64_t>(values.dump().size());
  int64_t high = int64_t{1} << 40;
  while (low + 1 < high) {
    const int64_t middle = low + (high - low) / 2;
    jinja::Limits limits;
    limits.steps = middle;
    limits.bytes = int64_t{1} << 40;
    limits.output = int64_t{1} << 40;
    const bool enough = parsed.Render({values, nullptr}, {}, limits).ok();
    (enough ? high : low) = middle;
  }
  return high - (-8 * static_cast<int64_t>(values.dump().size()));
}

Json WithText(const std::string& text) {
  Json values = Json::object();
  values["a"] = text;
  values["b"] = "aab";
  return values;
}

Json WithDict(size_t n) {
  Json values = Json::object();
  Json& dict = values["d"] = Json::object();
  auto& members = dict.get_ref<Json::object_t&>();
  for (size_t i = 0; i < n; ++i) members.emplace_back(absl::StrCat("key", i), i);
  return values;
}

GrowthKind OfTemplate(const char* name, const std::string& program) {
  return {name, 1000,
          [program](size_t n) { return Steps(program, WithText(TextTimes("a b\n", n))); }};
}

std::unique_ptr<Tokenizer> Characters(const std::function<void(Json&)>& change = {}) {
  Json file = Json::parse(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, " ": 2, "ab": 3,
      "aa": 4}, "merges": ["a b", "a a"]}, "decoder": {"type": "Fuse"}, "added_tokens": []})");
  if (change) change(file);
  return ReadTokenizerJson(file.dump(), "t.json").value();
}

Json Added(int id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// The steps that a pattern takes to find its matches.
GrowthKind OfPattern(const char* name, const std::string& pattern, const std::string& unit) {
  return {name, 2000, [pattern, unit](size_t n) {
            const Regex regex = Regex::Compile(pattern).value();
            const std::string text = TextTimes(unit, n);
            StepBudget budget(text.size());
            const int64_t before = budget.searching().left;
            const absl::Status status =
                ForEachMatch(regex, text, budget, [](auto) { return true; });
            EXPECT_TRUE(status.ok()) << status;
            return before - budget.searching().left;
          }};
}

const GrowthKind kTextKinds[] = {
    OfTemplate("template: in", "{{ 'b' * 9 in a }}"),
    OfTemplate("template: replace", "{{ a.replace('a', 'xyz')|length }}"),
    OfTemplate("template: split", "{{ a.split('b')|length }}"),
    OfTemplate("template: count", "{{ a.count(b) }}"),
    OfTemplate("template: strip", "{{ a.strip('ab \n')|length }}"),
    OfTemplate("template: isdigit", "{{ a.isdigit() }}"),
    OfTemplate("template: upper", "{{ (a|upper)|length }}"),
    OfTemplate("template: tojson", "{{ (a|tojson)|length }}"),
    OfTemplate("template: list", "{{ (a|list)|length }}"),
    {"template: keys of a dict", 500,
     [](size_t n) { return Steps("{% for k in d %}{{ d[k] }}{% endfor %}", WithDict(n)); }},
    {"template: arguments as JSON", 500,
     [](size_t n) { return Steps("{{ d|tojson }}", WithDict(n)); }},
    {"template: dicts of a dict", 500,
     [](size_t n) { return Steps("{{ dict(d, **{'x': 1})|length }}", WithDict(n)); }},
    OfPattern("pattern: spaces to the end", R"(\s+(?!\S)|\s+)", " "),
    OfPattern("pattern: spaces without a line end", R"(\s*[\r\n]+|\s+)", " "),
    OfPattern("pattern: words of a phrase", R"((?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+)", "ab "),
    OfPattern("pattern: one case after another", R"([\p{Lu}\p{M}]*[\p{Ll}\p{M}]+|[\p{Lu}\p{M}]+)",
              "A"),
    {"added token, a long beginning", 2000,
     [](size_t n) {
       const auto tokenizer = Characters([&](Json& file) {
         file["added_tokens"].push_back(Added(5, TextTimes("a", 500) + "b"));
       });
       const std::string text = TextTimes("a", n);
       return BytesOf([&] { EXPECT_TRUE(tokenizer->Encode(text, {.parse_special = true}).ok()); });
     }},
    {"added tokens, each in the next", 32,
     [](size_t n) {
       return BytesOf([&] {
         std::vector<AddedToken> tokens;
         for (size_t i = 1; i <= 32; ++i) {
           tokens.push_back(
               {.id = static_cast<int32_t>(i), .text = TextTimes("a", i), .special = true});
         }
         const AddedTokens added(std::move(tokens));
         const std::string text = TextTimes("a", 100 * n);
         const std::string mask = TextTimes(std::string("\1\1\1\0", 4), 25 * n);
         EXPECT_FALSE(added.Split(text, true, mask).empty());
       });
     }},
    {"a text of one letter", 4000,
     [](size_t n) {
       const auto tokenizer = Characters();
       const std::string text = TextTimes("a", n);
       return BytesOf([&] { EXPECT_TRUE(tokenizer->Encode(text, {}).ok()); });
     }},
    {"keys of a call's arguments", 500,
     [](size_t n) {
       const auto tokenizer = Characters();
       TemplateMetadata metadata;
       metadata.own = {"t", "{% for m in messages %}{{ m.tool_calls|tojson|length }}{% endfor %}"};
       const auto chat = BindChatTemplate(std::move(metadata), *tokenizer, {}).value();
       Json message = {{"role", "assistant"}};
       message["tool_calls"] = Json::array();
       message["tool_calls"].push_back(WithDict(n)["d"]);
       const std::string messages = Json::array({std::move(message)}).dump();
       return BytesOf([&] { EXPECT_TRUE(chat->Render({.messages = messages}).ok()); });
     }},
    {"keys of a message", 500,
     [](size_t n) {
       const auto tokenizer = Characters();
       TemplateMetadata metadata;
       metadata.own = {"t", "{{ messages[0].key1 }}"};
       const auto chat = BindChatTemplate(std::move(metadata), *tokenizer, {}).value();
       Json message = WithDict(n)["d"];
       message["role"] = "user";
       const std::string messages = Json::array({std::move(message)}).dump();
       return BytesOf([&] { EXPECT_TRUE(chat->Render({.messages = messages}).ok()); });
     }},
};

// The library takes hundreds of bytes for each byte of a text that it gets at once.
TEST(SentencePieceMemory, IsAFewTimesThatOfTheText) {
  const auto tokenizer = OpenTokenizer(NG_TEST_DATA "/tokenizers/spm_bpe_llama").value();
  const size_t size = (size_t{1} << 20) * std::min<size_t>(test::GrowthScale(), 4);
  for (const char* const unit : {"a", "word ", "\u4E2D\u6587", "x\n"}) {
    const std::string text = TextTimes(unit, size / std::string(unit).size());
    const int64_t most = test::MostBytesOf([&] { EXPECT_TRUE(tokenizer->Encode(text, {}).ok()); });
    test::PrintGrowth({"SentencePiece, most at once", 0, {}}, text.size(), most, 0);
    EXPECT_LT(static_cast<double>(most), 64 * static_cast<double>(text.size())) << unit;
  }
}

INSTANTIATE_TEST_SUITE_P(Text, TextGrowth, testing::ValuesIn(kTextKinds), test::NameOfGrowth);

}  // namespace
}  // namespace ng
