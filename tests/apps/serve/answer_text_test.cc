#include "apps/serve/answers/answer_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ng::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Bytes(const AnswerPiece& piece) {
  std::vector<std::string> bytes;
  for (const ShownToken& token : piece.tokens) bytes.push_back(token.bytes);
  return bytes;
}

TEST(AnswerText, GivesWholeCharactersWithTheirTokens) {
  AnswerText text(true);
  text.Push({.bytes = "a"}, 0);
  const AnswerPiece first = text.Take();
  EXPECT_EQ(first.text, "a");
  EXPECT_THAT(Bytes(first), ElementsAre("a"));
  text.Push({.bytes = "\xC3"}, 0);
  const AnswerPiece none = text.Take();
  EXPECT_EQ(none.text, "");
  EXPECT_THAT(none.tokens, IsEmpty());
  text.Push({.bytes = "\xA9"}, 0);
  const AnswerPiece second = text.Take();
  EXPECT_EQ(second.text, "é");
  EXPECT_THAT(Bytes(second), ElementsAre("\xC3", "\xA9"));
  text.Push({.bytes = "\xE2\x82"}, 0);
  text.Finish(0);
  EXPECT_EQ(text.Take().text, "\uFFFD");
}

TEST(AnswerText, HoldsBackWhatMayEndItAndDropsWhatDoes) {
  AnswerText text(true);
  text.Push({.bytes = "one ST"}, 2);
  EXPECT_EQ(text.Take().text, "one ");
  text.Push({.bytes = "ART "}, 0);  // it was no STOP
  const AnswerPiece known = text.Take();
  EXPECT_EQ(known.text, "START ");
  EXPECT_THAT(Bytes(known), ElementsAre("ART "));
  text.Push({.bytes = "ST"}, 2);
  text.Push({.bytes = "OP!"}, 5);
  EXPECT_EQ(text.Take().text, "");
  text.Finish(5);
  const AnswerPiece last = text.Take();
  EXPECT_EQ(last.text, "");
  EXPECT_THAT(Bytes(last), ElementsAre("ST", "OP!"));
}

TEST(AnswerText, KeepsNoTokensUnlessTheyAreWanted) {
  AnswerText text(false);
  text.Push({.bytes = "a"}, 0);
  text.Finish(0);
  const AnswerPiece piece = text.Take();
  EXPECT_EQ(piece.text, "a");
  EXPECT_THAT(piece.tokens, IsEmpty());
}

// A row that the tokenizer does not know has no bytes, a stop id has a name.
TEST(AnswerText, GivesTokensWithoutTextToo) {
  AnswerText text(true);
  text.Push({.bytes = ""}, 0);
  EXPECT_THAT(Bytes(text.Take()), IsEmpty());
  text.Push({.bytes = "a"}, 0);
  EXPECT_THAT(Bytes(text.Take()), ElementsAre("", "a"));
  text.Push({.bytes = ""}, 0);
  text.Push({.bytes = "<end>", .special = true}, 0);
  text.Finish(0);
  const AnswerPiece last = text.Take();
  EXPECT_EQ(last.text, "");
  EXPECT_THAT(Bytes(last), ElementsAre("", "<end>"));
}

}  // namespace
}  // namespace ng::serve
