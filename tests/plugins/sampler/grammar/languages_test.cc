// What a regular expression and GBNF allow and refuse; and that no grammar takes long to be made,
// whatever it counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/sampler/grammar/automata/dfa.h"
#include "plugins/sampler/grammar/grammar.h"
#include "tests/plugins/sampler/grammar/grammar_testing.h"

namespace ng {
namespace {

using test::OfGbnf;
using test::OfRegex;
using test::OfSchema;
using test::Standing;
using test::Times;
using ::testing::AllOf;
using ::testing::HasSubstr;

// What the tools of a grammar have in common is there once, however many they are.
TEST(GrammarNet, RulesOfOneMeaningAreOne) {
  grammar::Budget budget;
  grammar::Net net(budget);
  grammar::Part whole = net.Nothing();
  for (const auto& [text, meaning] :
       {std::pair("x", "one"), {"y", "one"}, {"z", ""}, {"w", ""}, {"v", "another"}}) {
    grammar::Net other(budget);
    const int32_t rule = other.NewRule("text");
    other.SetRule(rule, other.Text(text));
    other.SetMeaning(rule, meaning);
    whole = net.Then(whole, net.Append(other, other.Calling(rule)));
  }
  const int32_t root = net.NewRule("root");
  net.SetRule(root, whole);
  EXPECT_EQ(Standing(grammar::Program::Make(net, root), "xxzwv"), "matches and ends");
  EXPECT_EQ(Standing(grammar::Program::Make(net, root), "xy"), "no");
}

// Calls `check` with each text of so many letters or fewer.
template <class Check>
void ForEachText(std::string_view letters, size_t length, const Check& check) {
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size(); ++i) {
    check(texts[i]);
    if (texts[i].size() == length) continue;
    for (const char letter : letters) texts.push_back(texts[i] + letter);
  }
}

// A search meets again what it has begun: the sets of its places grow out of one another.
TEST(GrammarSearch, FindsAPatternThatBeginsWithinItself) {
  for (const char* const pattern : {"abab", "aabaa", "(ab[ab]+)(ab[ab]+)", "^b.*aba", "a.*b.*a",
                                    "(ab|ba)+b", "ab$|^ba", "aba?b", "[ab]a[ab]b", "^(b|ab*)a"}) {
    grammar::Budget budget;
    const absl::StatusOr<grammar::Dfa> found = grammar::Found(pattern, budget);
    ASSERT_TRUE(found.ok()) << found.status();
    const std::regex expected(pattern);
    ForEachText("abx", 7, [&](const std::string& text) {
      EXPECT_EQ(found->Matches(text), std::regex_search(text, expected)) << pattern << " " << text;
    });
  }
}

TEST(GrammarSearch, EndsAtTheFirstBeginningThatIsRead) {
  const std::vector<std::string> marks = {"abab", "aab", "bbb"};
  const std::string gbnf =
      "root ::= %until(\"abab\" : \"1\" | \"aab\" : \"2\" | \"bbb\" : \"3\" | ^ \"ba\" : \"4\" | )";
  const absl::StatusOr<grammar::Program> program = grammar::CompileGbnf(gbnf, {});
  ASSERT_TRUE(program.ok()) << program.status();
  ForEachText("ab", 9, [&](const std::string& text) {
    size_t ended = text.starts_with("ba") ? 3 : 4;  // by which of them
    size_t end = ended == 3 ? 2 : text.npos;
    for (size_t i = 0; i < marks.size(); ++i) {
      const size_t at = text.find(marks[i]);
      if (at == text.npos || at + marks[i].size() >= end) continue;
      end = at + marks[i].size();
      ended = i;
    }
    const std::string read = text.substr(0, std::min(end, text.size()));
    EXPECT_EQ(Standing(program, read), ended < 4 ? "begins" : "matches") << text;
    for (size_t i = 0; i < 4; ++i) {
      const std::string standing = Standing(program, read + static_cast<char>('1' + i));
      EXPECT_EQ(standing, ended == 4 ? "matches" : ended == i ? "matches and ends" : "no") << text;
    }
  });
}

TEST(GrammarRegex, MatchesTheWholeText) {
  EXPECT_EQ(OfRegex("[0-9]+(,[0-9]+)*", "12,3"), "matches");
  EXPECT_EQ(OfRegex("[0-9]+(,[0-9]+)*", "12,"), "begins");
  EXPECT_EQ(OfRegex("(?:ab|c){2,3}?", "ababc"), "matches and ends");
  EXPECT_EQ(OfRegex("[^a-z]é\\u{1F600}\\d\\.", "Xé😀7."), "matches and ends");
  EXPECT_EQ(OfRegex("a{3}", "aaaa"), "no");
  EXPECT_EQ(OfRegex("^a|b$|c", "b"), "matches and ends");
  EXPECT_EQ(OfRegex("a^b", "ab"), "matches no text at all");
  EXPECT_EQ(OfRegex(".", "\xff"), "no");  // no UTF-8
  EXPECT_EQ(OfRegex("(a*)*b", "aaab"), "matches and ends");
}

TEST(GrammarRegex, RefusesWhatIsNotRegularOrWrongAndSaysWhere) {
  EXPECT_THAT(OfRegex("a(?=b)", ""), HasSubstr("at character 2"));
  EXPECT_THAT(OfRegex("(a)\\1", ""), HasSubstr("at character 4"));
  EXPECT_THAT(OfRegex("\\bword", ""), HasSubstr("not known or not regular"));
  EXPECT_THAT(OfRegex("a)", ""), HasSubstr("has ')' without '('"));
  EXPECT_THAT(OfRegex("(a", ""), HasSubstr("has '(' without ')'"));
  EXPECT_THAT(OfRegex("[z-a]", ""), HasSubstr("wrong range"));
  EXPECT_THAT(OfRegex("a{2,1}", ""), HasSubstr("n below m"));
  EXPECT_THAT(OfRegex("*", ""), HasSubstr("nothing to repeat"));
}

TEST(GrammarRules, CallEachOtherAndThemselves) {
  constexpr char kSums[] =
      "root ::= sum # a comment\nsum ::= term (\"+\" term)*\n"
      "term ::= [0-9]+\n  | \"(\" sum \")\"\n";
  EXPECT_EQ(OfGbnf(kSums, "1+(2+(3))"), "matches");
  EXPECT_EQ(OfGbnf(kSums, "((1)"), "begins");
  EXPECT_EQ(OfGbnf(kSums, "1)"), "no");
  EXPECT_EQ(OfGbnf("root ::= \"a\" root \"b\" | \"\"", "aabb"), "matches and ends");
  EXPECT_EQ(OfGbnf("root ::= x{2} .\nx ::= \"\\x41\" | \"\\u00e9\"", "Aé😀"), "matches and ends");
}

TEST(GrammarRules, AreRefusedByNameWithTheReason) {
  EXPECT_THAT(OfGbnf("root ::= root \"a\" | \"b\"", ""),
              AllOf(HasSubstr("'root' begins with itself"), HasSubstr("left recursion")));
  EXPECT_THAT(OfGbnf("root ::= a? b \"x\"\na ::= \"q\"\nb ::= a? root | \"z\"", ""),
              HasSubstr("begins with itself"));
  EXPECT_THAT(OfGbnf("root ::= other", ""), HasSubstr("'other', which is not defined"));
  EXPECT_THAT(OfGbnf("start ::= \"a\"", ""), HasSubstr("has no rule root"));
  EXPECT_THAT(OfGbnf("root ::= \"a", ""), HasSubstr("without its closing"));
  EXPECT_THAT(OfGbnf("root ::= \"a\" root", ""), HasSubstr("matches no text at all"));
  EXPECT_THAT(OfGbnf("root ::= \"a\"\nroot ::= \"b\"", ""), HasSubstr("twice"));
}

TEST(GrammarLimits, HostileGrammarsAreRefusedSoon) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(OfRegex("a{9999999999}", ""), HasSubstr("a count above 2147483648"));
  EXPECT_THAT(OfRegex(std::string(100000, '('), ""), HasSubstr("200 groups"));
  EXPECT_THAT(OfSchema(R"({"type":"string","pattern":"(a|b)*a(a|b){30}","maxLength":900})", ""),
              AllOf(HasSubstr("at #/pattern"), HasSubstr("more than 8000 states")));
  EXPECT_EQ(OfSchema(R"({"type":"string","pattern":"(a|b)*a(a|b){30}"})", "\"ab"), "begins");
  EXPECT_THAT(OfSchema(std::string(100000, '['), ""), HasSubstr("within each other"));
  std::string names;
  for (int i = 0; i < 40000; ++i) names += "\"n" + std::to_string(i) + "\":0,";
  EXPECT_THAT(OfSchema("{\"properties\":{" + names + "\"z\":0}}", ""),
              HasSubstr("more than 8000 states"));
  const std::string all = Times(R"({"properties":{"a":{"type":"integer"}}},)", 300);
  const std::string values = Times(R"({"a":1,"b":"x"},)", 3000);
  EXPECT_THAT(OfSchema(R"({"enum":[)" + values + R"(0],"allOf":[)" + all + "{}]}", ""),
              AllOf(HasSubstr("at #/allOf"), HasSubstr("takes more than 30000000 steps")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));  // sanitizers too
}

