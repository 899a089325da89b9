// The steps of a tokenizer.json against the tokenizers library: tests/data/tokenizers/pipeline.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/bpe/byte_alphabet.h"
#include "core/text/files/gguf_pre_tokenizers.h"
#include "core/text/files/tokenizer_json.h"
#include "core/text/files/tokenizer_json_parts.h"
#include "tests/core/text/golden_rows.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

// The rows of steps.jsonl that have this part.
std::vector<Json> StepsOf(const std::string& part) {
  std::vector<Json> rows;
  for (Json& row : GoldenRows("tokenizers/pipeline/steps.jsonl")) {
    if (row.contains(part)) rows.push_back(std::move(row));
  }
  return rows;
}

TEST(Normalizer, DoesEveryStepAsTheReference) {
  const std::vector<Json> rows = StepsOf("normalizer");
  EXPECT_GE(rows.size(), 16);
  for (const Json& row : rows) {
    std::vector<std::string> unread;
    const auto steps = ReadNormalizer(TokenizerJsonFile(row, "t.json"), &unread);
    ASSERT_TRUE(steps.ok()) << steps.status();
    EXPECT_THAT(unread, IsEmpty());
    for (const Json& text : row["cases"]) {
      const std::string given = text[0];
      StepBudget budget(given.size());
      EXPECT_EQ(ApplySteps(*steps, {given, {}}, budget)->text, text[1].get<std::string>())
          << row["normalizer"] << text[0];
      const auto masked = ApplySteps(*steps, {given, std::string(given.size(), '\1')}, budget);
      EXPECT_EQ(masked->text, text[1].get<std::string>()) << row["normalizer"] << text[0];
      EXPECT_EQ(masked->mask, std::string(masked->text.size(), '\1'));
    }
  }
}

TEST(Normalizer, FollowsTheMaskToWhatAStepWrites) {
  const MaskedText text = {"  A e\u0301", std::string("\1\1\1\0\1\1\0", 7)};
  const std::vector<NormalizerStep> steps = {NormalForm::kC, ReplaceStep{std::string(" "), "__"},
                                             CharMapStep(LowerChar)};
  StepBudget budget(text.text.size());
  const MaskedText done = ApplySteps(steps, text, budget).value();
  EXPECT_EQ(done.text, "____a__\u00e9");
  EXPECT_EQ(done.mask, std::string("\1\1\1\1\1\0\0\0\0", 9));
  EXPECT_EQ(ApplySteps({StripStep{true, false}}, text, budget)->mask, std::string("\1\0\1\1\0", 5));
}

TEST(PreTokenizer, DoesEveryStepAsTheReference) {
  const std::vector<Json> rows = StepsOf("pre_tokenizer");
  EXPECT_GE(rows.size(), 35);
  for (const Json& row : rows) {
    std::vector<std::string> unread;
    const auto steps = ReadPreTokenizer(TokenizerJsonFile(row, "t.json"), &unread);
    ASSERT_TRUE(steps.ok()) << steps.status();
    EXPECT_THAT(unread, IsEmpty());
    const bool in_alphabet = std::ranges::any_of(*steps, [](const PreTokenizerStep& step) {
      return std::holds_alternative<ToByteAlphabet>(step);
    });
    for (const Json& text : row["cases"]) {
      std::vector<std::string> pieces;
      StepBudget budget(text[0].get<std::string>().size());
      ASSERT_TRUE(
          SplitText(text[0].get<std::string>(), true, *steps, budget, [&](std::string_view piece) {
            pieces.push_back(in_alphabet ? ByteLevelText(piece) : std::string(piece));
            return true;
          }).ok());
      EXPECT_EQ(Json(pieces), text[1]) << row["pre_tokenizer"] << text[0];
    }
  }
}

TEST(Decoder, DoesEveryStepAsTheReference) {
  const std::vector<Json> rows = StepsOf("decoder");
  EXPECT_GE(rows.size(), 10);
  for (const Json& row : rows) {
    std::vector<std::string> unread;
    const auto steps = ReadDecoder(TokenizerJsonFile(row, "t.json"), &unread);
    ASSERT_TRUE(steps.ok()) << steps.status();
    EXPECT_THAT(unread, IsEmpty());
    for (const Json& tokens : row["cases"]) {
      StepBudget budget(0);
      EXPECT_EQ(DecodeTokens(*steps, tokens[0], budget).value(), tokens[1].get<std::string>())
          << row["decoder"] << tokens[0];
    }
  }
}

