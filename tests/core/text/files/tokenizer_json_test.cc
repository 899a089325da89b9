#include "core/text/files/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ng/utf8.h"
#include "tests/core/text/golden_rows.h"

namespace ng {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using Json = nlohmann::json;

std::string GoldenJson(const std::string& name) {
  return test::Slurp(NG_TEST_DATA "/tokenizers/" + name + "/tokenizer.json");
}

std::unique_ptr<Tokenizer> Read(const std::string& bytes) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = ReadTokenizerJson(bytes, "t.json");
  if (!tokenizer.ok()) ADD_FAILURE() << tokenizer.status();
  return *std::move(tokenizer);
}

// A golden file, changed.
std::string Changed(const std::string& name, const std::function<void(Json&)>& change) {
  Json file = Json::parse(GoldenJson(name));
  change(file);
  return file.dump();
}

std::string ErrorOf(const std::string& bytes) {
  const absl::Status status = ReadTokenizerJson(bytes, "t.json").status();
  EXPECT_EQ(ExitCode(status), 3) << status;
  EXPECT_EQ(status.message().find('\n'), status.message().npos);
  return std::string(status.message());
}

class GoldenTokenizerJson : public testing::TestWithParam<const char*> {
 protected:
  std::string Folder() const { return "tokenizers/" + std::string(GetParam()); }

  const std::unique_ptr<Tokenizer> tokenizer_ = Read(GoldenJson(GetParam()));
};

