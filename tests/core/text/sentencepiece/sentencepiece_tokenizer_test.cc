#include "core/text/sentencepiece/sentencepiece_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/text/files/open_tokenizer.h"
#include "core/text/sentencepiece/sentencepiece_library.h"
#include "ng/utf8.h"
#include "tests/core/text/test_model.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Ids = std::vector<int32_t>;

const char* const kGolden[] = {"spm_unigram", "spm_bpe_llama"};

std::string GoldenFolder(const std::string& name) { return NG_TEST_DATA "/tokenizers/" + name; }

std::unique_ptr<Tokenizer> OpenGolden(const std::string& name) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = OpenTokenizer(GoldenFolder(name));
  if (!tokenizer.ok()) ADD_FAILURE() << tokenizer.status();
  return *std::move(tokenizer);
}

std::vector<nlohmann::json> GoldenRows(const std::string& name, const std::string& file) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(test::Slurp(GoldenFolder(name) + "/" + file));
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

std::unique_ptr<Tokenizer> FromModel(std::string_view model) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      SentencePieceTokenizer::FromBytes(model, "t.model");
  if (!tokenizer.ok()) ADD_FAILURE() << tokenizer.status();
  return *std::move(tokenizer);
}

// The literals and ids that the unigram model's case.json lists.
std::vector<std::pair<std::string, int32_t>> GoldenSpecials() {
  const auto described =
      nlohmann::json::parse(test::Slurp(GoldenFolder("spm_unigram") + "/case.json"));
  std::vector<std::pair<std::string, int32_t>> specials;
  for (const auto& [literal, id] : described["user_defined"].items()) {
    specials.emplace_back(literal, id.get<int32_t>());
  }
  return specials;
}

class GoldenTokenizer : public testing::TestWithParam<const char*> {
 protected:
  const std::unique_ptr<Tokenizer> tokenizer_ = OpenGolden(GetParam());
};

INSTANTIATE_TEST_SUITE_P(SentencePiece, GoldenTokenizer, testing::ValuesIn(kGolden),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(GoldenTokenizer, EncodesEveryRowAsTheReference) {
  const std::vector<nlohmann::json> rows = GoldenRows(GetParam(), "cases.jsonl");
  EXPECT_GE(rows.size(), 80);
  for (const nlohmann::json& row : rows) {
    const std::string text = row["text"];
    const Ids ids = row["ids"];
    EXPECT_EQ(tokenizer_->EncodeAsReference(text, {}).value(), ids) << row;
    EXPECT_EQ(tokenizer_->Encode(text, {.parse_special = true}).value(), ids) << row;
    EXPECT_EQ(tokenizer_->Decode(ids).value(), row["decoded"].get<std::string>()) << row;
  }
}

TEST_P(GoldenTokenizer, DecodesEveryRowAsTheReference) {
  const std::vector<nlohmann::json> rows = GoldenRows(GetParam(), "decode.jsonl");
  EXPECT_GE(rows.size(), 20);
  for (const nlohmann::json& row : rows) {
    EXPECT_EQ(tokenizer_->Decode(row["ids"].get<Ids>()).value(), row["decoded"].get<std::string>())
        << row;
  }
}

TEST_P(GoldenTokenizer, EncodesTextWithoutLiteralsAlikeWhetherSpecialsAreParsedOrNot) {
  int n_compared = 0;
  for (const nlohmann::json& row : GoldenRows(GetParam(), "cases.jsonl")) {
    const std::string text = row["text"];
    if (text.find("<|ngpt") != text.npos) continue;
    EXPECT_EQ(tokenizer_->Encode(text, {}).value(), row["ids"].get<Ids>()) << row;
    ++n_compared;
  }
  EXPECT_GT(n_compared, 50);
}

TEST_P(GoldenTokenizer, RefusesIdsOutsideTheVocabulary) {
  const auto last = static_cast<int32_t>(tokenizer_->vocab_size() - 1);
  EXPECT_TRUE(tokenizer_->Decode(Ids{last}).ok());
  for (const int32_t id : {-1, last + 1, INT32_MAX, INT32_MIN}) {
    const absl::Status status = tokenizer_->Decode(Ids{0, id}).status();
    EXPECT_EQ(ExitCode(status), 2);
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("id " + std::to_string(id) + " is not in the vocabulary, must be in [0, " +
                  std::to_string(last) + "]"));
  }
}

TEST_P(GoldenTokenizer, RefusesTextThatIsNotUtf8) {
  const absl::Status status = tokenizer_->Encode("ab\xFF", {}).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not valid UTF-8 at byte 2"));
  EXPECT_FALSE(tokenizer_->EncodeAsReference("\xED\xA0\x80", {}).ok());
}