// Each of these ended the program, or took seconds and more.
TEST(GrammarLimits, LargeAndDeepGrammarsAreMadeAtOnce) {
  std::string list;
  for (int i = 0; i < 20100; ++i) list += (i > 0 ? "," : "") + std::to_string(i);
  EXPECT_EQ(OfSchema("{\"enum\":[" + list + "]}", "20099"), "matches and ends");
  EXPECT_EQ(OfSchema("{\"enum\":[" + list + "]}", "20100"), "no");
  std::string names;
  for (int i = 0; i < 10000; ++i) {
    names += (i > 0 ? ",\"s" : "\"s") + std::to_string(i) + "\"";
  }
  EXPECT_EQ(OfSchema("{\"enum\":[" + names + "]}", "\"s9999\""), "matches and ends");
  std::string rules = "root ::= \"k0\"";
  for (int i = 1; i < 6700; ++i) rules += " | \"k" + std::to_string(i) + "\"";
  EXPECT_EQ(OfGbnf(rules, "k6699"), "matches and ends");
  EXPECT_EQ(OfGbnf(rules, "k6700"), "no");
  rules = "root ::= a0\n";
  for (int i = 0; i < 12; ++i) {
    const std::string next = "a" + std::to_string(i + 1);
    rules += "a" + std::to_string(i) + " ::= " + next + " " + next + "\n";
  }
  EXPECT_EQ(OfGbnf(rules + "a12 ::= \"x\"?", "xxx"), "matches");
  std::string pattern = "a?";
  for (int i = 0; i < 15; ++i) pattern = "(" + pattern + "){2}";
  EXPECT_EQ(OfRegex(pattern, Times("a", 32768)), "matches and ends");
  EXPECT_EQ(OfRegex(pattern, Times("a", 32769)), "no");
}

