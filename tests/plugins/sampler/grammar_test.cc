// The stage grammar: what each of the three languages allows and refuses; that what is drawn at
// random matches; and that the state follows the sequence.
#include "plugins/sampler/grammar/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "ng/candidate_set.h"
#include "plugins/sampler/grammar/compile.h"
#include "plugins/sampler/grammar/masks/machine.h"

namespace ng {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Token 0 is the stop id, token 1 another special one; then come all bytes and some longer texts.
struct GrammarVocabulary {
  GrammarVocabulary() {
    texts = {"", "<name>"};
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    for (const char* text : {"ab", "abc", "\":", "\", \"", "\"}", "true", "null", "}}", "]}", "12",
                             "\": \"", "{\"", "{\"a", "1,", "é", " \"", "-1", "\n  "}) {
      texts.emplace_back(text);
    }
    views.assign(texts.begin(), texts.end());
    special.assign(texts.size(), 0);
    special[0] = special[1] = 1;
    context.model = {.vocab_size = std::ssize(texts), .max_positions = 1000};
    context.token_bytes = views;
    context.special = special;
    context.stop_ids = stop_ids;
  }
  int32_t IdOf(std::string_view text) const {
    return static_cast<int32_t>(std::ranges::find(texts, text) - texts.begin());
  }