TEST_P(GoldenTokenizer, RefusesToGuessTokensThatBeginAndEndAText) {
  const absl::Status status = tokenizer_->Encode("a", {.add_special = true}).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("add_special = true"));
  EXPECT_FALSE(tokenizer_->EncodeAsReference("a", {.add_special = true}).ok());
}

TEST_P(GoldenTokenizer, TakesNulBytesAndTheEmptyText) {
  EXPECT_THAT(tokenizer_->Encode("", {}).value(), ElementsAre());
  EXPECT_EQ(tokenizer_->Decode({}).value(), "");
  const std::string_view text("a\0b", 3);
  EXPECT_EQ(tokenizer_->Encode(text, {}).value(), tokenizer_->EncodeAsReference(text, {}).value());
}

std::string Concatenated(const Tokenizer& tokenizer, const Ids& ids) {
  std::string bytes;
  for (const int32_t id : ids) bytes += tokenizer.TokenBytes(id);
  return bytes;
}

std::string WithoutReplacements(std::string text) {
  const std::string_view replacement = "\xEF\xBF\xBD";
  for (size_t at = 0; (at = text.find(replacement, at)) != text.npos;) text.erase(at, 3);
  return text;
}

// Any ids but control tokens: Decode takes the bytes on their two sides for different characters.
rc::Gen<Ids> AnyIds(const Tokenizer& tokenizer) {
  const auto id = rc::gen::inRange<int32_t>(0, static_cast<int32_t>(tokenizer.vocab_size()));
  return rc::gen::container<Ids>(
      rc::gen::suchThat(id, [&](int32_t id) { return !tokenizer.TokenBytes(id).empty(); }));
}

bool IsBytePiece(const Tokenizer& tokenizer, int32_t id) {
  return FindInvalidUtf8(tokenizer.TokenBytes(id)).has_value();
}

// What Decode adds for a completion; nothing where the property does not speak: the prompt must
// have a text, and end between characters.
std::optional<std::string> TextAdded(const Tokenizer& tokenizer, Ids prompt,
                                     const Ids& completion) {
  const std::string before = tokenizer.Decode(prompt).value();
  if (before.empty() || IsBytePiece(tokenizer, prompt.back())) return std::nullopt;
  prompt.insert(prompt.end(), completion.begin(), completion.end());
  const std::string all = tokenizer.Decode(prompt).value();
  RC_ASSERT(all.starts_with(before));
  return all.substr(before.size());
}

TEST_P(GoldenTokenizer, TokenBytesAddUpToWhatDecodeAddsToAPrompt) {
  EXPECT_TRUE(rc::check("of any ids, invalid UTF-8 aside", [&] {
    const Ids prompt = *AnyIds(*tokenizer_);
    const Ids completion = *AnyIds(*tokenizer_);
    const auto added = TextAdded(*tokenizer_, prompt, completion);
    RC_PRE(added.has_value());
    const std::string bytes = Concatenated(*tokenizer_, completion);
    RC_ASSERT(WithoutReplacements(ReplaceInvalidUtf8(bytes)) == WithoutReplacements(*added));
  }));
}

TEST_P(GoldenTokenizer, TokenBytesOfEncodedTextAddUpExactly) {
  const std::vector<nlohmann::json> rows = GoldenRows(GetParam(), "cases.jsonl");
  int n_compared = 0;
  for (const nlohmann::json& prompt : rows) {
    for (const nlohmann::json& completion : rows) {
      const auto added = TextAdded(*tokenizer_, prompt["ids"], completion["ids"]);
      if (!added) continue;
      EXPECT_EQ(Concatenated(*tokenizer_, completion["ids"]), *added) << prompt << completion;
      ++n_compared;
    }
  }
  EXPECT_GT(n_compared, 1000);
}

TEST_P(GoldenTokenizer, EncodesAMegabyteOfOneKindOfCharacterInSeconds) {
  for (const char* const unit : {"a", " ", "7", "\n", "!", "\u2581", "\u0301", "\u4E2D", "\uAC00",
                                 "\U0001F600", "<|ngpt_", "<0x41>"}) {
    std::string text;
    while (text.size() < 1 << 20) text += unit;
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(tokenizer_->Encode(text, {}).ok());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 20) << unit;  // a fraction of a second on a machine with nothing to do
  }
}