TEST(GrammarLimits, WhatBecomesTooLargeWithinAnItemIsTooLarge) {
  const std::string large = "root ::= \"" + Times("a", 399980) + "\" ";
  const std::string word = "\"bcdefghijklmnopqrstuvwxyz\"";
  EXPECT_THAT(OfGbnf(large + "(" + word + " [a-z]*){300}", ""), HasSubstr("too large"));
  EXPECT_THAT(OfGbnf(large + "%until(" + word + " : \"b\")", ""), HasSubstr("too large"));
}

TEST(GrammarLimits, AnErrorShowsTheBeginningOfAPattern) {
  const std::string pattern = Times("abcd", 5000) + "(?=a)";
  const std::string refused =
      OfSchema("{\"type\": \"string\", \"pattern\": \"" + pattern + "\"}", "");
  EXPECT_THAT(refused, HasSubstr("at #/pattern: 'abcdabcd"));
  EXPECT_THAT(refused, HasSubstr("abcd...' looks ahead"));
  EXPECT_LT(refused.size(), 300);
}

TEST(GrammarLimits, ManyNamesAreNoStatesWhereNoOthersMayCome) {
  std::string properties;
  for (int i = 0; i < 9000; ++i) {
    properties += (i > 0 ? ", \"k" : "\"k") + std::to_string(i) + "\": {\"const\": 1}";
  }
  const std::string closed =
      R"({"type": "object", "additionalProperties": false, "properties": {)" + properties + "}}";
  EXPECT_EQ(OfSchema(closed, "{\"k0\":1,\"k8999\":1}"), "matches and ends");
}