INSTANTIATE_TEST_SUITE_P(ByteLevelBpe, GoldenTokenizerJson,
                         testing::Values("bbpe_gpt2", "bbpe_llama3", "bbpe_qwen2"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(GoldenTokenizerJson, EncodesEveryRowAsTheReference) {
  const std::vector<Json> rows = GoldenRows(Folder() + "/cases.jsonl");
  EXPECT_GE(rows.size(), 98);
  for (const Json& row : rows) {
    const std::string text = row["text"];
    EXPECT_EQ(tokenizer_->EncodeAsReference(text, OptionsOf(row)).value(), row["ids"].get<Ids>())
        << row;
    EXPECT_EQ(tokenizer_->Encode(text, OptionsOf(row)).value(), row["ids"].get<Ids>()) << row;
    EXPECT_EQ(tokenizer_->Decode(row["ids"].get<Ids>()).value(), row["decoded"].get<std::string>())
        << row;
  }
}

TEST_P(GoldenTokenizerJson, DecodesEveryRowAsTheReference) {
  const std::vector<Json> rows = GoldenRows(Folder() + "/decode.jsonl");
  EXPECT_GE(rows.size(), 20);
  for (const Json& row : rows) {
    EXPECT_EQ(tokenizer_->Decode(row["ids"].get<Ids>()).value(), row["decoded"].get<std::string>())
        << row;
  }
}

TEST_P(GoldenTokenizerJson, StreamsWhatItDecodes) {
  for (const Json& row : GoldenRows(Folder() + "/decode.jsonl")) {
    Utf8Stream stream;
    std::string text;
    for (const int32_t id : row["ids"].get<Ids>()) {
      const std::string part = stream.Push(tokenizer_->TokenBytes(id));
      EXPECT_FALSE(FindInvalidUtf8(part)) << "cut within a character";
      text += part;
    }
    EXPECT_EQ(text + stream.Finish(), row["decoded"].get<std::string>()) << row;
  }
}

TEST_P(GoldenTokenizerJson, RefusesWhatItCannotTake) {
  const auto last = static_cast<int32_t>(tokenizer_->vocab_size() - 1);
  for (const int32_t id : {-1, last + 1}) {
    const absl::Status status = tokenizer_->Decode(Ids{0, id}).status();
    EXPECT_EQ(ExitCode(status), 2);
    EXPECT_THAT(std::string(status.message()), HasSubstr("must be in [0, "));
  }
  EXPECT_EQ(ExitCode(tokenizer_->Encode("ab\xFF", {}).status()), 2);
}

TEST_P(GoldenTokenizerJson, EncodesAMegabyteOfOneKindOfCharacterInSeconds) {
  for (const char* const unit :
       {"a", " ", "7", "\n", "!", "\r\n", "\u0301", "\u0301\u0323", "\u4E2D", "\uAC00", "\u1100",
        "\U0001F600", "<|endof", "<|endoftext|>", "'s", "\u3000", "the "}) {
    const std::string text = Megabyte(unit);
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(tokenizer_->Encode(text, {}).ok());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 20) << unit;  // a fraction of a second on a machine with nothing to do
  }
}

TEST_P(GoldenTokenizerJson, SurvivesAnyDamageToItsFile) {
  const std::string good = GoldenJson(GetParam());
  EXPECT_TRUE(rc::check("a byte changed, or the end cut off", [&] {
    std::string bytes = good;
    const auto at = static_cast<size_t>(*rc::gen::inRange<int>(0, static_cast<int>(good.size())));
    bytes[at] = static_cast<char>(*rc::gen::inRange(0, 256));
    if (*rc::gen::inRange(0, 4) == 0) bytes.resize(at);
    const auto tokenizer = ReadTokenizerJson(bytes, "t.json");
    if (!tokenizer.ok()) {
      RC_ASSERT(ExitCode(tokenizer.status()) == 3);
      return;
    }
    const auto ids = (*tokenizer)->Encode("Caf\u00e9 <|endoftext|> x\u0301 1\u00BD", {true, true});
    if (ids.ok()) RC_ASSERT((*tokenizer)->Decode(*ids).ok());
  }));
}

TEST(TokenizerJson, FindsItsSpecialTokens) {
  const std::unique_ptr<Tokenizer> qwen2 = Read(GoldenJson("bbpe_qwen2"));
  EXPECT_EQ(qwen2->vocab_size(), 516);
  EXPECT_EQ(qwen2->SpecialId("<|im_end|>"), 514);
  EXPECT_EQ(qwen2->SpecialId("<tool_call>"), std::nullopt) << "added, but not special";
  EXPECT_EQ(qwen2->TokenBytes(514), "<|im_end|>");
  EXPECT_THAT(qwen2->SpecialIds(), IsSupersetOf({513, 514}));
  EXPECT_THAT(qwen2->SpecialIds(), Not(Contains(515)));
}

TEST(TokenizerJson, TakesAPieceThatIsATokenWholeWhereMergesAreIgnored) {
  const auto with_token = [](bool ignore) {
    return Read(Changed("bbpe_llama3", [&](Json& file) {
      file["model"]["ignore_merges"] = ignore;
      file["model"]["vocab"]["zqz"] = 644;  // that no merge makes
    }));
  };
  EXPECT_THAT(with_token(true)->Encode("zqz", {}).value(), ElementsAre(644));
  EXPECT_EQ(with_token(false)->Encode("zqz", {}).value().size(), 3);
}

TEST(TokenizerJson, AddsASpaceInFrontWhereTheFileSaysSo) {
  const auto tokenizer = Read(
      Changed("bbpe_gpt2", [](Json& file) { file["pre_tokenizer"]["add_prefix_space"] = true; }));
  const auto plain = Read(GoldenJson("bbpe_gpt2"));
  EXPECT_EQ(tokenizer->Encode("the", {}).value(), plain->Encode(" the", {}).value());
  EXPECT_EQ(tokenizer->Encode(" the", {}).value(), plain->Encode(" the", {}).value());
}

TEST(TokenizerJson, SplitsDigitsFirstWhereTheFileSaysSo) {
  const auto tokenizer = Read(Changed("bbpe_gpt2", [](Json& file) {
    const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
    file["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers", {digits, file["pre_tokenizer"]}}};
  }));
  const auto plain = Read(GoldenJson("bbpe_gpt2"));
  Ids apart = plain->Encode(" ", {}).value();
  for (const char* const digit : {"1", "2"}) {
    apart.push_back(plain->Encode(digit, {}).value().at(0));
  }
  EXPECT_EQ(tokenizer->Encode(" 12", {}).value(), apart);
}