// Fragments that could make a special id if anything put them together.
TEST(SpecialTokens, NeverComeFromTextThatIsNotParsedForThem) {
  const std::unique_ptr<Tokenizer> tokenizer = OpenGolden("spm_unigram");
  std::set<int32_t> special_ids;
  std::vector<std::string> fragments = {"<s>", "</s>", "<unk>",  " ",      "a",      "\n",
                                        "<|",  "|>",   "\u2581", "<0x41>", "\uFF1C", "\U0001F600"};
  for (const auto& [literal, id] : GoldenSpecials()) {
    special_ids.insert(id);
    fragments.push_back(literal);
    fragments.push_back(literal.substr(0, literal.size() / 2));
    fragments.push_back(literal.substr(literal.size() / 2));
    // Full-width brackets, which the normaliser turns into the literal's own.
    fragments.push_back("\uFF1C" + literal.substr(1, literal.size() - 2) + "\uFF1E");
  }
  for (const char* const control : {"<s>", "</s>"}) {
    special_ids.insert(tokenizer->SpecialId(control).value());
  }
  EXPECT_TRUE(rc::check("of any mixture of literals and text", [&] {
    const auto chosen =
        *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(fragments));
    std::string text;
    for (const std::string& fragment : chosen) text += fragment;
    const Ids ids = tokenizer->Encode(text, {}).value();
    for (const int32_t id : ids) {
      RC_ASSERT(special_ids.count(id) == 0U);
    }
  }));
}

TEST(SpecialTokens, AreParsedWhereAskedFor) {
  const std::unique_ptr<Tokenizer> tokenizer = OpenGolden("spm_unigram");
  for (const auto& [literal, id] : GoldenSpecials()) {
    EXPECT_THAT(tokenizer->Encode(literal, {.parse_special = true}).value(), ElementsAre(id));
    EXPECT_THAT(tokenizer->EncodeAsReference(literal, {}).value(), ElementsAre(id));
    const Ids plain = tokenizer->Encode(literal, {}).value();
    EXPECT_GT(plain.size(), 1);
    EXPECT_EQ(tokenizer->Decode(plain).value(), literal) << "the characters are all there";
  }
}

TEST(SpecialTokens, AreFoundByTheirLiteral) {
  const std::unique_ptr<Tokenizer> unigram = OpenGolden("spm_unigram");
  for (const auto& [literal, id] : GoldenSpecials()) EXPECT_EQ(unigram->SpecialId(literal), id);
  EXPECT_EQ(unigram->SpecialId("<|nobody|>"), std::nullopt);
  EXPECT_EQ(unigram->SpecialId("the"), std::nullopt) << "a piece, but no special one";
  const std::unique_ptr<Tokenizer> bpe = OpenGolden("spm_bpe_llama");
  EXPECT_EQ(bpe->SpecialId("<s>"), 1);
  EXPECT_EQ(bpe->SpecialId("</s>"), 2);
  EXPECT_THAT(bpe->SpecialIds(), UnorderedElementsAre(0, 1, 2)) << "0: <unk>";
  const Ids specials = unigram->SpecialIds();
  for (const auto& [literal, id] : GoldenSpecials()) {
    EXPECT_EQ(std::ranges::count(specials, id), 1) << literal;
  }
}

TEST(TokenBytes, GiveEachKindOfPieceItsBytes) {
  const std::unique_ptr<Tokenizer> unigram = OpenGolden("spm_unigram");
  for (const auto& [literal, id] : GoldenSpecials()) EXPECT_EQ(unigram->TokenBytes(id), literal);

  const std::unique_ptr<Tokenizer> bpe = OpenGolden("spm_bpe_llama");
  EXPECT_EQ(bpe->TokenBytes(0), " \u2047 ") << "the unknown, as Decode shows it";
  EXPECT_EQ(bpe->TokenBytes(1), "") << "a control piece";
  EXPECT_EQ(bpe->TokenBytes(3), std::string_view("\0", 1)) << "<0x00>";
  EXPECT_EQ(bpe->TokenBytes(258), "\xFF") << "<0xFF>";
  EXPECT_EQ(bpe->TokenBytes(bpe->Encode("Richard", {}).value().front()), " Richard");
}

TEST(TokenBytes, OfAControlTokenAddNothing) {
  const std::unique_ptr<Tokenizer> bpe = OpenGolden("spm_bpe_llama");
  const int32_t a = bpe->Encode("a", {}).value().back();
  EXPECT_EQ(bpe->Decode(Ids{a, 1, 2, a}).value(), bpe->Decode(Ids{a, a}).value());
}