TEST(GrammarSchema, OfPropertiesWithOneNameTheLastCounts) {
  const char* const schema = R"({"type": "object", "additionalProperties": false, "properties":
      {"a": {"const": 1}, "b": {"const": 2}, "a": {"const": 3}, "c": {"const": 4}},
      "required": ["a", "b", "c"], "required": ["a"]})";
  EXPECT_EQ(OfSchema(schema, R"({"a":3,"c":4})"), "matches and ends");
  EXPECT_EQ(OfSchema(schema, R"({"a":1)"), "no");
}

TEST(GrammarLimits, TheMakingEndsWhenItIsToldTo) {
  const std::atomic<bool> stop = true;
  test::GrammarVocabulary vocabulary;
  vocabulary.context.stop = &stop;
  for (GrammarSource source :
       {GrammarSource{.json_schema = R"({"enum":["a","b"]})"}, GrammarSource{.regex = "(a|b)+"},
        GrammarSource{.gbnf = "root ::= \"a\""}}) {
    EXPECT_TRUE(Grammar::Create(source, vocabulary.context).ok());
    source.stop = &stop;
    EXPECT_THAT(std::string(Grammar::Create(source, vocabulary.context).status().message()),
                HasSubstr("told to stop"));
  }
}

TEST(GrammarLimits, EachDefinitionIsWorkedOutOnce) {
  for (const char* keyword : {"allOf", "anyOf"}) {
    std::string schema = "{\"$ref\":\"#/$defs/d0\",\"$defs\":{";
    for (int i = 0; i < 40; ++i) {
      const std::string next = "{\"$ref\":\"#/$defs/d" + std::to_string(i + 1) + "\"}";
      schema += "\"d" + std::to_string(i) + "\":{\"" + keyword + "\":[" + next + "," + next + "]},";
    }
    schema += R"("d40":{"type":"null"}}})";
    EXPECT_EQ(OfSchema(schema, "null"), "matches and ends") << keyword;
  }
}

// Where each bracket may begin either kind there are 2^depth ways, on few stacks.
TEST(GrammarLimits, WaysThatCallTheSameRuleShareTheirStack) {
  constexpr char kEither[] = R"({"$ref":"#/$defs/L","$defs":{
      "L":{"anyOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/B"}]},
      "A":{"type":"array","items":{"$ref":"#/$defs/L"},"minItems":1},
      "B":{"type":"array","items":{"$ref":"#/$defs/L"},"maxItems":3}}})";
  EXPECT_EQ(OfSchema(kEither, Times("[", 200) + Times("]", 200)), "matches and ends");
  EXPECT_EQ(OfSchema(kEither, Times("[", 200) + Times("]", 201)), "no");
}

TEST(GrammarCounts, AreCountedUpToTheirBounds) {
  EXPECT_EQ(OfRegex("(ab|c){3,70000}", "abc"), "begins");
  EXPECT_EQ(OfRegex("(ab|c){3,70000}", "abcab"), "matches");
  EXPECT_EQ(OfRegex("(ab|c){3,70000}", Times("c", 70000)), "matches and ends");
  EXPECT_EQ(OfRegex("(ab|c){3,70000}", Times("c", 70001)), "no");
  EXPECT_EQ(OfRegex("(a|aa){500,1000}b", Times("a", 1300) + "b"), "matches and ends");
  EXPECT_EQ(OfRegex("(a|aa){500,1000}b", Times("a", 499) + "b"), "no");
  EXPECT_EQ(OfRegex("(a|aa){500,1000}b", Times("a", 2001)), "no");
  EXPECT_EQ(OfRegex("((a?b?){100}c){200}", Times("c", 200)), "matches and ends");
  EXPECT_EQ(OfRegex("(x{0,2147483648}){2}", "xxx"), "matches");
  EXPECT_EQ(OfGbnf("root ::= (item \",\"){2,5000} \".\"\nitem ::= \"a\" item? \"b\"", "ab,aabb,."),
            "matches and ends");
}

