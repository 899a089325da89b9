// The program ng-tokenize as scripts see it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Result {
  int exit_code;
  std::string out;
  std::string err;
};

std::vector<nlohmann::json> JsonLines(const std::string& text) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

class NgTokenize : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(kProgram)) << "build the target ng-tokenize first";
  }

  // Runs the program through the shell; `more` may redirect.
  Result Run(const std::string& arguments, std::string_view input,
             const std::string& more = "") const {
    const std::string in = folder_.Write("in", input);
    const std::string command = std::string(kProgram) + " " + arguments + " < " + in + " > " +
                                folder_.File("out") + " 2> " + folder_.File("err") + " " + more;
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), test::Slurp(folder_.File("out")),
            test::Slurp(folder_.File("err"))};
  }

  void ExpectError(const Result& result, int exit_code, const std::string& text) const {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_THAT(result.err, StartsWith("ng-tokenize: error: "));
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }

  static constexpr char kProgram[] = NG_BINARY_DIR "/bin/ng-tokenize";
  const std::string unigram_ = NG_TEST_DATA "/tokenizers/spm_unigram";
  const std::string with_unigram_ = "--tokenizer " + unigram_;
  const test::TempDir folder_;
};

TEST_F(NgTokenize, PrintsTheIdsOfAllOfStdinOnOneLine) {
  const Result result = Run(with_unigram_ + "/tokenizer.model", "Hello, world!");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "1006 459 512 263 642 286\n");
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(Run(with_unigram_, "").out, "\n");
}

TEST_F(NgTokenize, ReproducesTheReferenceLineByLine) {
  for (const char* const name :
       {"spm_unigram", "spm_bpe_llama", "bbpe_gpt2", "bbpe_llama3", "bbpe_qwen2"}) {
    const std::string folder = NG_TEST_DATA "/tokenizers/" + std::string(name);
    const std::string cases = test::Slurp(folder + "/cases.jsonl");
    const Result encoded = Run("--jsonl --tokenizer " + folder, cases);
    EXPECT_EQ(encoded.exit_code, 0) << encoded.err;
    const std::vector<nlohmann::json> rows = JsonLines(encoded.out);
    const std::vector<nlohmann::json> expected = JsonLines(cases);
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i],
                (nlohmann::json{{"ids", expected[i]["ids"]}, {"decoded", expected[i]["decoded"]}}));
    }
    const std::string decode = test::Slurp(folder + "/decode.jsonl");
    const std::vector<nlohmann::json> texts =
        JsonLines(Run("--decode --tokenizer=" + folder, decode).out);
    const std::vector<nlohmann::json> references = JsonLines(decode);
    ASSERT_EQ(texts.size(), references.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(texts[i], (nlohmann::json{{"text", references[i]["decoded"]}}));
    }
  }
}

TEST_F(NgTokenize, RefusesAWrongCommandLine) {
  ExpectError(Run("", ""), 2, "--tokenizer PATH is missing");
  ExpectError(Run("--tokenizer", ""), 2, "--tokenizer needs a path");
  ExpectError(Run("--tokenizer=", ""), 2, "--tokenizer needs a path");
  ExpectError(Run(with_unigram_ + " " + with_unigram_, ""), 2, "given twice");
  ExpectError(Run(with_unigram_ + " --jsnol", ""), 2, "did you mean --jsonl?");
  ExpectError(Run(with_unigram_ + " text", ""), 2, "the text is read from stdin");
}

TEST_F(NgTokenize, NamesTheLineThatIsWrong) {
  const std::string good = "{\"text\": \"a\"}\n";
  const std::string jsonl = with_unigram_ + " --jsonl";
  for (const char* const line :
       {"{\"text\": 3}", "{\"text\"", "[]", "", "{}", "{\"text\": \"\xFF\"}",
        "{\"text\": \"a\", \"parse_special\": 1}", "{\"text\": \"a\", \"add_special\": true}"}) {
    std::string lines = good;
    lines.append(line).append("\n").append(good);
    const Result result = Run(jsonl, lines);
    ExpectError(result, 2, "stdin line 2: ");
    EXPECT_EQ(JsonLines(result.out).size(), 1) << "what came before the bad line is there";
  }
  ExpectError(Run(with_unigram_ + " --decode", "{\"ids\": [3, 1024]}"), 2,
              "\"ids[1]\" = 1024, must be an integer in [0, 1023]");
  ExpectError(Run(with_unigram_ + " --decode", "{\"ids\": [-1]}"), 2, "stdin line 1");
}

TEST_F(NgTokenize, RefusesTextThatIsNotUtf8) {
  ExpectError(Run(with_unigram_, "ab\xFF"), 2, "not valid UTF-8 at byte 2");
}

TEST_F(NgTokenize, RefusesTokenizersThatAreDamagedOrNotSupported) {
  for (const char* const name : {"tok_spm_empty", "tok_spm_random", "tok_spm_cut",
                                 "tok_spm_no_pieces", "tok_spm_no_unk", "tok_json_no_model"}) {
    const Result result = Run("--tokenizer " NG_TEST_DATA "/malformed/" + std::string(name), "a");
    ExpectError(result, 3, name);
    EXPECT_EQ(result.out, "");
  }
  ExpectError(Run("--tokenizer /absent/tokenizer.model", "a"), 3, "/absent/tokenizer.model");
}

TEST_F(NgTokenize, ReportsAStdoutThatIsFullOrClosed) {
  ExpectError(Run(with_unigram_, "a", "> /dev/full"), 7, "stdout: cannot write: No space left");
  ExpectError(Run(with_unigram_, "a", ">&-"), 7, "stdout: cannot write");
}

TEST_F(NgTokenize, EndsQuietlyWhenNobodyReadsAnyMore) {
  std::string lines;
  for (int i = 0; i < 50'000; ++i) lines += "{\"text\": \"Hello\"}\n";
  const std::string in = folder_.Write("in", lines);
  const std::string command = "( " + std::string(kProgram) + " --jsonl " + with_unigram_ + " < " +
                              in + " 2> " + folder_.File("err") + "; echo $? > " +
                              folder_.File("code") + " ) | head -c 1 > /dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(test::Slurp(folder_.File("code")), "7\n");
  EXPECT_EQ(test::Slurp(folder_.File("err")), "");
}

TEST_F(NgTokenize, PrintsHelpAndVersionWithoutATokenizer) {
  EXPECT_THAT(Run("--help", "").out, StartsWith("usage: ng-tokenize"));
  EXPECT_THAT(Run("--version", "").out, StartsWith("ng-tokenize "));
}

}  // namespace
}  // namespace ng
