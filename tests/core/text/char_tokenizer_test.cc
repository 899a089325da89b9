#include "core/text/char_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/text/files/open_tokenizer.h"
#include "tests/core/text/golden_rows.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

const std::string kFolder = NG_TEST_DATA "/tokenizers/nanogpt_char";
constexpr std::string_view kText = "winter \u00E9\u4E2D!\n";
const Ids kIds = {21, 12, 15, 19, 8, 17, 1, 22, 24, 2, 0};

// A pickle by hand: what stands between the protocol's number and the end.
std::string Pickle(std::string_view program) { return "\x80\x04" + std::string(program) + "."; }
std::string Text(std::string_view text) {
  return std::string("\x8C") + static_cast<char>(text.size()) + std::string(text);
}
std::string Int(int value) { return std::string("K") + static_cast<char>(value); }
std::string Dict(const std::string& items) { return "}(" + items + "u"; }
std::string Meta(const std::string& itos, const std::string& stoi, const std::string& more = "") {
  return Pickle(Dict(Text("itos") + Dict(itos) + Text("stoi") + Dict(stoi) + more));
}

absl::Status StatusOf(const std::string& bytes) {
  return CharTokenizer::FromMetaPickle(bytes, "meta.pkl").status();
}

TEST(CharTokenizer, ReadsWhatPythonWritesInEveryProtocol) {
  for (const char* const file :
       {"", "/meta.pkl", "/meta_protocol2.pkl", "/meta_protocol3.pkl", "/meta_protocol5.pkl"}) {
    const auto tokenizer = OpenTokenizer(kFolder + file);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ((*tokenizer)->vocab_size(), 25);
    EXPECT_EQ((*tokenizer)->Encode(kText, {}).value(), kIds);
    EXPECT_EQ((*tokenizer)->EncodeAsReference(kText, {}).value(), kIds);
    EXPECT_EQ((*tokenizer)->Decode(kIds).value(), kText);
    EXPECT_EQ(ConcatenatedTokenBytes(**tokenizer, kIds), kText);
  }
}

TEST(CharTokenizer, RefusesWhatItHasNoTokenFor) {
  const auto tokenizer = OpenTokenizer(kFolder).value();
  const absl::Status status = tokenizer->Encode("no Z\u00FC", {}).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"Z\" at byte 3 is none of the 25"));
  EXPECT_EQ(ExitCode(tokenizer->Encode("a\xFF", {}).status()), 2);
  EXPECT_EQ(ExitCode(tokenizer->Encode("a", {.add_special = true}).status()), 2);
  EXPECT_EQ(ExitCode(tokenizer->Decode(Ids{25}).status()), 2);
  EXPECT_EQ(tokenizer->SpecialId("a"), std::nullopt);
  EXPECT_TRUE(tokenizer->SpecialIds().empty());
}

TEST(CharTokenizer, RefusesListsThatDoNotFitTogether) {
  const std::string itos = Int(0) + Text("a") + Int(1) + Text("b");
  const std::string stoi = Text("a") + Int(0) + Text("b") + Int(1);
  EXPECT_TRUE(StatusOf(Meta(itos, stoi)).ok()) << StatusOf(Meta(itos, stoi));
  EXPECT_TRUE(StatusOf(Meta(itos, stoi, Text("vocab_size") + Int(2))).ok());
  const std::pair<std::string, const char*> wrong[] = {
      {Meta(itos, stoi, Text("vocab_size") + Int(3)), "do not say what"},
      {Meta(itos, Text("a") + Int(0)), "do not say what"},
      {Meta(itos, Text("a") + Int(1) + Text("b") + Int(0)), "do not say what"},
      {Meta(Int(0) + Text("a") + Int(2) + Text("b"), stoi), "each id in [0, 2)"},
      {Meta(Int(0) + Text("a") + Int(0) + Text("b"), stoi), "a character of its own"},
      {Meta(Int(0) + Text("a") + Int(1) + Text("a"), stoi), "a character of its own"},
      {Meta(Int(0) + Text("ab"), stoi), "a character of its own"},
      {Meta("", ""), "must be a dictionary with"},
      {Pickle(Int(3)), "must be a dictionary with"},
      {Pickle(Dict(Text("itos") + Dict(itos))), "must be a dictionary with"},
  };
  for (const auto& [bytes, message] : wrong) {
    const absl::Status status = StatusOf(bytes);
    EXPECT_EQ(ExitCode(status), 3);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(Pickle, FollowsNoInstructionThatBuildsAnObject) {
  // os.system, called.
  const absl::Status status = StatusOf(Pickle("cos\nsystem\n(\x8C\x02lstR"));
  EXPECT_EQ(ExitCode(status), 3);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the instruction 0x63, which is not"));
}

TEST(Pickle, RefusesProgramsThatMakeNoSense) {
  const std::pair<std::string, const char*> wrong[] = {
      {"", "is no pickle"},
      {"\x80\x09.", "protocol 2 to 5"},
      {Pickle(""), "does not end with one value"},
      {Pickle(Int(1) + Int(2)), "does not end with one value"},
      {Pickle("}("), "does not end with one value"},
      {"\x80\x04}", "ends in the middle"},
      {"\x80\x04X\x7F", "ends in the middle"},
      {Pickle(Text(std::string(65, 'a'))), "a string too long"},
      {Pickle(Text("\xFF")), "not valid UTF-8"},
      {Pickle("u"), "no mark"},
      {Pickle("s"), "items without their dictionary"},
      {Pickle("}" + Int(1) + "s"), "items without their dictionary"},
      {Pickle("}(" + Int(1) + "u"), "items without their dictionary"},
      {Pickle(Int(1) + "(" + Int(1) + Int(2) + "u"), "items without their dictionary"},
      {Pickle("}(" + Int(1) + Int(2) + "s"), "items without their dictionary"},
      {Pickle("h\x05"), "asks for what it did not keep"},
      {Pickle("\x94"), "nothing to remember"},
      {Pickle("}}}}}}" + Int(1) + Int(1) + "s"), "does not end with one value"},
  };
  for (const auto& [bytes, message] : wrong) {
    const absl::Status status = StatusOf(bytes);
    EXPECT_EQ(ExitCode(status), 3);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << bytes;
  }
  std::string nested = Int(1);
  for (int i = 0; i < 6; ++i) nested = "}" + Int(1) + nested + "s";
  EXPECT_THAT(std::string(StatusOf(Pickle(nested)).message()), HasSubstr("nested too deep"));
}

TEST(CharTokenizer, SurvivesAnyDamageToItsFile) {
  const std::string good = test::Slurp(kFolder + "/meta.pkl");
  EXPECT_TRUE(rc::check("a byte changed, or the end cut off", [&] {
    std::string bytes = good;
    const auto at = static_cast<size_t>(*rc::gen::inRange<int>(0, static_cast<int>(good.size())));
    bytes[at] = static_cast<char>(*rc::gen::inRange(0, 256));
    if (*rc::gen::inRange(0, 4) == 0) bytes.resize(at);
    const absl::Status status = StatusOf(bytes);
    RC_ASSERT(status.ok() || ExitCode(status) == 3);
  }));
}

}  // namespace
}  // namespace ng