TEST(TokenBytes, KeepTheSpaceThatDecodeDropsAtTheBeginningOfAText) {
  const std::unique_ptr<Tokenizer> bpe = OpenGolden("spm_bpe_llama");
  const Ids ids = bpe->Encode("Richard", {}).value();
  EXPECT_EQ(bpe->Decode(ids).value(), "Richard");
  EXPECT_EQ(Concatenated(*bpe, ids), " Richard");
}

TEST(SentencePieceTokenizer, LoadsTheSmallestModel) {
  const std::unique_ptr<Tokenizer> tokenizer = FromModel(SmallModel());
  EXPECT_EQ(tokenizer->vocab_size(), 6);
  EXPECT_THAT(tokenizer->Encode("ab a", {}).value(), ElementsAre(4, 5, 2));
  EXPECT_THAT(tokenizer->Encode("z", {}).value(), ElementsAre(0));
}

// A user-defined piece need not look like a marker: without parsing it is no piece all the same.
TEST(SentencePieceTokenizer, LeavesOutUserDefinedPiecesOfPlainTextToo) {
  const std::unique_ptr<Tokenizer> tokenizer =
      FromModel(SmallModel() + PieceField("ba", PieceType::kUserDefined));
  EXPECT_THAT(tokenizer->EncodeAsReference("aba", {}).value(), ElementsAre(2, 6));
  EXPECT_THAT(tokenizer->Encode("aba", {}).value(), ElementsAre(4, 2));
  EXPECT_EQ(tokenizer->Decode(Ids{6}).value(), "ba");
}

// The samples that a model carries to test itself may hold its user-defined pieces.
TEST(SentencePieceTokenizer, LoadsAModelWhoseSamplesHoldUserDefinedPieces) {
  const std::string sample = BytesField(1, BytesField(1, "aba") + BytesField(2, "a ba"));
  const std::string model = SmallModel() + PieceField("ba", PieceType::kUserDefined);
  EXPECT_THAT(FromModel(model + BytesField(4, sample))->Encode("aba", {}).value(),
              ElementsAre(4, 2));
  const std::string wrong = BytesField(1, BytesField(1, "aba") + BytesField(2, "b b"));
  EXPECT_FALSE(SentencePieceTokenizer::FromBytes(model + BytesField(4, wrong), "t.model").ok());
}

// BPE over two letters whose pieces are about as good as each other: what a text becomes depends on
// far more than what is near.
std::string TwoLetterBpe(bool dummy_prefix, const std::vector<std::string>& user_defined) {
  std::mt19937 random(7);
  std::set<std::string> texts;
  while (texts.size() < 40) {
    std::string text;
    for (size_t n = 2 + random() % 5; text.size() < n;) text += "ab"[random() % 2];
    texts.insert(text);
  }
  std::string model = PieceField("<unk>", PieceType::kUnknown);
  for (int byte = 0; byte < 256; ++byte) {
    model += PieceField(absl::StrFormat("<0x%02X>", byte), PieceType::kByte);
  }
  for (const char* const letter : {"a", "b", "\u2581"}) {
    model += PieceField(letter, PieceType::kNormal, -100);
  }
  model += PieceField("\u2581a", PieceType::kNormal, -3.5F);
  for (const std::string& text : user_defined) {
    model += PieceField(text, PieceType::kUserDefined);
    texts.erase(text);
  }
  for (const std::string& text : texts) {
    model += PieceField(text, PieceType::kNormal, -static_cast<float>(random() % 8));
  }
  return model + BytesField(2, IntField(3, 2) + IntField(35, 1)) +
         BytesField(3, IntField(3, dummy_prefix ? 1 : 0) + IntField(4, 0) + IntField(5, 1));
}

// Without a place to cut it at, a long text gets to the library in windows that overlap.
TEST(SentencePieceTokenizer, GivesALongTextTheIdsOfTheLibrary) {
  const std::string llama = test::Slurp(GoldenFolder("spm_bpe_llama") + "/tokenizer.model");
  std::mt19937 random(1);
  for (const std::string& model :
       {llama, TwoLetterBpe(true, {}), TwoLetterBpe(false, {}), TwoLetterBpe(true, {"abba", "ab"}),
        TwoLetterBpe(false, {"aaaaaaaa"})}) {
    const std::unique_ptr<Tokenizer> tokenizer = FromModel(model);
    SentencePieceLibrary library;
    ASSERT_EQ(library.Load(model), "");
    for (const std::vector<std::string>& units :
         std::vector<std::vector<std::string>>{{"a"},
                                               {"a", "b"},
                                               {"a", "b", "aaaaaaa", "abab"},
                                               {"a", "\u4E2D", "\U0001F600"},
                                               {"the", "re", "in", "g", "er", "\n"},
                                               {"abba", "b"}}) {
      std::string text = random() % 2 == 0 ? "" : " ";
      for (size_t n = 150000 + random() % 100000; text.size() < n;) {
        text += units[random() % units.size()];
      }
      Ids ids;
      ASSERT_EQ(library.Encode(text, &ids), "");
      EXPECT_TRUE(tokenizer->EncodeAsReference(text, {}).value() == ids)
          << text.substr(0, 60) << model.size();
    }
  }
}

