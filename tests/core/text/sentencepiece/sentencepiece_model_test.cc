#include "core/text/sentencepiece/sentencepiece_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>

#include "core/text/sentencepiece/charsmap.h"
#include "tests/core/text/test_model.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view bytes) {
  const auto pieces = ReadSentencePieceModel(bytes, "t.model");
  EXPECT_EQ(ExitCode(pieces.status()), 3);
  EXPECT_THAT(std::string(pieces.status().message()), HasSubstr("t.model: "));
  return std::string(pieces.status().message());
}

TEST(SentencePieceModel, ReadsThePieces) {
  const std::string model = SmallModel();
  const auto pieces = ReadSentencePieceModel(model, "t.model");
  ASSERT_TRUE(pieces.ok()) << pieces.status();
  ASSERT_EQ(pieces->size(), 6);
  EXPECT_EQ((*pieces)[0].type, PieceType::kUnknown);
  EXPECT_EQ((*pieces)[1].type, PieceType::kControl);
  EXPECT_EQ((*pieces)[4].text, "ab");
  EXPECT_EQ((*pieces)[4].score, -2.5F);
  EXPECT_EQ((*pieces)[4].type, PieceType::kNormal);
}

TEST(SentencePieceModel, ReadsAPieceAsProtobufDoes) {
  const std::string text = BytesField(1, "x");
  const auto type_of = [](const std::string& piece) {
    const std::string model = SmallModel() + BytesField(1, piece);
    return ReadSentencePieceModel(model, "t.model").value().back().type;
  };
  EXPECT_EQ(type_of(text), PieceType::kNormal) << "the default";
  EXPECT_EQ(type_of(IntField(3, 4) + text + IntField(3, 3)), PieceType::kControl) << "last wins";
  EXPECT_EQ(type_of(IntField(3, 4) + text + IntField(3, 77)), PieceType::kUserDefined)
      << "a value that the enum does not have is not there";
  EXPECT_EQ(type_of(text + IntField(3, (uint64_t{1} << 32) + 4)), PieceType::kUserDefined)
      << "an enum has 32 bits";
  EXPECT_EQ(type_of(text + BytesField(3, "\4")), PieceType::kNormal) << "another wire type";
  EXPECT_EQ(type_of(text + IntField(200, 4)), PieceType::kNormal) << "an unknown field";
}

TEST(SentencePieceModel, RefusesBytesThatAreNoMessage) {
  EXPECT_THAT(ErrorOf("\xFF"), HasSubstr("is not a SentencePiece model, or damaged at offset 0"));
  EXPECT_THAT(ErrorOf(std::string_view("\0\0", 2)), HasSubstr("at offset 0")) << "field number 0";
  EXPECT_THAT(ErrorOf("\x0B\x0C"), HasSubstr("at offset 0")) << "a group";
  EXPECT_THAT(ErrorOf("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"), HasSubstr("at offset 0"));
  const std::string cut_piece = BytesField(1, std::string_view(PieceFields("x", {})).substr(0, 5));
  EXPECT_THAT(ErrorOf(SmallModel() + cut_piece), HasSubstr("damaged at offset"));
  EXPECT_THAT(ErrorOf(SmallModel() + BytesField(3, "\xFF")), HasSubstr("damaged at offset"));
}

TEST(SentencePieceModel, EveryPrefixIsReadOrRefused) {
  const std::string model = SmallModel() + PieceField("<x>", PieceType::kUserDefined);
  int n_read = 0;
  for (size_t length = 0; length < model.size(); ++length) {
    const auto pieces = ReadSentencePieceModel(model.substr(0, length), "t.model");
    if (pieces.ok()) ++n_read;
  }
  EXPECT_EQ(n_read, 7) << "only between two fields, after the first piece";
}

TEST(SentencePieceModel, NamesThePieceThatIsWrong) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(ErrorOf(SmallModel() + PieceField("", PieceType::kNormal)),
              HasSubstr("piece 6 is empty"));
  EXPECT_THAT(ErrorOf(SmallModel() + PieceField("\xE4\xB8", PieceType::kNormal)),
              HasSubstr("piece 6 is not valid UTF-8"));
  EXPECT_THAT(ErrorOf(SmallModel() + PieceField({"x\0y", 3}, PieceType::kNormal)),
              HasSubstr("piece 6 holds a NUL byte"));
  EXPECT_THAT(ErrorOf(SmallModel() + PieceField("x", PieceType::kNormal, kNan)),
              HasSubstr("piece 6 has the score NaN"));
  EXPECT_THAT(ErrorOf(SmallModel() + PieceField("x", PieceType::kUnknown)),
              HasSubstr("2 pieces of type UNKNOWN, must be exactly one"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("has no pieces"));
}