TEST(GrammarCounts, OfSchemasAreCounted) {
  const std::string text = Times("x", 65536);
  constexpr char kLong[] = R"({"type":"string","minLength":2,"maxLength":65536})";
  EXPECT_EQ(OfSchema(kLong, "\"" + text + "\""), "matches and ends");
  EXPECT_EQ(OfSchema(kLong, "\"" + text + "x"), "no");
  EXPECT_EQ(OfSchema(kLong, "\"é\\n\""), "matches and ends");
  EXPECT_EQ(OfSchema(kLong, "\"é\""), "no");
  // Behind "a" there must be room for what the pattern still asks for.
  constexpr char kBoth[] = R"({"type":"string","pattern":"^[a-z]+@[a-z]+$","maxLength":1000})";
  EXPECT_EQ(OfSchema(kBoth, "\"" + Times("a", 998) + "@b\""), "matches and ends");
  EXPECT_EQ(OfSchema(kBoth, "\"" + Times("a", 999)), "no");
  EXPECT_EQ(OfSchema(R"({"type":"string","pattern":"^[a-z]{1,70000}$"})", "\"" + text + "\""),
            "matches and ends");
  constexpr char kMany[] = R"({"type":"array","minItems":3,"maxItems":5000,"items":{"const":1}})";
  EXPECT_EQ(OfSchema(kMany, "[1,1]"), "no");
  EXPECT_EQ(OfSchema(kMany, "[1" + Times(",1", 4999) + "]"), "matches and ends");
  EXPECT_EQ(OfSchema(kMany, "[1" + Times(",1", 5000)), "no");
  constexpr char kSome[] = R"({"type":"array","contains":{"const":7},"minContains":200})";
  EXPECT_EQ(OfSchema(kSome, "[1" + Times(",7", 199) + "]"), "no");
  EXPECT_EQ(OfSchema(kSome, "[1" + Times(",7", 200) + "]"), "matches and ends");
  constexpr char kNames[] = R"({"type":"object","maxProperties":300,"required":["z"]})";
  EXPECT_EQ(OfSchema(kNames, "{\"a\":1,\"z\":2}"), "matches and ends");
  EXPECT_EQ(OfSchema(kNames, "{\"z\":2" + Times(",\"a\":1", 299) + "}"), "matches and ends");
  EXPECT_EQ(OfSchema(kNames, "{\"z\":2" + Times(",\"a\":1", 300)), "no");
  // Where one is missing there must be room for it, and for what it asks for.
  EXPECT_EQ(OfSchema(kNames, "{\"a\":1" + Times(",\"a\":1", 298) + ",\"z\":2}"),
            "matches and ends");
  EXPECT_EQ(OfSchema(kNames, "{\"a\":1" + Times(",\"a\":1", 299)), "no");
  constexpr char kAsked[] = R"({"type":"object","minProperties":1,"maxProperties":20,"properties":{
      "a":{},"b":{},"c":{},"d":{},"e":{},"f":{},"g":{},"h":{}},"dependentRequired":{"a":["b"]}})";
  EXPECT_EQ(OfSchema(kAsked, "{}"), "no");
  EXPECT_EQ(OfSchema(kAsked, "{\"x\":1" + Times(",\"x\":1", 17) + ",\"a\":1,\"b\":2}"),
            "matches and ends");
  EXPECT_EQ(OfSchema(kAsked, "{\"x\":1" + Times(",\"x\":1", 18) + ",\"a\":"), "no");
}

}  // namespace
}  // namespace ng