// Characters a to d, and these merges. No step before or behind the model.
std::string SmallBpe(const std::string& merges) {
  const Json file = {
      {"added_tokens", Json::array()},
      {"decoder", nullptr},
      {"model",
       {{"type", "BPE"},
        {"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}, {"ab", 4}, {"bc", 5}, {"cd", 6}}},
        {"merges", Json::parse(merges)}}}};
  return file.dump();
}

TEST(TokenizerJson, CountsTheLastPlaceOfAMergeThatIsThereTwice) {
  const auto ids = [](const std::string& merges, const char* text) {
    return Read(SmallBpe(merges))->Encode(text, {}).value();
  };
  EXPECT_THAT(ids(R"(["a b", "b c", "c d"])", "abcd"), ElementsAre(4, 6));
  EXPECT_THAT(ids(R"(["a b", "b c", "a b"])", "abcd"), ElementsAre(0, 5, 3));
  EXPECT_THAT(ids(R"([["a", "b"], ["c", "d"], ["a", "b"]])", "abcd"), ElementsAre(4, 6));
}

TEST(TokenizerJson, LeavesOutTheHeadOfAMergesFile) {
  EXPECT_THAT(Read(SmallBpe(R"(["#version: 0.2", "a b"])"))->Encode("abc", {}).value(),
              ElementsAre(4, 2));
}

// Whatever the file says: transformers has no others.
TEST(TokenizerJson, NumbersAddedTokensAsTheLibraryDoes) {
  std::vector<std::string> doubts;
  KeyPolicy policy(false, {}, [&](std::string_view doubt) { doubts.emplace_back(doubt); });
  const std::string file = Changed("bbpe_qwen2", [](Json& f) {
    Json& tokens = f["added_tokens"];
    tokens.erase(1);                    // 513
    tokens[2]["id"] = 615;              // <tool_call>
    tokens.push_back(Json(tokens[1]));  // <|im_end|>
    tokens.push_back(Json(tokens[0]));
    tokens[4]["content"] = "he";  // of the vocabulary
  });
  const auto spec = ReadTokenizerJsonSpec(file, "t.json", policy);
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->tokens.size(), 515U);
  EXPECT_EQ(spec->tokens[513], "<|im_end|>");
  EXPECT_EQ(spec->tokens[514], "<tool_call>");
  EXPECT_EQ(spec->added_tokens.size(), 4U);
  EXPECT_THAT(
      doubts,
      ElementsAre(HasSubstr("t.json: the added token \"<|im_end|>\" has the id 514, and is "
                            "read as 513, as the tokenizers library reads it"),
                  HasSubstr("615, and is read as 514"), HasSubstr("514, and is read as 513"),
                  HasSubstr("\"he\" has the id 512, and is read as 257")));
}

TEST(TokenizerJson, SaysWhichTokensAModelMayLackRowsFor) {
  Json file = Json::parse(SmallBpe(R"(["a b"])"));
  EXPECT_EQ(Read(file.dump())->n_added(), 0);
  const Json flags = {{"special", true},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"single_word", false}};
  for (const auto& [id, text] : {std::pair(3, "d"), std::pair(7, "<image>")}) {
    Json token = flags;
    token["id"] = id;
    token["content"] = text;
    file["added_tokens"].push_back(token);
  }
  EXPECT_EQ(Read(file.dump())->n_added(), 1);  // the other one is of the vocabulary too
}

// Other tokens are made of it, and text still gives it only where special tokens are found.
TEST(TokenizerJson, MayHaveASpecialTokenThatMergesMake) {
  Json file = Json::parse(SmallBpe(R"(["a b", "b c"])"));
  file["model"]["vocab"]["abd"] = 7;
  file["model"]["merges"].push_back("ab d");
  file["added_tokens"].push_back({{"id", 4},
                                  {"content", "ab"},
                                  {"special", true},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"single_word", false}});
  const auto tokenizer = Read(file.dump());
  EXPECT_EQ(tokenizer->Encode("abd", {.parse_special = true}).value(), (Ids{4, 3}));
  EXPECT_EQ(tokenizer->Encode("abd", {}).value(), (Ids{0, 1, 3}));
  EXPECT_EQ(tokenizer->Encode("abcd", {}).value(), (Ids{0, 5, 3}));
}