  std::vector<std::string> texts;
  std::vector<std::string_view> views;
  std::vector<uint8_t> special;
  std::vector<int32_t> stop_ids = {0};
  PluginContext context;
};

// How a text stands to a grammar: "no", "begins", "matches", or "matches and ends".
std::string Standing(const absl::StatusOr<grammar::Program>& program, std::string_view text) {
  if (!program.ok()) return std::string(program.status().message());
  absl::StatusOr<grammar::Machine> machine = grammar::Machine::Make(*program, 8);
  if (!machine.ok()) return std::string(machine.status().message());
  const absl::StatusOr<int32_t> now = machine->Advance(grammar::Machine::kStart, text);
  if (!now.ok()) return std::string(now.status().message());
  if (*now == grammar::Machine::kDead) return "no";
  if (machine->MustEnd(*now)) return "matches and ends";
  return machine->CanEnd(*now) ? "matches" : "begins";
}
std::string OfRegex(std::string_view pattern, std::string_view text) {
  return Standing(grammar::CompileRegex(pattern), text);
}
std::string OfGbnf(std::string_view rules, std::string_view text) {
  return Standing(grammar::CompileGbnf(rules), text);
}
std::string OfSchema(std::string_view schema, std::string_view text) {
  return Standing(grammar::CompileSchema(schema, {}), text);
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

struct SchemaRow {
  const char* schema;
  std::vector<const char*> valid;
  std::vector<const char*> invalid;
};

TEST(GrammarSchema, AllowsWhatIsValid) {
  const SchemaRow rows[] = {
      {"true",
       {"[1, {\"a\": null}]", "\"\\ud83d\\ude00\"", "-0.5e3", "{\n  \"a\": []\n}"},
       {"[1,]", "\"\\ud83d\"", "01", "{a:1}"}},
      {R"({"type":"integer","minimum":3,"exclusiveMaximum":120})",
       {"3", "119", "20"},
       {"2", "120", "-5", "3.0"}},
      {R"({"type":"number","exclusiveMinimum":-1.5,"maximum":2})",
       {"-1.4999", "2", "0.5", "2.0"},
       {"-1.5", "2.01", "-2"}},
      {R"({"multipleOf":7,"type":"integer"})", {"0", "49", "-14"}, {"1", "50"}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {"\"ab\"", "\"äö\\n\""},
       {"\"a\"", "\"abcd\""}},
      {R"({"type":"string","pattern":"^a+$"})", {"\"a\"", "\"aaa\""}, {"\"\"", "\"ab\""}},
      {R"({"type":"string","pattern":"b"})", {"\"abc\"", "\"b\""}, {"\"ac\""}},
      {R"({"type":"string","format":"date"})",
       {"\"2024-02-29\"", "\"1999-12-31\""},
       {"\"2023-02-29\"", "\"1999-13-01\""}},
      {R"({"enum":["x\n",1.5,{"a":1,"b":2}]})",
       {"\"x\\n\"", "1.5", "{\"b\": 2, \"a\": 1}"},
       {"\"x\"", "{\"a\":1}"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":true},"required":["a"],
          "additionalProperties":false})",
       {"{\"a\":1}", "{\"b\":[],\"a\":1}"},
       {"{}", "{\"b\":1}", "{\"a\":\"\"}", "{\"c\":1,\"a\":1}"}},
      {R"({"properties":{"a":{"const":1}},"additionalProperties":{"type":"string"}})",
       {"{\"a\":1,\"x\":\"\"}", "{}", "5"},
       {"{\"a\":2}", "{\"x\":1}", "{\"\\u0061\":2}"}},
      {R"({"patternProperties":{"^s":{"type":"string"},"n$":{"maxLength":1}}})",
       {"{\"sn\":\"x\"}", "{\"n\":1}"},
       {"{\"sn\":\"xx\"}", "{\"s\":1}"}},
      {R"({"dependentRequired":{"a":["b"]}})", {"{\"a\":1,\"b\":1}", "{\"b\":1}"}, {"{\"a\":1}"}},
      {R"({"prefixItems":[{"type":"integer"}],"items":{"type":"null"},"maxItems":3})",
       {"[1,null,null]", "[]"},
       {"[null]", "[1,1]", "[1,null,null,null]"}},
      {R"({"type":"array","contains":{"const":7}})", {"[1,7]", "[7]"}, {"[]", "[1]"}},
      {R"({"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}},
          "additionalProperties":false}},"$ref":"#/$defs/n"})",
       {"{\"next\":{\"next\":{}}}"},
       {"{\"next\":1}"}},
      {R"({"allOf":[{"minimum":3},{"type":"integer"}],"anyOf":[{"maximum":4},{"minimum":9}]})",
       {"3", "4", "9"},
       {"2", "5", "\"\""}},
      {R"({"oneOf":[{"type":"integer"},{"minimum":2}]})", {"1", "2.5"}, {"2"}},
      {R"({"if":{"properties":{"k":{"const":1}},"required":["k"]},"then":{"required":["x"]}})",
       {"{\"k\":1,\"x\":0}", "{\"k\":2}", "{}"},
       {"{\"k\":1}"}},
      {R"({"type":"array","contains":{"const":7},"maxContains":2})",
       {"[1,7]", "[7,7,\"x\"]"},
       {"[]", "[7,7,7]", "[1]"}},
      {R"({"anyOf":[{"type":"array","contains":{"const":1},"minContains":3,"maxContains":1},
          {"type":"null"}]})",
       {"null"},
       {"[1,1,1]", "[1]"}},
      {R"({"type":"array","items":{"enum":["a","b",1,1.0]},"uniqueItems":true,"minItems":2})",
       {"[\"a\",1]", "[1,\"b\",\"a\"]"},
       {"[\"a\"]", "[1,1]", "[\"a\",\"b\",\"a\"]"}},
      {R"({"$id":"http://x.org/a/root.json","$ref":"part/b.json#/$defs/n","$defs":{
          "p":{"$id":"part/b.json","$defs":{"n":{"anyOf":[{"$ref":"../c.json"},{"$ref":"#here"}]},
                                            "h":{"$anchor":"here","type":"null"}}},
          "c":{"$id":"/a/c.json","const":3}}})",
       {"3", "null"},
       {"4", "\"\""}},
      {R"({"type":"object","allOf":[{"properties":{"a":{"const":1}}},{"properties":{"b":{}}}],
          "properties":{"c":{}},"unevaluatedProperties":false})",
       {"{\"a\":1,\"b\":2,\"c\":3}", "{}"},
       {"{\"a\":2}", "{\"d\":1}"}},
      {R"({"type":"object","anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},
          {"properties":{"b":{"const":2}},"required":["b"]}],"not":{"required":["z"],
          "properties":{"z":{"const":0}}},"unevaluatedProperties":{"type":"null"}})",
       {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":null}", "{\"a\":1,\"z\":null}"},
       {"{\"a\":1,\"b\":3}", "{}", "{\"a\":1,\"z\":1}"}},
      {R"({"type":"array","prefixItems":[{"const":1}],"allOf":[{"prefixItems":[true,{"const":2}]}],
          "unevaluatedItems":false})",
       {"[1,2]", "[1]"},
       {"[1,2,3]", "[2]"}},
      {R"({"type":"object","properties":{"k":{"enum":["a","b"]}},"required":["k"],
          "if":{"properties":{"k":{"const":"a"}}},"then":{"properties":{"next":{"$ref":"#"}}},
          "unevaluatedProperties":false})",
       {"{\"k\":\"a\",\"next\":{\"k\":\"b\"}}"},
       {"{\"k\":\"b\",\"next\":{\"k\":\"b\"}}"}},
      {R"({"not":{"enum":["a",3]}})", {"\"b\"", "4", "null"}, {"\"a\"", "3"}},
      {R"({"propertyNames":{"maxLength":2}})", {"{\"ab\":1}"}, {"{\"abc\":1}"}},
  };
  for (const SchemaRow& row : rows) {
    for (const char* text : row.valid) {
      EXPECT_THAT(OfSchema(row.schema, text), ::testing::StartsWith("matches"))
          << row.schema << text;
    }
    for (const char* text : row.invalid) {
      EXPECT_THAT(OfSchema(row.schema, text), ::testing::AnyOf("no", "begins"))
          << row.schema << text;
    }
  }
}