std::unique_ptr<Tokenizer> Read(const Json& file) {
  auto tokenizer = ReadTokenizerJson(file.dump(), "t.json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

TEST(PipelineTokenizer, EncodesAndDecodesAsTheReference) {
  const std::vector<Json> models = GoldenRows("tokenizers/pipeline/models.jsonl");
  EXPECT_EQ(models.size(), 9);
  for (const Json& model : models) {
    const auto tokenizer = Read(model["tokenizer"]);
    ASSERT_NE(tokenizer, nullptr);
    for (const Json& row : model["rows"]) {
      const auto ids = tokenizer->Encode(row["text"].get<std::string>(),
                                         {.parse_special = true, .add_special = true});
      ASSERT_TRUE(ids.ok()) << ids.status();
      EXPECT_EQ(*ids, row["ids"].get<Ids>()) << model["tokenizer"]["decoder"] << row;
      EXPECT_EQ(tokenizer->Decode(*ids).value(), row["decoded"].get<std::string>())
          << model["tokenizer"]["decoder"] << row;
    }
  }
}

TEST(PipelineTokenizer, StreamsTheBytesOfItsTokens) {
  const auto gemma = Read(GoldenRows("tokenizers/pipeline/models.jsonl")[0]["tokenizer"]);
  const std::string text = "Hello w\u00e9 \u4f60\u597d\U0001f600";
  EXPECT_EQ(ConcatenatedTokenBytes(*gemma, gemma->Encode(text, {}).value()), text);
  EXPECT_EQ(gemma->TokenBytes(2 + 0x0A), "\n") << "<0x0A>";
  EXPECT_EQ(gemma->Decode(Ids{2 + 0xE4, 2 + 0xBD, 2 + 'a'}).value(), "\uFFFD\uFFFD\uFFFD")
      << "as the library: a mark for each byte, unless all in a row are characters";
}

TEST(PipelineTokenizer, NeverGivesASpecialIdThatIsNotAskedFor) {
  for (const Json& model : GoldenRows("tokenizers/pipeline/models.jsonl")) {
    const auto tokenizer = Read(model["tokenizer"]);
    const int32_t special = tokenizer->SpecialId("<s>").value();
    const auto ids = tokenizer->Encode("a<s>Hello<s>", {});
    if (!ids.ok()) continue;
    EXPECT_EQ(std::ranges::count(*ids, special), 0);
  }
}

TEST(PipelineTokenizer, SaysWhatItHasNoTokenFor) {
  Json file = GoldenRows("tokenizers/pipeline/models.jsonl")[3]["tokenizer"];
  file["model"]["unk_token"] = nullptr;
  const absl::Status status = Read(file)->Encode("x\u597d", {}).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the text has \"x\", which t.json has no"));
}

TEST(PipelineTokenizer, LeavesIdsWithoutATokenOut) {
  Json file = GoldenRows("tokenizers/pipeline/models.jsonl")[4]["tokenizer"];
  file["model"]["vocab"]["zz"] = 29;
  file["added_tokens"][2]["id"] = 30;
  const auto tokenizer = Read(file);
  EXPECT_EQ(tokenizer->vocab_size(), 31);
  EXPECT_EQ(tokenizer->TokenBytes(25), "");
  EXPECT_EQ(tokenizer->Decode(Ids{25, 30}).value(), "<t>");
}

TEST(PipelineTokenizer, EncodesAMegabyteOfOneKindOfCharacterInSeconds) {
  const std::vector<Json> models = GoldenRows("tokenizers/pipeline/models.jsonl");
  for (const size_t model : {0, 7}) {  // BPE over characters, Unigram
    const auto tokenizer = Read(models[model]["tokenizer"]);
    for (const char* const unit : {" ", "l", "\u4f60", "Hello "}) {
      const std::string text = Megabyte(unit);
      const auto start = std::chrono::steady_clock::now();
      ASSERT_TRUE(tokenizer->Encode(text, {}).ok());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      EXPECT_LT(took.count(), 20) << unit;  // a fraction of a second on an idle machine
    }
  }
}

// Patterns.

// The beginning and the end of each match.
std::vector<std::pair<size_t, size_t>> Places(const Finder& finder, std::string_view text) {
  std::vector<std::pair<size_t, size_t>> places;
  StepBudget budget(text.size());
  EXPECT_TRUE(ForEachMatch(finder, text, budget, [&](Regex::Match match) {
                places.emplace_back(match.begin, match.end);
                return true;
              }).ok());
  return places;
}

constexpr const char* kGroupPatterns[] = {R"(\d{1,3}(?=(?:\d{3})*\b))",
                                          R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))",
                                          R"((?=(\d{3})+(?!\d)))"};

TEST(DigitGroups, AreWhatThePatternFinds) {
  constexpr const char* kParts[] = {"1",      "23",     "456",    "\u0663", "\u00b2",
                                    "\u2167", "a",      "_",      " ",      ".",
                                    "\u200d", "\u0301", "\u00bd", "\u4f60", "\U00010D40"};
  std::mt19937 random(5);
  for (const char* const pattern : kGroupPatterns) {
    const auto groups = FinderOf(pattern);
    ASSERT_TRUE(std::holds_alternative<DigitGroups>(*groups)) << pattern;
    const Finder regex = *Regex::Compile(pattern);
    for (int i = 0; i < 3000; ++i) {
      std::string text;
      for (size_t n = random() % 12; n > 0; --n) text += kParts[random() % std::size(kParts)];
      ASSERT_EQ(Places(*groups, text), Places(regex, text)) << pattern << " " << text;
    }
  }
}

