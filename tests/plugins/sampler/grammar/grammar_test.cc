// The stage grammar: that what is drawn at random matches, and that the state follows the sequence.
#include "plugins/sampler/grammar/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ng/candidate_set.h"
#include "tests/plugins/sampler/grammar/grammar_testing.h"

namespace ng {
namespace {

using test::GrammarVocabulary;
using ::testing::AllOf;
using ::testing::HasSubstr;

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
void ExpectMasksOfBytes(const GrammarVocabulary& vocabulary, const GrammarSource& source,
                        int n_runs) {
  const int64_t n = vocabulary.context.model.vocab_size;
  std::mt19937_64 random(3);
  auto stage = *Grammar::Create(source, vocabulary.context);
  grammar::Machine machine = *grammar::Machine::Make(*CompileGrammar(source), 1);
  for (int run = 0; run < n_runs; ++run) {
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
      std::vector<int32_t> left = Left(*stage, 0, n);
      std::erase(left, 1);  // free text has it
      ASSERT_EQ(left, expected) << "run " << run << " step " << step;
      const int32_t id = expected[random() % expected.size()];
      if (id == 0) break;
      now = behind[static_cast<size_t>(id)];
      if (*stage->Accept(0, id) == SequenceEnd::kStage) break;
    }
  }
}

TEST(Grammar, MasksAreWhatTheBytesOfEachTokenSay) {
  const GrammarVocabulary vocabulary;
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
  for (const GrammarSource& source : sources) ExpectMasksOfBytes(vocabulary, source, 40);
}

// Tokens with many others below them: words, signs, characters of any length, whole and cut, and
// bytes that are none.
std::vector<std::string> ManyTokens() {
  constexpr const char* kParts[] = {"e",
                                    "t",
                                    "ab",
                                    "g",
                                    "Z",
                                    "7",
                                    " ",
                                    "_",
                                    "\n",
                                    "\xC3\xA9",
                                    "\xD1\x8F",
                                    "\xE4\xB8\xAD",
                                    "\xE0\xA4\x95",
                                    "\xF0\x9F\x98\x80",
                                    "\"",
                                    "\\"};
  constexpr const char* kRare[] = {"\xE4\xB8",     "\xF0\x9F", "\xC3", "\x80", "\xFF",
                                   "\xED\xA0\x80", "\x01",     "}",    "<x",   ", \""};
  std::mt19937_64 random(5);
  std::set<std::string> texts;
  while (texts.size() < 3000) {
    const size_t n_parts = std::size(kParts) - random() % 14;
    std::string text;
    for (size_t n = 2 + random() % 5; n > 0; --n) {
      text += random() % 40 == 0 ? kRare[random() % std::size(kRare)] : kParts[random() % n_parts];
    }
    texts.insert(text);
  }
  return {texts.begin(), texts.end()};
}

TEST(Grammar, MasksOfFreeTextAreWhatTheBytesOfEachTokenSay) {
  const GrammarVocabulary vocabulary(ManyTokens());
  const GrammarSource sources[] = {
      {.json_schema = R"({"type":"string"})"},
      {.json_schema = R"({"type":"array","items":{"type":"string","maxLength":9}})"},
      {.json_schema = R"({"type":"string","minLength":3,"maxLength":40})"},
      {.json_schema = R"({"type":"string","pattern":"^[a-z ]{2,20}(\u044f|\u00e9)*$"})"},
      {.json_schema = R"({"type":"object"})"},
      {.regex = "[a-z0-9 ]*"},
      {.regex = "([a-z]{2,9} )*[^e]{0,5}"},
      {.regex = "[^\u044f]{1,30}"},
      {.regex = "(.|\\n){4,}[A-Z]"},
      {.regex = "[e-t\u4e00-\u9fff]*7"},
      {.gbnf = "root ::= %until(\"<x\": \"y\" root | \"te\": [a-z]+ \"!\" root | )"},
      {.gbnf = "root ::= [^a] %until(\"#\": \"y\" | )"},
      {.gbnf = "root ::= [a-z ]* (\"7\" root \"Z\")? [a-z_]{0,9}"},
      {.gbnf = "root ::= text (\",\" text)*\ntext ::= [^\"]{0,12} \"\\\"\""}};
  for (const GrammarSource& source : sources) ExpectMasksOfBytes(vocabulary, source, 6);
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