TEST(SentencePieceModel, RefusesADenormaliser) {
  const std::string map("\4\0\0\0\0\0\0\0x\0", 10);
  EXPECT_THAT(ErrorOf(SmallModel() + BytesField(5, BytesField(2, map))), HasSubstr("denormaliser"));
  EXPECT_TRUE(ReadSentencePieceModel(SmallModel() + BytesField(5, IntField(3, 1)), "t.model").ok());
}

TEST(ChangedModel, HidesUserDefinedPiecesAndChangesNothingButTheirType) {
  const std::string head = BytesField(77, "unknown field");
  const std::string text_and_score = BytesField(1, "<x>") + FloatField(2, -3);
  const std::string twice = IntField(3, 1) + text_and_score + IntField(3, 4);
  const std::string model = head + SmallModel() + BytesField(1, twice);
  EXPECT_EQ(Changed(model, {.hide_user_defined = true}),
            head + SmallModel() + BytesField(1, text_and_score + IntField(3, 3)));
  EXPECT_EQ(Changed(SmallModel(), {.hide_user_defined = true}), SmallModel());
}

TEST(ChangedModel, LeavesOutTheModelsSamplesOfItself) {
  EXPECT_EQ(Changed(SmallModel() + BytesField(4, "samples"), {}), SmallModel());
}

// A trie of 256 units and the replacement "b" for the key "a".
class CharsMapTest : public testing::Test {
 protected:
  static constexpr uint32_t kHasLeaf = 1U << 8;
  static constexpr uint32_t kValue = 1U << 31;
  static constexpr uint32_t Offset(uint32_t offset) { return offset << 10; }

  CharsMapTest() {
    units_[0] = Offset(1);                         // its child for 'a' is 1 ^ 'a'
    units_[1 ^ 'a'] = 'a' | kHasLeaf | Offset(1);  // its value is at 'a'
    units_['a'] = kValue | 0;
  }

  static std::string Word(uint32_t word) {
    std::string bytes(4, '\0');
    for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(word >> (8 * i));
    return bytes;
  }
  std::string Map(std::string_view replacements = {"b\0", 2}) const {
    std::string map = Word(static_cast<uint32_t>(units_.size() * 4));
    for (const uint32_t unit : units_) map += Word(unit);
    return map.append(replacements);
  }
  std::string Error() const { return std::string(CheckCharsMap(Map()).message()); }

  std::vector<uint32_t> units_ = std::vector<uint32_t>(256, kValue);
};

TEST_F(CharsMapTest, AcceptsSoundMaps) {
  EXPECT_TRUE(CheckCharsMap(Map()).ok()) << CheckCharsMap(Map());
  EXPECT_TRUE(CheckCharsMap("").ok());
}

TEST_F(CharsMapTest, RefusesWhatIsNoTrieWithReplacements) {
  for (const std::string& map : {std::string("\1\0\0", 3), Word(400) + std::string(100, '\0'),
                                 Word(0) + std::string(1, '\0'), Word(6) + std::string(100, '\0'),
                                 Map(""), Map("unterminated")}) {
    EXPECT_THAT(std::string(CheckCharsMap(map).message()), HasSubstr("no trie with replacements"));
  }
}

TEST_F(CharsMapTest, RefusesChildrenOutsideOfTheTrie) {
  units_[1 ^ 'a'] = 'a' | kHasLeaf | Offset(256);
  EXPECT_THAT(Error(), HasSubstr("children outside of it"));
}

TEST_F(CharsMapTest, RefusesAReplacementOutsideOfTheMap) {
  units_['a'] = kValue | 2;
  EXPECT_THAT(Error(), HasSubstr("a replacement outside of it"));
}

TEST_F(CharsMapTest, RefusesACycle) {
  units_[1 ^ 'a'] = 'a' | Offset('a');  // its child for 'a' is itself
  EXPECT_THAT(Error(), HasSubstr("a cycle"));
}

TEST_F(CharsMapTest, RefusesMoreMatchesOnAPathThanTheLibraryHasRoomFor) {
  // The keys 1, 1 1, 1 1 1, ..., each a match; the children of node k are in block k + 1.
  const auto build_chain = [&](uint32_t n_matches) {
    units_.assign(256 * (n_matches + 2), kValue);
    units_[0] = Offset(256);
    for (uint32_t k = 1; k <= n_matches; ++k) {
      const uint32_t node = 256 * k + 1;
      units_[node] = 1 | kHasLeaf | Offset(node ^ (256 * (k + 1)));
    }
  };
  build_chain(32);
  EXPECT_EQ(Error(), "");
  build_chain(33);
  EXPECT_THAT(Error(), HasSubstr("too many matches"));
}

TEST(CharsMap, AcceptsTheRealOne) {
  const std::string model = test::Slurp(NG_TEST_DATA "/tokenizers/spm_unigram/tokenizer.model");
  EXPECT_TRUE(ReadSentencePieceModel(model, "t.model").ok());
}

}  // namespace
}  // namespace ng