TEST(SpacesOfLineEnds, AreWhatThePatternFinds) {
  constexpr const char* kParts[] = {" ", "\n", "\r", "\u3000", "a", "\u4f60"};
  const auto spaces = FinderOf(R"(\s+$)");
  ASSERT_TRUE(std::holds_alternative<SpacesOfLineEnds>(*spaces));
  const Finder regex = *Regex::Compile(R"(\s+$)");
  std::mt19937 random(6);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += kParts[random() % std::size(kParts)];
    EXPECT_EQ(Places(*spaces, text), Places(regex, text)) << text;
  }
}

TEST(DigitGroups, AreFoundInAMegabyteOfDigitsInSeconds) {
  const std::string text = Megabyte("7");
  for (const char* const pattern : kGroupPatterns) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_GE(Places(*FinderOf(pattern), text).size(), text.size() / 3) << pattern;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 20) << pattern;  // a few milliseconds on an idle machine
  }
}

// Names of GGUF files.

TEST(GgufPreTokenizers, EachSplitsWithoutLoss) {
  const std::string text =
      "It's 12345 caf\u00e9 HTTPServer\n\n  \u4f60\u597d\uff0c\u30ab 1234567 x!";
  std::istringstream names(GgufPreTokenizerNames());
  int n_names = 0;
  for (std::string name; std::getline(names >> std::ws, name, ','); ++n_names) {
    const auto known = GgufPreTokenizerOf(name);
    ASSERT_TRUE(known.has_value()) << name;
    std::string joined;
    StepBudget budget(text.size());
    EXPECT_TRUE(SplitText(text, true, known->split, budget, [&](std::string_view piece) {
                  joined += piece;
                  return true;
                }).ok());
    EXPECT_EQ(joined, text) << name;
  }
  EXPECT_GE(n_names, 60);
  EXPECT_FALSE(GgufPreTokenizerOf("no-such").has_value());
  EXPECT_FALSE(GgufPreTokenizerOf("").has_value());
}

TEST(GgufPreTokenizers, SplitAsTheirModelsDo) {
  const auto pieces_of = [](std::string_view name, std::string_view text) {
    std::vector<std::string> pieces;
    StepBudget budget(text.size());
    EXPECT_TRUE(
        SplitText(text, true, GgufPreTokenizerOf(name)->split, budget, [&](std::string_view piece) {
          pieces.emplace_back(piece);
          return true;
        }).ok());
    return pieces;
  };
  EXPECT_THAT(pieces_of("tekken", "camelCase's 12"),
              ElementsAre("camel", "Case", "'s", " ", "1", "2"));
  EXPECT_THAT(pieces_of("gpt-4o", "camelCase's 1234"),
              ElementsAre("camel", "Case's", " ", "123", "4"));
  EXPECT_THAT(pieces_of("deepseek-v3", "ab\u4f60\u30abc1234!x"),
              ElementsAre("ab", "\u4f60\u30ab", "c", "123", "4", "!x"));
  EXPECT_THAT(pieces_of("qwen35", "e\u0301a"), ElementsAre("e\u0301a"));
  EXPECT_THAT(pieces_of("falcon", "a+b 12345"), ElementsAre("a", "+", "b", " ", "123", "45"));
  EXPECT_THAT(pieces_of("bloom", "ab. c"), ElementsAre("ab", ".", " c"));
  EXPECT_THAT(pieces_of("superbpe", "1234567"), ElementsAre("1", "234", "567"));
  EXPECT_THAT(pieces_of("deepseek-llm", "Ab1 \u01BB\u4f60\u01C4! "),
              ElementsAre("Ab", "1", " \u01BB", "\u4f60", "\u01C4", "!", " "));
  EXPECT_THAT(pieces_of("kimi-k2", "HTTPServer's\u4f60b \u30ab1234"),
              ElementsAre("HTTPServer's", "\u4f60", "b", " \u30ab", "123", "4"));
  EXPECT_THAT(pieces_of("afmoe", "a1234 12\u00b2\u0e41\u0e42b"),
              ElementsAre("a", "1", "234", " ", "12\u00b2", "\u0e41\u0e42", "b"));
  EXPECT_TRUE(GgufPreTokenizerOf("tekken")->add_bos);
  for (const char* const name : {"glm4", "glm5"}) {
    EXPECT_TRUE(GgufPreTokenizerOf(name)->ignore_merges) << name;
  }
  EXPECT_FALSE(GgufPreTokenizerOf("chatglm-bpe")->ignore_merges);
  EXPECT_TRUE(GgufPreTokenizerOf("lfm2")->ignore_merges);
}

}  // namespace
}  // namespace ng