TEST(TokenizerJson, RefusesStepsThatMakeTooMuch) {
  const auto doubling = [](int n) {
    Json steps = Json::array();
    for (int i = 0; i < n; ++i) {
      steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
    }
    return steps;
  };
  Json file = Json::parse(SmallBpe(R"(["a b"])"));
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", doubling(28)}};
  const absl::Status normal = Read(file.dump())->Encode(std::string(1000, 'a'), {}).status();
  EXPECT_EQ(ExitCode(normal), 2);
  EXPECT_THAT(std::string(normal.message()), HasSubstr("step 8 of the tokenizer's normalizer"));
  EXPECT_TRUE(Read(file.dump())->Encode("bcd", {}).ok());
  file["normalizer"]["normalizers"] = doubling(4);
  EXPECT_EQ(Read(file.dump())->Encode("a", {}).value(), Ids(16, 0));
  file["normalizer"]["normalizers"] = doubling(65);
  EXPECT_THAT(ErrorOf(file.dump()), HasSubstr("number of its steps = 65, must be at most 64"));
  file["normalizer"] = nullptr;
  file["decoder"] = {{"type", "Sequence"}, {"decoders", doubling(28)}};
  EXPECT_THAT(ErrorOf(file.dump()), HasSubstr("token 0: step 17 of the tokenizer's decoder"));
  // Each step doubles by putting a mark before each character.
  file["decoder"] = {{"type", "Fuse"}};
  Json splits = Json::array();
  for (int i = 0; i < 20; ++i) {
    splits.push_back({{"type", "Split"},
                      {"pattern", {{"Regex", "."}}},
                      {"behavior", "Isolated"},
                      {"invert", false}});
    splits.push_back({{"type", "Metaspace"},
                      {"replacement", "bc"},
                      {"prepend_scheme", "always"},
                      {"split", false}});
  }
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", splits}};
  const absl::Status split = Read(file.dump())->Encode("aaaa", {}).status();
  EXPECT_EQ(ExitCode(split), 2);
  EXPECT_THAT(std::string(split.message()), HasSubstr("makes too much of the text"));
}

TEST(TokenizerJson, PutsSpacesBetweenTokensWhereThereIsNoDecoder) {
  const auto tokenizer = Read(SmallBpe(R"(["a b"])"));
  const std::vector<int32_t> ids = {4, 2, 3};
  EXPECT_EQ(tokenizer->Decode(ids).value(), "ab c d");
  EXPECT_EQ(tokenizer->TokenBytes(2), " c");
}

TEST(TokenizerJson, HasATokenForEveryByteOrSaysWhichItLacks) {
  const auto tokenizer = Read(Changed("bbpe_gpt2", [](Json& file) {
    // The place of the byte 0xF4 (U+00F4 in the alphabet) goes to a token that no text has.
    Json& vocabulary = file["model"]["vocab"];
    vocabulary["no such piece"] = vocabulary["\u00F4"];
    vocabulary.erase("\u00F4");
  }));
  const absl::Status status = tokenizer->Encode("\U0010FFFF", {}).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the byte 244"));
}

struct JsonRefusal {
  const char* name;
  std::function<void(Json&)> change;
  std::string message;
};

class RefusedTokenizerJson : public testing::TestWithParam<JsonRefusal> {};

TEST_P(RefusedTokenizerJson, NamesTheThingAndWhatIsSupported) {
  EXPECT_THAT(ErrorOf(Changed("bbpe_llama3", GetParam().change)), HasSubstr(GetParam().message));
}

