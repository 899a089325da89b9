// Grammars that stand for far more than they say: each is made, or refused within the budget.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <optional>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/growth/grammar_texts.h"
#include "tests/growth/growth.h"

namespace ng::test {
namespace {

struct Doubling {
  const char* name;
  size_t size;  // the smallest
  Written write;
};
std::ostream& operator<<(std::ostream& out, const Doubling& doubling) {
  return out << doubling.name;
}

const Doubling kDoublingKinds[] = {
    {"GBNF: rules that double", 8,
     [](size_t n) {
       return Gbnf("root ::= r0\n" + Joined(n, "\n", [&](size_t i) {
                     return i + 1 < n ? absl::StrCat("r", i, " ::= r", i + 1, " r", i + 1)
                                      : absl::StrCat("r", i, " ::= \"x\"");
                   }));
     }},
    {"GBNF: rules of two ways", 8,
     [](size_t n) {
       return Gbnf("root ::= r0\n" + Joined(n, "\n", [&](size_t i) {
                     return i + 1 < n ? absl::StrCat("r", i, " ::= \"a\" r", i + 1, " | r", i + 1,
                                                     " \"b\"")
                                      : absl::StrCat("r", i, " ::= \"x\"");
                   }));
     }},
    {"regex: a? in counts", 8,
     [](size_t n) { return RegexOf(TextTimes("(", n) + "a?" + TextTimes("){2}", n)); }},
    {"regex: one of two in counts", 8,
     [](size_t n) { return RegexOf(TextTimes("(", n) + "ab?|c" + TextTimes("){2,3}", n)); }},
    {"schema: a? in counts", 8,
     [](size_t n) { return Pattern("^" + TextTimes("(", n) + "a?" + TextTimes("){2}", n) + "$"); }},
    {"schema: a sign n before the end", 8,
     [](size_t n) { return Pattern(absl::StrCat("^.*a.{", n, "}b.*$")); }},
    {"schema: n of two ways", 8,
     [](size_t n) {
       return Schema({{"allOf", ListOf(n, [](size_t i) {
                         return Json{{"anyOf", {{{"minimum", 2 * i}}, {{"maximum", 2 * i + 1}}}}};
                       })}});
     }},
    {"schema: opposites of the same", 8,
     [](size_t n) {
       return Definitions(n, TypeOf("null"), [](size_t next) {
         return Json{{"not", {{"allOf", {Reference(next), Reference(next)}}}}};
       });
     }},
    {"schema: one of the same", 8,
     [](size_t n) {
       return Definitions(n, TypeOf("null"), [](size_t next) {
         return Json{{"oneOf", {Reference(next), {{"type", "array"}, {"items", Reference(next)}}}}};
       });
     }},
    {"schema: properties of the same", 8,
     [](size_t n) {
       return Definitions(n, TypeOf("null"), [](size_t next) {
         return Json{{"properties", {{"a", Reference(next)}, {"b", Reference(next)}}}};
       });
     }},
    // No levels, but much that is so at once, or many pairs.
    {"regex: a? n times", 512, [](size_t n) { return RegexOf(TextTimes("a?", n) + "b"); }},
};

class DoublingGrammar : public testing::TestWithParam<Doubling> {};

TEST_P(DoublingGrammar, IsMadeOrRefusedWithinTheBudget) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;  // that are allocated, most of them given back
  size_t levels = GetParam().size;
  for (int i = 0; i < 5; ++i, levels *= 2) {
    std::string refusal;
    std::optional<int64_t> cost;
    const std::clock_t begin = std::clock();
    const int64_t bytes = BytesOf([&] { cost = BytesToMake(GetParam().write(levels), &refusal); });
    PrintGrowth({GetParam().name, 0, {}}, levels, bytes,
                static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    if (GrowthScale() > 1) std::printf("    %s\n", refusal.c_str());
    EXPECT_LT(bytes, kMostBytes) << levels << " " << refusal;
    EXPECT_EQ(refusal.empty(), cost.has_value());
  }
}

INSTANTIATE_TEST_SUITE_P(Grammars, DoublingGrammar, testing::ValuesIn(kDoublingKinds),
                         [](const auto& info) {
                           return NameOfGrowth({{info.param.name, 0, {}}, info.index});
                         });

}  // namespace
}  // namespace ng::test