TEST(SentencePieceTokenizer, RefusesWhatTheLibraryRefuses) {
  const std::string duplicate = SmallModel() + PieceField("a", PieceType::kNormal);
  const std::string byte = SmallModel() + PieceField("<0x4>", PieceType::kByte);
  for (const std::string& model : {duplicate, byte}) {
    testing::internal::CaptureStderr();
    const absl::Status status = SentencePieceTokenizer::FromBytes(model, "t.model").status();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(ExitCode(status), 3);
    EXPECT_THAT(std::string(status.message()), HasSubstr("t.model: "));
  }
}

TEST(OpenTokenizer, RefusesEveryDamagedFileWithoutPrinting) {
  const std::string folder = NG_TEST_DATA "/malformed/";
  const nlohmann::json manifest = nlohmann::json::parse(test::Slurp(folder + "manifest.json"));
  int n_refused = 0;
  for (const nlohmann::json& file : manifest["files"]) {
    const std::string path = file["path"];
    if (!path.starts_with("tok_")) continue;
    ASSERT_EQ(file["expect"], "error");
    testing::internal::CaptureStderr();
    const absl::Status status = OpenTokenizer(folder + path).status();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(ExitCode(status), 3) << path << ": " << file["reason"];
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    ++n_refused;
  }
  EXPECT_EQ(n_refused, 10);
}

TEST_P(GoldenTokenizer, SurvivesAnyDamageToItsFile) {
  const std::string good = test::Slurp(GoldenFolder(GetParam()) + "/tokenizer.model");
  EXPECT_TRUE(rc::check("a byte changed, or the end cut off", [&] {
    std::string bytes = good;
    const auto at = static_cast<size_t>(*rc::gen::inRange<int>(0, static_cast<int>(good.size())));
    bytes[at] = static_cast<char>(*rc::gen::inRange(0, 256));
    if (*rc::gen::inRange(0, 4) == 0) bytes.resize(at);
    const auto tokenizer = SentencePieceTokenizer::FromBytes(bytes, "t.model");
    if (!tokenizer.ok()) {
      RC_ASSERT(ExitCode(tokenizer.status()) == 3);
      return;
    }
    const auto ids = (*tokenizer)->Encode("Caf\u00e9 \uFDFA \uFF21 \u3300 x\u0301 1\u00BD", {});
    if (ids.ok()) RC_ASSERT((*tokenizer)->Decode(*ids).ok());
  }));
}

TEST(OpenTokenizer, SaysWhatIsSupported) {
  const test::TempDir folder;
  const auto error_of = [&](const std::string& path) {
    const absl::Status status = OpenTokenizer(path).status();
    EXPECT_EQ(ExitCode(status), 3);
    return std::string(status.message());
  };
  EXPECT_THAT(error_of(folder.File("")),
              HasSubstr("has no tokenizer.model, no tokenizer.json, no meta.pkl"));
  EXPECT_THAT(error_of(folder.File("absent.model")), HasSubstr("absent.model: no such file"));
  EXPECT_THAT(error_of(folder.Write("model.gguf", "GGUF")), HasSubstr("model.gguf: "));
}

TEST(OpenTokenizer, TakesAFileOrTheFolderItIsIn) {
  const std::string folder = GoldenFolder("bbpe_gpt2");
  EXPECT_EQ(OpenTokenizer(folder).value()->vocab_size(), 600);
  EXPECT_EQ(OpenTokenizer(folder + "/tokenizer.json").value()->vocab_size(), 600);
}

TEST(FindTokenizer, FindsTheFileBesideAModel) {
  const test::TempDir folder;
  EXPECT_EQ(FindTokenizer(folder.File("")), std::nullopt);
  EXPECT_EQ(FindTokenizer(folder.File("absent")), std::nullopt);
  const std::string json = folder.Write("tokenizer.json", "damaged");
  const std::string parent = json.substr(0, json.rfind('/'));
  EXPECT_EQ(FindTokenizer(parent), json) << "a damaged one is found, to be refused";
  const std::string model = folder.Write("tokenizer.model", "damaged");
  EXPECT_EQ(FindTokenizer(parent), model) << "the one that the other is made from";
}

}  // namespace
}  // namespace ng
