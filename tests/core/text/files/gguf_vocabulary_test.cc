#include "core/text/files/gguf_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "core/text/files/open_tokenizer.h"
#include "ng/utf8.h"
#include "tests/core/text/golden_rows.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::json;

// The GGUF file of a model by that name, and its vocabulary.
std::string GoldenFile(const std::string& name) {
  return std::string(NG_TEST_DATA "/golden/gguf/") +
         (name == "llama" ? "llama_bf16/model-BF16.gguf" : "qwen2/model-Q8_0.gguf");
}

GgufVocabulary Golden(const std::string& name) {
  const auto gguf = OpenGguf(GoldenFile(name));
  EXPECT_TRUE(gguf.ok()) << gguf.status();
  return ReadGgufVocabulary(gguf->metadata).value();
}

std::vector<Json> RowsOf(const std::string& name) {
  return GoldenRows(name == "llama" ? "golden/gguf/llama_bf16/tokenize.jsonl"
                                    : "golden/gguf/qwen2/tokenize.jsonl");
}

std::unique_ptr<Tokenizer> Make(GgufVocabulary vocabulary) {
  auto tokenizer = MakeTokenizer(std::move(vocabulary), "m.gguf");
  if (!tokenizer.ok()) ADD_FAILURE() << tokenizer.status();
  return *std::move(tokenizer);
}

class GoldenGgufVocabulary : public testing::TestWithParam<const char*> {
 protected:
  const std::unique_ptr<Tokenizer> tokenizer_ = Make(Golden(GetParam()));
};

