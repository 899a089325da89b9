// Tokens that a grammar names, text up to a beginning, and JSON as an item of a grammar.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ng/candidate_set.h"
#include "plugins/sampler/grammar/grammar.h"
#include "tests/plugins/sampler/grammar/grammar_testing.h"

namespace ng::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A stage in one sequence.
class StageRun {
 public:
  StageRun(const GrammarVocabulary& vocabulary, const std::string& gbnf)
      : vocabulary_(vocabulary),
        stage_(*Grammar::Create({.gbnf = gbnf}, vocabulary.context)),
        storage_(vocabulary.context.model.vocab_size),
        logits_(vocabulary.texts.size()) {
    EXPECT_TRUE(stage_->Open(0, std::vector<int32_t>{5}).ok());
  }

  std::vector<int32_t> Left() {
    CandidateSet set = storage_.Begin(logits_);
    EXPECT_TRUE(stage_->Apply(0, {}, set).ok());
    std::vector<Candidate> left(logits_.size());
    left.resize(set.CopyTo(left));
    std::vector<int32_t> ids;
    for (const Candidate& candidate : left) ids.push_back(candidate.id);
    return ids;
  }
  // "no", "on" or "end"
  std::string Take(int32_t id) {
    const absl::StatusOr<SequenceEnd> end = stage_->Accept(0, id);
    return !end.ok() ? "no" : *end == SequenceEnd::kNo ? "on" : "end";
  }
  std::string Take(std::string_view texts) {
    std::string said = "on";
    for (const char c : texts) said = Take(vocabulary_.IdOf(std::string(1, c)));
    return said;
  }

 private:
  const GrammarVocabulary& vocabulary_;
  std::unique_ptr<SamplerStage> stage_;
  CandidateStorage storage_;
  std::vector<float> logits_;
};

TEST(GrammarBefore, StandsBeforeEachLanguage) {
  const grammar::CompileSettings thinks = {.before =
                                               "(\"<think>\" %until(\"</think>\": ))? [ \\n]{0,2}"};
  for (const auto& program :
       {grammar::CompileRegex("[0-9]{2}", thinks), grammar::CompileGbnf("root ::= \"12\"", thinks),
        grammar::CompileSchema("{\"const\": 12}", thinks)}) {
    EXPECT_EQ(Standing(program, "12"), "matches and ends");
    EXPECT_EQ(Standing(program, "<think>12, or 13?</think>\n\n12"), "matches and ends");
    EXPECT_EQ(Standing(program, "<think></think>12"), "matches and ends");
    EXPECT_EQ(Standing(program, "<think>12"), "begins");
    EXPECT_EQ(Standing(program, "well, 12"), "no");
    EXPECT_EQ(Standing(program, "<think></think> so"), "no");
  }
  // A rule of the grammar may be named before it.
  EXPECT_EQ(Standing(grammar::CompileGbnf("root ::= a\na ::= \"x\"", {.before = "a a"}), "xxx"),
            "matches and ends");
}

TEST(GrammarBefore, IsReadAsItemsOfARule) {
  const auto error = [](const char* before, const GrammarSource& of) {
    GrammarSource source = of;
    source.before = before;
    return std::string(CompileGrammar(source).status().message());
  };
  for (const GrammarSource& source :
       {GrammarSource{.json_schema = "{}"}, GrammarSource{.regex = "a"},
        GrammarSource{.gbnf = "root ::= \"a\""}}) {
    EXPECT_THAT(error("\"a", source), StartsWith("sampler.grammar.before: "));
    EXPECT_EQ(error("none", source),
              "sampler.grammar.before: names the rule 'none', which is not defined");
    EXPECT_THAT(error("a ::= \"b\"", source), StartsWith("sampler.grammar.before: "));
  }
  EXPECT_THAT(error("", {}), StartsWith("sampler.grammar: 0 of"));
}

