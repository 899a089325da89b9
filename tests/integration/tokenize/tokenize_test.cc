// ng-tokenize reproduces its tokenizers' reference implementation, and says what it cannot do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"

namespace ng::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Data(const std::string& name) { return absl::StrCat(NG_TEST_DATA, "/", name); }

Arguments Unigram() { return {"--tokenizer", Data("tokenizers/spm_unigram/tokenizer.model")}; }

Result Tokenize(const Arguments& arguments, const std::string& input = "") {
  Command command;
  command.program = "ng-tokenize";
  command.arguments = arguments;
  command.input = input;
  return Run(command);
}

void ExpectTokenizeError(const Result& result, int exit_code, const std::string& part) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_THAT(result.err, StartsWith("ng-tokenize: error: "));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr(part));
}

class TokenizeGolden : public ::testing::TestWithParam<const char*> {
 protected:
  std::string dir() const { return Data(absl::StrCat("tokenizers/", GetParam())); }
};

TEST_P(TokenizeGolden, EncodesAndDecodesLikeTheReference) {
  const std::string cases = ReadFile(dir() + "/cases.jsonl");
  const Result result = Tokenize({"-m", dir(), "--jsonl"}, cases);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<Json> expected = JsonLines(cases);
  const std::vector<Json> found = JsonLines(result.out);
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_GT(found.size(), 50U);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_THAT(Keys(found[i]), ElementsAre("ids", "decoded"));
    EXPECT_EQ(found[i]["ids"], expected[i]["ids"]) << expected[i]["text"];
    EXPECT_EQ(found[i]["decoded"], expected[i]["decoded"]) << expected[i]["text"];
  }
}

TEST_P(TokenizeGolden, DecodesArbitraryIdsLikeTheReference) {
  const std::string cases = ReadFile(dir() + "/decode.jsonl");
  const Result result = Tokenize({"--tokenizer", dir() + "/tokenizer.model", "--decode"}, cases);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<Json> expected = JsonLines(cases);
  const std::vector<Json> found = JsonLines(result.out);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_THAT(Keys(found[i]), ElementsAre("text"));
    EXPECT_EQ(found[i]["text"], expected[i]["decoded"]) << expected[i]["ids"];
  }
}

INSTANTIATE_TEST_SUITE_P(SentencePiece, TokenizeGolden,
                         ::testing::Values("spm_unigram", "spm_bpe_llama"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Tokenize, PrintsTheIdsOfAllOfStdin) {
  const Result result = Tokenize(Unigram(), "Hello, world!");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "1006 459 512 263 642 286\n");
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(Tokenize(Unigram(), "").out, "\n");
}

TEST(Tokenize, HelpAndVersionNeedNoTokenizer) {
  EXPECT_THAT(Tokenize({"--help"}).out, StartsWith("usage: ng-tokenize"));
  EXPECT_THAT(Tokenize({"--version"}).out, StartsWith("ng-tokenize "));
}

TEST(Tokenize, RefusesBadCommandLines) {
  ExpectTokenizeError(Tokenize({}), 2, "--tokenizer PATH is missing");
  ExpectTokenizeError(Tokenize({"--tokenizer"}), 2, "needs a path");
  ExpectTokenizeError(Tokenize(Unigram() + Unigram()), 2, "given twice");
  ExpectTokenizeError(Tokenize(Unigram() + Arguments{"--jsnl"}), 2, "did you mean --jsonl?");
  ExpectTokenizeError(Tokenize(Unigram() + Arguments{"Hello"}), 2, "read from stdin");
}

TEST(Tokenize, NamesTheLineThatIsWrongAndKeepsWhatCameBefore) {
  const std::string good = "{\"text\": \"a\"}\n";
  for (const auto& [line, part] : std::vector<std::pair<std::string, std::string>>{
           {"{\"text\": 5}", "text"},
           {"{}", "text"},
           {"[]", "object"},
           {"", "JSON"},
           {"{\"text\": \"a\", \"parse_special\": 1}", "parse_special"},
           {"{\"text\": \"a\", \"add_special\": true}", "add_special"},
           {"{\"text\": \"\xFF\"}", "UTF-8"}}) {
    SCOPED_TRACE(line);
    const Result result = Tokenize(Unigram() + Arguments{"--jsonl"}, good + line + "\n" + good);
    ExpectTokenizeError(result, 2, "stdin line 2: ");
    EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_EQ(JsonLines(result.out).size(), 1U);
  }
  ExpectTokenizeError(Tokenize(Unigram() + Arguments{"--decode"}, "{\"ids\": [1024]}\n"), 2,
                      "1024");
  ExpectTokenizeError(Tokenize(Unigram(), "a\xFF"), 2, "not valid UTF-8 at byte 1");
}

TEST(Tokenize, RefusesDamagedAndForeignFiles) {
  ExpectTokenizeError(Tokenize({"--tokenizer=/nonexistent"}), 3, "/nonexistent");
  for (const char* name : {"tok_spm_cut", "tok_spm_empty", "tok_spm_no_pieces", "tok_spm_no_unk",
                           "tok_spm_random", "tok_json_no_model"}) {
    SCOPED_TRACE(name);
    ExpectTokenizeError(Tokenize({"--tokenizer", Data(absl::StrCat("malformed/", name))}, "a"), 3,
                        name);
  }
}

TEST(Tokenize, ExitsSevenWhenStdoutCannotBeWritten) {
  const Result result = Shell(
      "echo '{\"text\": \"a\"}' | \"${NG%run}tokenize\" --jsonl \"$@\" >/dev/full", Unigram());
  ExpectTokenizeError(result, 7, "stdout: cannot write");
}

}  // namespace
}  // namespace ng::test