const JsonRefusal kJsonRefusals[] = {
    {"Pattern", [](Json& f) { f["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "a(b"; },
     "t.json: pre_tokenizer.pretokenizers[0].pattern: the pattern \"a(b\": missing closing"},
    {"PatternPart",
     [](Json& f) { f["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "[a&&b]"; },
     "pretokenizers[0].pattern: \"&&\" in a pattern is not supported"},
    {"PatternKind",
     [](Json& f) {
       f["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"Glob", "*"}};
     },
     "pretokenizers[0].pattern = {\"Glob\":\"*\"}, must be {\"String\": TEXT} or {\"Regex\""},
    {"SplitBehavior",
     [](Json& f) { f["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Swapped"; },
     "pretokenizers[0].behavior = \"Swapped\", must be Isolated, Removed"},
    {"PreTokenizer",
     [](Json& f) {
       f["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
     },
     "pre_tokenizer.type = \"UnicodeScripts\", must be one of ByteLevel, Split, Digits"},
    {"Normalizer",
     [](Json& f) {
       f["normalizer"] = {{"type", "NFKX"}};
     },
     "normalizer.type = \"NFKX\", must be one of NFC, NFD"},
    {"CharsMap",
     [](Json& f) {
       f["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}};
     },
     "normalizer: the normalisation map is damaged"},
    {"PostProcessor",
     [](Json& f) {
       f["post_processor"] = {{"type", "BertProcessing"}};
     },
     "post_processor.type = \"BertProcessing\", must be \"ByteLevel\""},
    {"TemplateToken",
     [](Json& f) {
       f["post_processor"]["processors"][1]["special_tokens"]["<|begin_of_text|>"]["ids"] = {644};
     },
     "ids[0]\" = 644, must be an integer in [0, 643]"},
    {"TemplateWithoutText",
     [](Json& f) { f["post_processor"]["processors"][1]["single"].erase(1); },
     "must be a list with one Sequence"},
    {"Decoder",
     [](Json& f) {
       f["decoder"] = {{"type", "Sequence"}, {"decoders", Json::array()}};
     },
     "must be of a type"},
    {"Dropout", [](Json& f) { f["model"]["dropout"] = 0.1; }, "model.dropout = 0.1"},
    {"ByteFallback", [](Json& f) { f["model"]["byte_fallback"] = true; },
     "model.byte_fallback = true, must be false at the byte level"},
    {"Model", [](Json& f) { f["model"]["type"] = "WordPiece"; },
     "model.type = \"WordPiece\", must be \"BPE\" or \"Unigram\""},
    {"UnknownToken", [](Json& f) { f["model"]["unk_token"] = "<?>"; },
     "model.unk_token = \"<?>\", must be a token of model.vocab"},
    {"WordEnds", [](Json& f) { f["model"]["end_of_word_suffix"] = "</w>"; },
     "model.end_of_word_suffix = \"</w>\", must be null at the byte level"},
    {"MissingIds", [](Json& f) { f["model"]["vocab"]["!"] = 70000; },
     "no token has the ids 644 to 69999, which are more than 65536"},
    {"SharedId", [](Json& f) { f["model"]["vocab"]["!"] = 5; }, "id 5 is both"},
    {"NegativeId", [](Json& f) { f["model"]["vocab"]["!"] = -1; }, "model.vocab[\"!\"] = -1"},
    {"HugeId", [](Json& f) { f["model"]["vocab"]["!"] = 1LL << 40; }, "must be an id"},
    {"EmptyAddedToken", [](Json& f) { f["added_tokens"][3]["content"] = ""; },
     "added_tokens[3].content = \"\", must be not empty"},
    {"NoFlag", [](Json& f) { f["added_tokens"][3].erase("lstrip"); }, "\"lstrip\" is missing"},
    {"Vocabulary", [](Json& f) { f["model"]["vocab"] = 3; }, "model.vocab = 3, must be an object"},
    {"NoTokens",
     [](Json& f) {
       f["model"]["vocab"] = Json::object();
       f["model"]["merges"] = Json::array();
       f["added_tokens"] = nullptr;
       f["post_processor"] = nullptr;
     },
     "the tokenizer has no tokens"},
};

INSTANTIATE_TEST_SUITE_P(Parts, RefusedTokenizerJson, testing::ValuesIn(kJsonRefusals),
                         [](const auto& info) { return std::string(info.param.name); });

// The mask is that of the text as it is given, also where tokens are found in its normal form.
TEST(SpecialAt, IsFollowedThroughNormalisation) {
  for (const bool normalized : {false, true}) {
    const auto tokenizer = Read(Changed("bbpe_qwen2", [&](Json& file) {
      for (Json& token : file["added_tokens"]) token["normalized"] = normalized;
    }));
    const std::string mark = "<|im_end|>";
    const std::string said = "e\u0301" + mark + "e\u0301";  // shorter in its normal form
    const std::string mask = std::string(said.size(), '\0') + std::string(mark.size(), '\1');
    Ids expected = tokenizer->Encode(said, {}).value();
    expected.push_back(tokenizer->SpecialId(mark).value());
    EXPECT_EQ(tokenizer->Encode(said + mark, {.parse_special = true, .special_at = mask}).value(),
              expected)
        << normalized;
    const std::string all(mask.size(), '\1');
    EXPECT_EQ(tokenizer->Encode(said + mark, {.parse_special = true, .special_at = all}).value(),
              tokenizer->Encode(said + mark, {.parse_special = true}).value());
  }
}

}  // namespace
}  // namespace ng