TEST(GrammarSchema, RefusesByNameAndPointerWhatItDoesNotRead) {
  EXPECT_THAT(OfSchema(R"({"properties":{"a":{"$dynamicRef":"#x"}}})", ""),
              AllOf(HasSubstr("#/properties/a"), HasSubstr("'$dynamicRef'")));
  EXPECT_THAT(OfSchema(R"({"contains":{},"unevaluatedItems":false})", ""),
              HasSubstr("together with contains"));
  EXPECT_THAT(OfSchema(R"({"$defs":{"a":{"$id":"x"},"b":{"$id":"x"}}})", ""),
              HasSubstr("'x' is the name of two schemas"));
  EXPECT_THAT(OfSchema(R"({"colour":1})", ""), HasSubstr("'colour' is not supported"));
  EXPECT_THAT(OfSchema(R"({"type":"array","uniqueItems":true})", ""), HasSubstr("uniqueItems"));
  EXPECT_THAT(OfSchema(R"({"$ref":"http://x/y"})", ""), HasSubstr("outside of the schema"));
  EXPECT_THAT(OfSchema(R"({"multipleOf":0.12345678})", ""),
              AllOf(HasSubstr("at #/multipleOf"), HasSubstr("up to 5000")));
  EXPECT_THAT(OfSchema(R"({"format":"iri"})", ""), HasSubstr("'iri' is none of date"));
  EXPECT_THAT(OfSchema(R"({"allOf":[{"$ref":"#"}]})", ""), HasSubstr("refers to itself"));
  EXPECT_THAT(OfSchema(R"({"minLength":2147483649})", ""),
              AllOf(HasSubstr("at #/minLength"), HasSubstr("a whole number up to 2147483648")));
  EXPECT_THAT(OfSchema(R"({"type":"text"})", ""), HasSubstr("'text', must be null"));
  EXPECT_THAT(OfSchema("{\"a\":", ""), HasSubstr("is no JSON text"));
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
  EXPECT_THAT(OfSchema("{\"properties\":{" + names + "\"z\":0}}", ""), HasSubstr("steps"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));  // sanitizers too
}

std::string Times(const std::string& text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
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

TEST(GrammarLimits, TheMakingEndsWhenItIsToldTo) {
  const std::atomic<bool> stop = true;
  GrammarVocabulary vocabulary;
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
}

TEST(GrammarSchema, MultiplesOfDecimals) {
  constexpr char kCents[] = R"({"type":"number","multipleOf":0.01,"minimum":0})";
  EXPECT_EQ(OfSchema(kCents, "0.07"), "matches");
  EXPECT_EQ(OfSchema(kCents, "12.340"), "matches");
  EXPECT_EQ(OfSchema(kCents, "12.345"), "no");
  EXPECT_EQ(OfSchema(kCents, "3"), "matches");
  EXPECT_EQ(OfSchema(R"({"multipleOf":0.25})", "-1.75"), "matches");
  EXPECT_EQ(OfSchema(R"({"multipleOf":0.25})", "1.3"), "no");
  EXPECT_EQ(OfSchema(R"({"multipleOf":2.5})", "7.5"), "matches");
  EXPECT_EQ(OfSchema(R"({"multipleOf":2.5})", "8"), "begins");
  EXPECT_EQ(OfSchema(R"({"multipleOf":5000000})", "10000000"), "matches");
  EXPECT_EQ(OfSchema(R"({"multipleOf":5000000})", "1000000"), "begins");
  EXPECT_EQ(OfSchema(R"({"enum":[0.5,0.75,0.8],"multipleOf":0.25})", "0.75"), "matches and ends");
  EXPECT_EQ(OfSchema(R"({"enum":[0.5,0.75,0.8],"multipleOf":0.25})", "0.8"), "no");
}

TEST(GrammarSchema, CompactHasNothingBetweenItsParts) {
  constexpr char kSchema[] = R"({"type":"object","properties":{"a":{"type":"array"}}})";
  const auto compact = grammar::CompileSchema(kSchema, {.compact = true});
  EXPECT_EQ(Standing(compact, "{\"a\":[1,2]}"), "matches and ends");
  EXPECT_EQ(Standing(compact, "{\"a\": "), "no");
  EXPECT_EQ(OfSchema(kSchema, "{\"a\": [1, 2]}"), "matches and ends");
}

TEST(GrammarOptions, ExactlyOneMustBeSetAndFilesMustBeThere) {
  const GrammarVocabulary vocabulary;
  const auto error = [&](const GrammarSource& source) {
    return std::string(Grammar::Create(source, vocabulary.context).status().message());
  };
  EXPECT_THAT(error({}), HasSubstr("must be exactly one"));
  EXPECT_THAT(error({.json_schema = "{}", .regex = "a"}), HasSubstr("must be exactly one"));
  EXPECT_THAT(error({.json_schema = "/nowhere/x.json"}),
              AllOf(HasSubstr("sampler.grammar.json_schema"), HasSubstr("/nowhere/x.json")));
  EXPECT_THAT(error({.regex = "("}), HasSubstr("sampler.grammar.regex: has '('"));
  PluginContext mute = vocabulary.context;
  mute.token_bytes = {};
  EXPECT_THAT(std::string(Grammar::Create({.regex = "a"}, mute).status().message()),
              HasSubstr("no tokenizer"));
  const std::vector<std::string_view> one = {"", "x"};
  PluginContext poor = vocabulary.context;
  poor.model.vocab_size = 2;
  poor.token_bytes = one;
  poor.special = poor.special.first(1);
  EXPECT_THAT(std::string(Grammar::Create({.regex = "ab"}, poor).status().message()),
              HasSubstr("begins a text of the grammar"));
}

// What is left of even logits.
std::vector<int32_t> Left(SamplerStage& stage, int slot, int64_t vocab_size) {
  const std::vector<float> logits(static_cast<size_t>(vocab_size), 0.0F);
  CandidateStorage storage(vocab_size);
  CandidateSet set = storage.Begin(logits);
  EXPECT_TRUE(stage.Apply(slot, {}, set).ok());
  std::vector<int32_t> ids;
  for (const Candidate& candidate : set.items()) ids.push_back(candidate.id);
  return ids;
}

TEST(Grammar, LeavesTokensThatCrossPartsAndStopsWhereItMay) {
  const GrammarVocabulary vocabulary;
  const int64_t n = vocabulary.context.model.vocab_size;
  auto stage = *Grammar::Create({.regex = "a(bc)?"}, vocabulary.context);
  ASSERT_TRUE(stage->Open(0, std::vector<int32_t>{5, 6}).ok());
  EXPECT_THAT(Left(*stage, 0, n),
              ::testing::UnorderedElementsAre(vocabulary.IdOf("a"), vocabulary.IdOf("ab"),
                                              vocabulary.IdOf("abc")));
  ASSERT_EQ(*stage->Accept(0, vocabulary.IdOf("a")), SequenceEnd::kNo);
  EXPECT_THAT(Left(*stage, 0, n), ::testing::UnorderedElementsAre(0, vocabulary.IdOf("b")));
  ASSERT_TRUE(stage->Fork(0, 1).ok());
  ASSERT_EQ(*stage->Accept(1, vocabulary.IdOf("b")), SequenceEnd::kNo);
  ASSERT_EQ(*stage->Accept(1, vocabulary.IdOf("c")), SequenceEnd::kStage);
  ASSERT_TRUE(stage->Truncate(1, 4).ok());
  EXPECT_THAT(Left(*stage, 1, n), ::testing::UnorderedElementsAre(vocabulary.IdOf("c")));
  EXPECT_FALSE(stage->Accept(0, vocabulary.IdOf("12")).ok());
}

// Each mask against walking the bytes of each token, at each step of random answers.
TEST(Grammar, MasksAreWhatTheBytesOfEachTokenSay) {
  const GrammarVocabulary vocabulary;
  const int64_t n = vocabulary.context.model.vocab_size;
  const GrammarSource sources[] = {
      {.json_schema = "true"},
      {.json_schema = R"({"type":"object","properties":{"a":{"maxLength":40},"ab":{"maximum":12}},
                         "required":["ab"]})"},
      {.regex = "([a-c]{2,60},){0,4}1"},
      {.regex = "(a|bc|abc){3,90}(1,|[0-9]{2,200}\\n){0,70}"},
      {.json_schema = R"({"type":"string","minLength":5,"maxLength":50})"},
      {.gbnf = "root ::= (text \"1\" | text \"2\" root | \"a\" text \"3\")\n"
               "text ::= \"a\"? ([a-c]{3,70} \",\"){2,90}"},
      {.json_schema = R"({"type":"string","pattern":"^[a-b]*(c[a-b]{2})+$","maxLength":400})"},
      {.json_schema = R"({"type":"array","items":{"enum":[1,12]},"minItems":2,"maxItems":60})"},
      {.gbnf = "root ::= \"a\" root \"b\" root | [0-9]{0,30}"}};
  std::mt19937_64 random(3);
  for (const GrammarSource& source : sources) {
    auto stage = *Grammar::Create(source, vocabulary.context);
    grammar::Machine machine = *grammar::Machine::Make(*CompileGrammar(source), 1);
    for (int run = 0; run < 40; ++run) {
      ASSERT_TRUE(stage->Open(0, {}).ok());
      int32_t now = grammar::Machine::kStart;
      for (int step = 0; step < 30; ++step) {
        std::vector<int32_t> expected;
        std::vector<int32_t> behind(static_cast<size_t>(n));
        if (machine.CanEnd(now)) expected.push_back(0);
        for (int32_t id = 2; id < n; ++id) {
          int32_t& to = behind[static_cast<size_t>(id)] = now;
          for (const char c : vocabulary.texts[static_cast<size_t>(id)]) {
            to = machine.Step(to, machine.program().ClassOf(static_cast<uint8_t>(c)));
          }
          if (to != grammar::Machine::kDead) expected.push_back(id);
        }
        ASSERT_EQ(Left(*stage, 0, n), expected) << "run " << run << " step " << step;
        const int32_t id = expected[random() % expected.size()];
        if (id == 0) break;
        now = behind[static_cast<size_t>(id)];
        if (*stage->Accept(0, id) == SequenceEnd::kStage) break;
      }
    }
  }
}

TEST(Grammar, FinishedAnswersAreValidJson) {
  const GrammarVocabulary vocabulary;
  const int64_t n = vocabulary.context.model.vocab_size;
  auto stage = *Grammar::Create(
      {.json_schema = R"({"type":"object","properties":{"a":{"type":"integer","maximum":7},
          "b":{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":2}},
          "required":["b"],"additionalProperties":false})"},
      vocabulary.context);
  std::mt19937_64 random(11);
  int n_finished = 0;
  for (int run = 0; run < 200; ++run) {
    ASSERT_TRUE(stage->Open(0, {}).ok());
    std::string text;
    for (int step = 0; step < 300; ++step) {
      const std::vector<int32_t> left = Left(*stage, 0, n);
      const int32_t id = left[random() % left.size()];
      text += vocabulary.texts[static_cast<size_t>(id)];
      if (*stage->Accept(0, id) != SequenceEnd::kStage) continue;
      ++n_finished;
      const auto json = nlohmann::json::parse(text, nullptr, false);
      ASSERT_TRUE(json.is_object()) << text;
      ASSERT_TRUE(json.contains("b") && json["b"].size() >= 1 && json["b"].size() <= 2) << text;
      ASSERT_TRUE(!json.contains("a") || json["a"] <= 7) << text;
      break;
    }
  }
  EXPECT_GE(n_finished, 150);
}

}  // namespace
}  // namespace ng