TEST(GrammarTokens, OnlyTheTokenItselfIsMeant) {
  const GrammarVocabulary vocabulary;
  const int32_t abc = vocabulary.IdOf("abc");
  const std::string rules = "root ::= \"x\" (<[1]> | <[" + std::to_string(abc) + "]>) \"y\"";
  StageRun run(vocabulary, rules);
  EXPECT_EQ(run.Take("x"), "on");
  EXPECT_THAT(run.Left(), ::testing::UnorderedElementsAre(1, abc));
  EXPECT_EQ(run.Take(abc), "on");
  EXPECT_EQ(run.Take("y"), "end");
  StageRun special(vocabulary, rules);
  special.Take("x");
  EXPECT_EQ(special.Take(1), "on");
  StageRun spelled(vocabulary, rules);
  spelled.Take("x");
  EXPECT_EQ(spelled.Take(vocabulary.IdOf("a")), "no");
  // Its text is text where the grammar has text: by other tokens.
  StageRun text(vocabulary, "root ::= \"abc\" | <[" + std::to_string(abc) + "]> \"!\"");
  EXPECT_THAT(text.Left(),
              ::testing::UnorderedElementsAre(abc, vocabulary.IdOf("a"), vocabulary.IdOf("ab")));
  EXPECT_EQ(text.Take(abc), "on");
  EXPECT_EQ(text.Take("!"), "end");
  // A stop id that is named must come.
  StageRun stop(vocabulary, "root ::= \"a\" <[0]>");
  stop.Take("a");
  EXPECT_THAT(stop.Left(), ::testing::ElementsAre(0));
  const auto error = [&](const std::string& gbnf) {
    return std::string(Grammar::Create({.gbnf = gbnf}, vocabulary.context).status().message());
  };
  EXPECT_THAT(error("root ::= <[9999]>"), HasSubstr("names the token 9999, must be below"));
  EXPECT_THAT(error("root ::= <[x]>"), HasSubstr("lacks a number"));
  EXPECT_THAT(error("root ::= <a>"), HasSubstr("without '['"));
}

TEST(GrammarTokens, FreeTextIsFreeUpToTheBeginning) {
  const GrammarVocabulary vocabulary;
  const std::string rules =
      "root ::= %until(\"<a>\" : call | <[1]> \"(\" : call | ^ \"{\" [ ]* \"k\" : \"!\" | )\n"
      "call ::= [0-9] root";
  StageRun free(vocabulary, rules);
  // All may come, bytes that are no text among them.
  EXPECT_EQ(free.Left().size(), vocabulary.texts.size());
  EXPECT_EQ(free.Take("x\xff<<a"), "on");
  EXPECT_EQ(free.Left().size(), vocabulary.texts.size());
  EXPECT_EQ(free.Take(">"), "on");
  EXPECT_THAT(free.Left(), AllOf(Contains(vocabulary.IdOf("12")), Contains(vocabulary.IdOf("1")),
                                 Not(Contains(0)), Not(Contains(1))));
  EXPECT_EQ(free.Take("1"), "on");
  EXPECT_EQ(free.Left().size(), vocabulary.texts.size());
  // Of the token's beginning only the whole counts.
  EXPECT_EQ(free.Take(1), "on");
  EXPECT_EQ(free.Take("x<a"), "on");
  EXPECT_EQ(free.Take(1), "on");
  EXPECT_EQ(free.Take("("), "on");
  EXPECT_EQ(free.Take("x"), "no");
  // At the beginning alone.
  StageRun first(vocabulary, rules);
  EXPECT_EQ(first.Take("{  k"), "on");
  EXPECT_THAT(first.Left(), ::testing::ElementsAre(vocabulary.IdOf("!")));
  StageRun later(vocabulary, rules);
  EXPECT_EQ(later.Take("x{ k"), "on");
  EXPECT_EQ(later.Left().size(), vocabulary.texts.size());
  // Without an empty alternative one of them must come.
  StageRun must(vocabulary, "root ::= %until(\"z\" : )");
  EXPECT_THAT(must.Left(), Not(Contains(0)));
  EXPECT_EQ(must.Take("abz"), "end");
  EXPECT_THAT(OfGbnf("root ::= %until(a : \"b\")\na ::= \"a\"", "a"), HasSubstr("names a rule"));
  EXPECT_THAT(OfGbnf("root ::= %until(\"a\" \"b\")", "a"), HasSubstr("without ':'"));
}