INSTANTIATE_TEST_SUITE_P(Gguf, GoldenGgufVocabulary, testing::Values("llama", "qwen2"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(GoldenGgufVocabulary, EncodesEveryRowAsLlamaCpp) {
  const auto rows = RowsOf(GetParam());
  EXPECT_EQ(rows.size(), 87);
  for (const Json& row : rows) {
    const std::string text = row["text"];
    EXPECT_EQ(tokenizer_->EncodeAsReference(text, OptionsOf(row)).value(), row["ids"].get<Ids>())
        << row;
  }
}

TEST_P(GoldenGgufVocabulary, DecodesAndStreamsWhatItEncodes) {
  const auto rows = RowsOf(GetParam());
  for (const Json& row : rows) {
    std::string text = row["text"];
    const Ids ids = tokenizer_->Encode(text, {}).value();
    // To SentencePiece the character that stands for a space is one.
    if (GetParam() == std::string("llama")) absl::StrReplaceAll({{"\u2581", " "}}, &text);
    EXPECT_EQ(tokenizer_->Decode(ids).value(), text) << row;
    Utf8Stream stream;
    std::string streamed;
    for (const int32_t id : ids) {
      streamed += stream.Push(tokenizer_->TokenBytes(id));
      EXPECT_FALSE(FindInvalidUtf8(streamed)) << "cut within a character";
    }
    streamed += stream.Finish();
    EXPECT_TRUE(streamed == text || streamed == " " + text) << row;
  }
}

TEST_P(GoldenGgufVocabulary, EncodesAMegabyteOfOneKindOfCharacterInSeconds) {
  for (const char* const unit : {"a", " ", "7", "\n", "!", "\u0301", "\u4E2D", "<s>", "ab", "e "}) {
    const std::string text = Megabyte(unit);
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(tokenizer_->EncodeAsReference(text, {.parse_special = true}).ok());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 20) << unit;
  }
}

TEST_P(GoldenGgufVocabulary, RefusesWhatItCannotTake) {
  EXPECT_EQ(ExitCode(tokenizer_->Encode("ab\xFF", {}).status()), 2);
  EXPECT_EQ(ExitCode(tokenizer_->Decode(Ids{-1}).status()), 2);
}

// A GGUF file with these keys and no tensor.
std::string FileOf(const test::TempDir& dir, const test::GgufBuilder& keys) {
  return dir.Write("m.gguf", keys.Bytes());
}

TEST(GgufVocabulary, IsFoundInTheFileItself) {
  const auto tokenizer = OpenTokenizer(GoldenFile("qwen2"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocab_size(), static_cast<int64_t>(Golden("qwen2").tokens.size()));
  const test::TempDir dir;
  const auto has_vocabulary = [&](const test::GgufBuilder& keys) {
    return HasVocabulary(OpenGguf(FileOf(dir, keys)).value().metadata);
  };
  EXPECT_FALSE(has_vocabulary(test::GgufBuilder()));
  for (const char* const none : {"no_vocab", "none"}) {
    EXPECT_FALSE(has_vocabulary(test::GgufBuilder().Text("tokenizer.ggml.model", none)));
  }
  EXPECT_TRUE(has_vocabulary(test::GgufBuilder().Text("tokenizer.ggml.model", "other")))
      << "one that is not known is there, to be refused";
}

TEST(GgufVocabulary, RefusesKeysOfOtherTypesNamingThem) {
  const test::TempDir dir;
  const auto error_of = [&](const test::GgufBuilder& keys) {
    const std::string path = FileOf(dir, keys);
    const absl::Status status = OpenTokenizer(path).status();
    EXPECT_EQ(ExitCode(status), 3);
    EXPECT_THAT(status.message(), HasSubstr(path + ": "));
    return std::string(status.message());
  };
  const auto begin = [] { return test::GgufBuilder().Text("tokenizer.ggml.model", "llama"); };
  const auto with_tokens = [&] {
    return begin().Array("tokenizer.ggml.tokens", GgufType::kText, 1, test::RawText("<unk>"));
  };
  EXPECT_THAT(error_of(test::GgufBuilder()), HasSubstr("tokenizer.ggml.model"));
  EXPECT_THAT(error_of(begin()), HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(error_of(begin().U32("tokenizer.ggml.tokens", 3)),
              HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(error_of(with_tokens().Text("tokenizer.ggml.scores", "high")),
              HasSubstr("tokenizer.ggml.scores"));
  EXPECT_THAT(error_of(with_tokens().Text("tokenizer.ggml.bos_token_id", "<s>")),
              HasSubstr("tokenizer.ggml.bos_token_id"));
  EXPECT_THAT(error_of(with_tokens().U32("tokenizer.ggml.add_bos_token", 1)),
              HasSubstr("tokenizer.ggml.add_bos_token"));
  EXPECT_THAT(error_of(with_tokens()
                           .Array("tokenizer.ggml.scores", GgufType::kF32, 1, test::Raw(0.0F))
                           .Array("tokenizer.ggml.token_type", GgufType::kI64, 1,
                                  test::Raw(int64_t{1} << 40))),
              HasSubstr("tokenizer.ggml.token_type"));
}

TEST(GgufVocabulary, OfLlamaParsesSpecialsOnlyWhereAskedFor) {
  GgufVocabulary vocabulary = Golden("llama");
  vocabulary.tokens.push_back("<|user|>");
  vocabulary.scores.push_back(-1000);
  vocabulary.token_type.push_back(4);
  const auto tokenizer = Make(std::move(vocabulary));
  const int32_t user = 384;
  const EncodeOptions parse = {.parse_special = true};
  EXPECT_EQ(tokenizer->Encode("<s>a", parse).value().at(0), 1);
  EXPECT_EQ(tokenizer->Encode("<|user|>", parse).value(), Ids{user});
  EXPECT_EQ(tokenizer->EncodeAsReference("<|user|>", {}).value(), Ids{user})
      << "as llama.cpp: user-defined tokens are always parsed";
  const Ids plain = tokenizer->Encode("<|user|><s></s><unk>", {}).value();
  for (const int32_t id : plain) {
    EXPECT_TRUE(id > 2 && id != user) << id;
  }
  EXPECT_EQ(tokenizer->SpecialId("<|user|>"), user);
  EXPECT_EQ(tokenizer->SpecialId("</s>"), 2);
  EXPECT_EQ(tokenizer->SpecialId("the"), std::nullopt);
  EXPECT_THAT(tokenizer->SpecialIds(), UnorderedElementsAre(0, 1, 2, user)) << "0: <unk>";
  EXPECT_EQ(tokenizer->TokenBytes(1), "") << "a control token";
  EXPECT_EQ(tokenizer->TokenBytes(3), std::string_view("\0", 1)) << "<0x00>";
}

// Text is found in any text; what frames the turns of a chat is not.
TEST(GgufVocabulary, OfLlamaFindsUserDefinedTextAnywhere) {
  GgufVocabulary vocabulary = Golden("llama");
  for (const char* token : {"\n\n", "<table>", "[INST]", "<start_of_turn>"}) {
    vocabulary.tokens.push_back(token);
    vocabulary.scores.push_back(-1000);
    vocabulary.token_type.push_back(4);
  }
  const auto tokenizer = Make(std::move(vocabulary));
  EXPECT_EQ(tokenizer->Encode("\n\n<table>", {}).value(), (Ids{384, 385}));
  EXPECT_EQ(tokenizer->Encode("<table>", {.special_at = std::string(7, '\0')}).value(), Ids{385});
  for (const char* marker : {"[INST]", "<start_of_turn>"}) {
    const Ids plain = tokenizer->Encode(marker, {}).value();
    EXPECT_TRUE(std::ranges::all_of(plain, [](int32_t id) { return id < 384; })) << marker;
    EXPECT_TRUE(tokenizer->SpecialId(marker).has_value()) << marker;
  }
  EXPECT_EQ(tokenizer->SpecialId("<table>"), std::nullopt);
  EXPECT_EQ(tokenizer->Decode(Ids{384, 385}).value(), "\n\n<table>");
}

// Characters in place of bytes, and tokens of bytes for those without one.
GgufVocabulary OfCharacters() {
  GgufVocabulary vocabulary;
  vocabulary.model = "gemma4";
  vocabulary.tokens = {"<unk>",  "<bos>",   "a",     "b",      "\u2581", "ab",     "\u2581ab", "\n",
                       "\n\n\n", "<|turn>", "<tag>", "<0xC3>", "<0xA9>", "<0x20>", "x|>"};
  vocabulary.token_type = {2, 3, 1, 1, 1, 1, 1, 1, 1, 1, 4, 6, 6, 6, 4};
  vocabulary.merges = {"a b", "\u2581 ab"};
  vocabulary.bos_token_id = 1;
  return vocabulary;
}

TEST(GgufVocabulary, OfGemma4MergesCharacters) {
  const auto tokenizer = Make(OfCharacters());
  EXPECT_EQ(tokenizer->Encode("ab ab", {}).value(), (Ids{5, 6}));
  EXPECT_EQ(tokenizer->Encode("\u00e9b", {}).value(), (Ids{11, 12, 3})) << "bytes";
  EXPECT_EQ(tokenizer->Encode("a\n\n\na\n", {}).value(), (Ids{2, 8, 2, 7})) << "a whole run";
  EXPECT_EQ(tokenizer->Encode("<tag>a", {}).value(), (Ids{10, 2}));
  EXPECT_EQ(tokenizer->Encode("<|turn>x|>", {.parse_special = true}).value(), (Ids{9, 14}));
  EXPECT_EQ(tokenizer->Encode("a", {.add_special = true}).value(), (Ids{1, 2}));
  EXPECT_EQ(tokenizer->Decode(Ids{5, 6, 11, 12}).value(), "ab ab\u00e9");
  const Ids plain = tokenizer->Encode("<|turn>", {}).value();
  EXPECT_EQ(std::ranges::count(plain, 9), 0) << "a marker is not parsed in a user's text";
}

TEST(GgufVocabulary, OfGemma4BeginsEachTextWhateverTheFileSays) {
  GgufVocabulary vocabulary = OfCharacters();
  vocabulary.add_bos_token = false;
  EXPECT_EQ(Make(vocabulary)->Encode("a", {.add_special = true}).value(), (Ids{1, 2}));
}

TEST(GgufVocabulary, PutsASpaceInFrontUnlessTheFileSaysNot) {
  const auto with = Make(Golden("llama"));
  GgufVocabulary vocabulary = Golden("llama");
  vocabulary.add_space_prefix = false;
  const auto without = Make(std::move(vocabulary));
  EXPECT_EQ(with->Encode("the", {}).value(), without->Encode(" the", {}).value());
  EXPECT_EQ(without->Decode(without->Encode(" the", {}).value()).value(), " the");
  const Ids after = with->Encode("<s>the", {.parse_special = true}).value();
  EXPECT_EQ(Ids(after.begin() + 1, after.end()), with->Encode("the", {}).value());
}

// As their tokenizer.json: "prepend_scheme": "first". llama.cpp puts one after each special token.
TEST(GgufVocabulary, PutsASpaceInFrontOfATextAloneWhereInstructionsAreTokens) {
  GgufVocabulary vocabulary = Golden("llama");
  for (const char* token : {"[INST]", "[/INST]"}) {
    vocabulary.tokens.push_back(token);
    vocabulary.scores.push_back(-1000);
    vocabulary.token_type.push_back(3);
  }
  GgufVocabulary of_text = vocabulary;
  for (int i = 0; i < 2; ++i) of_text.token_type[384 + i] = 4;
  const auto older = Make(std::move(of_text));
  const auto newer = Make(std::move(vocabulary));
  const EncodeOptions parse = {.parse_special = true};
  const Ids the = older->Encode("the", {}).value();
  EXPECT_EQ(newer->Encode("the", {}).value(), the);
  EXPECT_EQ(newer->Encode(" the", {}).value(), the) << "as it begins with one";
  EXPECT_NE(older->Encode(" the", {}).value(), the);
  Ids chat = {1, 384};
  chat.insert(chat.end(), the.begin(), the.end());
  chat.push_back(385);
  EXPECT_EQ(newer->Encode("<s>[INST] the[/INST]", parse).value(), chat) << "one space, not two";
  EXPECT_EQ(older->Encode("<s>[INST]the[/INST]", parse).value(), chat) << "as llama.cpp";
}

TEST(GgufVocabulary, AddsWhatTheFileSaysAroundAText) {
  const EncodeOptions options = {.add_special = true};
  GgufVocabulary vocabulary = Golden("llama");
  vocabulary.add_bos_token.reset();
  EXPECT_THAT(Make(vocabulary)->Encode("", options).value(), ElementsAre(1)) << "by default";
  vocabulary.add_bos_token = false;
  vocabulary.add_eos_token = true;
  EXPECT_THAT(Make(vocabulary)->Encode("", options).value(), ElementsAre(2));
  EXPECT_THAT(Make(vocabulary)->Encode("", {}).value(), ElementsAre());

  GgufVocabulary bytes = Golden("qwen2");
  bytes.add_bos_token.reset();
  EXPECT_THAT(Make(bytes)->Encode("", options).value(), ElementsAre());
  bytes.pre = "llama-bpe";
  EXPECT_THAT(Make(bytes)->Encode("", options).value(), ElementsAre(320)) << "as Llama 3 does";
}

TEST(GgufVocabulary, SplitsAsItsPreTokenizerSays) {
  GgufVocabulary vocabulary = Golden("qwen2");
  // A merge that only works where the two stand in one piece.
  for (const char* const joined : {"11", "\u0120+", "111"}) vocabulary.tokens.push_back(joined);
  vocabulary.token_type.resize(vocabulary.tokens.size(), 1);
  vocabulary.merges.insert(vocabulary.merges.end(), {"1 1", "\u0120 +", "11 1"});
  const auto n_ids = [&](const std::string& pre, const std::string& text) {
    vocabulary.pre = pre;
    return Make(vocabulary)->Encode(text, {}).value().size();
  };
  EXPECT_EQ(n_ids("qwen2", "1111"), 4);
  EXPECT_EQ(n_ids("smollm", "1111"), 4);
  EXPECT_EQ(n_ids("llama-bpe", "1111"), 2);
  EXPECT_EQ(n_ids("gpt-2", "1111"), 2);
  EXPECT_EQ(n_ids("gpt-2", " +"), 1);
  EXPECT_EQ(n_ids("default", " +"), 2) << "punctuation apart";
  EXPECT_EQ(n_ids("", " +"), 2) << "the same";
}

struct Refusal {
  const char* name;
  std::function<void(GgufVocabulary&)> change;
  std::string message;
};

class RefusedGgufVocabulary : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedGgufVocabulary, NamesTheKeyAndWhatIsSupported) {
  GgufVocabulary vocabulary =
      Golden(std::string(GetParam().name).starts_with("Bytes") ? "qwen2" : "llama");
  GetParam().change(vocabulary);
  const absl::Status status = MakeTokenizer(std::move(vocabulary), "m.gguf").status();
  EXPECT_EQ(ExitCode(status), 3) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("m.gguf: " + GetParam().message));
}

const Refusal kRefusals[] = {
    {"Model", [](GgufVocabulary& v) { v.model = "bert"; },
     "tokenizer.ggml.model = \"bert\", must be \"llama\", \"gpt2\" or \"gemma4\""},
    {"NoScores", [](GgufVocabulary& v) { v.scores.clear(); },
     "tokenizer.ggml.scores has 0 entries, must have one for each of 384 tokens"},
    {"TooFewTypes", [](GgufVocabulary& v) { v.token_type.pop_back(); },
     "tokenizer.ggml.token_type has 383 entries"},
    {"Type", [](GgufVocabulary& v) { v.token_type[7] = 9; },
     "tokenizer.ggml.token_type[7] = 9, must be in [1, 6]"},
    {"NanScore", [](GgufVocabulary& v) { v.scores[7] = std::nanf(""); },
     "token 7 = \"<0x04>\" has"},
    {"EmptyToken", [](GgufVocabulary& v) { v.tokens[7] = ""; }, "token 7 = \"\" is empty"},
    {"InvalidUtf8", [](GgufVocabulary& v) { v.tokens[300] = "\xFF"; }, "token 300 = "},
    {"NoByte", [](GgufVocabulary& v) { v.tokens[7] = "<0xZZ>"; }, "token 7 = \"<0xZZ>\" is a byte"},
    {"TokenTwice", [](GgufVocabulary& v) { v.tokens[301] = v.tokens[300]; }, "token 301 = "},
    {"BosOutside", [](GgufVocabulary& v) { v.bos_token_id = 384; },
     "tokenizer.ggml.bos_token_id = 384, must be in [0, 384)"},
    {"NoEos",
     [](GgufVocabulary& v) {
       v.eos_token_id.reset();
       v.add_eos_token = true;
     },
     "tokenizer.ggml.eos_token_id is missing"},
    {"NoTokens",
     [](GgufVocabulary& v) {
       v = GgufVocabulary();
       v.model = "llama";
     },
     "the tokenizer has no tokens"},
    {"BytesPre", [](GgufVocabulary& v) { v.pre = "no-such"; },
     "tokenizer.ggml.pre = \"no-such\", must be one of default, llama-bpe, llama3"},
    {"BytesMerge", [](GgufVocabulary& v) { v.merges[3] = "ab"; },
     "tokenizer.ggml.merges[3] = \"ab\", must be two tokens"},
    {"BytesMergeOfNoToken", [](GgufVocabulary& v) { v.merges[3] = "q q"; },
     "merge 3 (\"q\", \"q\")"},
    {"BytesEmptySpecial", [](GgufVocabulary& v) { v.tokens[321] = ""; },
     "tokenizer.ggml.tokens[321] = \"\""},
};

INSTANTIATE_TEST_SUITE_P(Keys, RefusedGgufVocabulary, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ng