TEST(GrammarItems, JsonStandsAmongText) {
  const std::string rules =
      R"(root ::= "<" %json {"type": "object", "properties": {"a}": {"type": "integer"}},
         "required": ["a}"], "additionalProperties": false} ">")";
  EXPECT_EQ(OfGbnf(rules, R"(<{"a}": 12}>)"), "matches and ends");
  EXPECT_EQ(OfGbnf(rules, R"(<{})"), "no");
  EXPECT_THAT(OfGbnf("root ::= %json {\"type\": \"x\"}", ""), HasSubstr("at #/type"));
  EXPECT_THAT(OfGbnf("root ::= %json \"a\"", ""), HasSubstr("lacks an object of JSON"));
  EXPECT_THAT(OfGbnf("root ::= %jso {}", ""), HasSubstr("is none of"));
}

std::string Arguments(const std::string& schema, const std::string& more = "") {
  return "root ::= %arguments {\"tool\": \"look\", \"schema\": " + schema + more + "}";
}

TEST(GrammarItems, ArgumentsAreAnObjectWhateverTheSchemaSays) {
  EXPECT_EQ(OfGbnf(Arguments("{}"), "{}"), "matches and ends");
  EXPECT_EQ(OfGbnf(Arguments("{}"), "["), "no");
  EXPECT_EQ(OfGbnf(Arguments(R"({"properties": {"a": {"enum": ["x"]}}})"), R"({"a": "x"})"),
            "matches and ends");
  EXPECT_EQ(
      OfGbnf(Arguments(R"({"required": ["a"]})", ", \"in_text\": true"), R"("{\"a\": \"\\\"\"}")"),
      "matches and ends");
  EXPECT_EQ(OfGbnf(Arguments("{}", ", \"in_text\": true"), "\"{\""), "no");
  EXPECT_EQ(OfGbnf(Arguments(R"({"type": "string"})"), ""),
            "the tool 'look' matches no text at all");
}

TEST(GrammarItems, WhatCannotBeKeptIsRefusedOrLoosened) {
  const std::string schema =
      R"j({"properties": {"a": {"type": "string", "pattern": "(?=x)"}, "b": {"type": "integer"},
       "c/d": {"type": "string", "format": "uint"}}, "x-y": 1, "required": ["a"]})j";
  EXPECT_THAT(OfGbnf(Arguments(schema), ""),
              HasSubstr("the tool 'look' at #: the keyword 'x-y' is not supported"));
  const auto program = grammar::CompileGbnf(Arguments(schema, ", \"loose\": true"));
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(Standing(program, R"({"a": "?", "b": 1})"), "matches and ends");
  EXPECT_EQ(Standing(program, R"({"b": 1})"), "no");
  EXPECT_EQ(Standing(program, R"({"a": "?", "b": "1)"), "no");
  EXPECT_THAT(program->notes(),
              ::testing::UnorderedElementsAre(HasSubstr("'look' at #/properties/a/pattern: "),
                                              HasSubstr("'look' at #/properties/c/d/format: ")));
  // Nothing is left of a schema that is none.
  for (const char* const none : {"[1]", R"({"type": "string"})", R"({"allOf": 3})",
                                 R"({"properties": 1})", R"({"$ref": "#/nowhere"})"}) {
    const auto loose = grammar::CompileGbnf(Arguments(none, ", \"loose\": true"));
    EXPECT_EQ(Standing(loose, R"({"a": 1})"), "matches and ends") << none;
    EXPECT_FALSE(loose.ok() && loose->notes().empty()) << none;
  }
}

}  // namespace
}  // namespace ng::test
