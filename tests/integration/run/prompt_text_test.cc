// Texts on their way to a model: whose fault it is and where, how long they may be, what begins
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PromptFile, IsNamedWhereItsTextIsWrong) {
  const TempDir temp;
  const std::string invalid = temp.Write("invalid.txt", "To b\xFF");
  ExpectError(NgRun(Demo() + Arguments{"--prompt-file", invalid}), 2,
              {invalid, "not valid UTF-8 at byte 4"});
  const std::string empty = temp.Write("empty.txt", "");
  ExpectError(NgRun(Demo() + Arguments{"--prompt-file", empty}), 2, {empty, "prompt is empty"});
}

TEST(PromptsFile, MayHaveBlankLines) {
  const TempDir temp;
  const std::string file =
      temp.Write("prompts.jsonl",
                 "\n{\"prompt_ids\": [1]}\n  \n\r\n{\"prompt_ids\": [2]}\n\n{\"prompt\": 5}\n");
  ExpectError(NgRun(Demo() + Arguments{"--prompts", file}), 2, {file + ":7: ", "must be a text"});
  const std::string good =
      temp.Write("good.jsonl", "\n{\"prompt_ids\": [1]}\n \t\n{\"prompt_ids\": [2]}\n\n");
  const Result result =
      NgRun(Demo() + Arguments{"--prompts", good, "--output", "jsonl", "--run.max_new_tokens=0"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(JsonLines(result.out).size(), 2U);
  const std::string blank = temp.Write("blank.jsonl", "\n \n");
  ExpectError(NgRun(Demo() + Arguments{"--prompts", blank}), 2, {blank, "holds no prompt"});
}

// Whatever the text is made of, it is refused for what is known of it, without the memory that all
// of its tokens would take.
TEST(PromptFile, ThatIsMuchTooLongIsRefusedWithLittleMemory) {
  const TempDir temp;
  for (const std::string unit : {"many words ", "x", "\xF0\x9F\x98\x80"}) {
    std::string text;
    while (text.size() < 10 << 20) text += unit;
    const std::string file = temp.Write("long.txt", text);
    const Result result = NgRun(Demo() + Arguments{"--prompt-file", file});
    ExpectError(result, 5,
                {file, "prompt length exceeds T_max", "more than 4608 tokens", "256 T_max"});
    EXPECT_LT(result.peak_bytes, 200 << 20);
  }
  // By a little: then it is known by how much.
  std::string words;
  for (int i = 0; i < 300; ++i) words += " be";
  ExpectError(NgRun(Demo() + Arguments{"--prompt", words}), 5,
              {"prompt length exceeds T_max: prompt ", " > 256 T_max"});
}

TEST(PromptFile, LargerThanAnyThatFitsIsNotRead) {
  const TempDir temp;
  const std::string file = temp.Write("huge.txt", "x");
  fs::resize_file(file, int64_t{1} << 30);  // sparse
  const Result result = NgRun(Demo() + Arguments{"--prompt-file", file});
  ExpectError(result, 2, {file, "1073741824"});
  EXPECT_LT(result.peak_bytes, 200 << 20);
}

TEST(Value, OfAnotherProgramIsUnderstood) {
  for (const auto& [argument, meant] : {std::pair{"--model.weights=fp16", "f16"},
                                        {"--cache.codec=float16", "f16"},
                                        {"--model.weights=bfloat16", "bf16"},
                                        {"--cache.codec=q8_0", "int8"},
                                        {"--model.weights=FP32", "f32"},
                                        {"--run.on_full=recompte", "recompute"}}) {
    ExpectError(NgRun(Demo() + Arguments{"--prompt", "a", argument}), 2,
                {absl::StrCat("did you mean ", meant, "?")});
  }
}

// A folder that says what begins a text: so does the prompt, and a template's own is not doubled.
TEST(BeginToken, IsThatOfTheFilesBesideTheTokenizer) {
  const TempDir temp;
  TinyNiels model;
  model.vocab_size = 832;
  model.WriteTo(temp.path());
  const std::string data = NG_TEST_DATA "/tokenizers/";
  fs::copy(data + "spm_bpe_llama/tokenizer.model", temp.path());
  fs::copy(data + "layouts/llama2_no_json/tokenizer_config.json", temp.path());
  const auto ids_of = [&](const Arguments& prompt) {
    const Result result = NgRun(
        Arguments{"--model.path=" + temp.path(), "--output", "jsonl", "--run.max_new_tokens=0"} +
        prompt);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return JsonLines(result.out).at(0)["prompt_ids"];
  };
  EXPECT_THAT(ids_of({"--prompt", "Hello, world!"}),
              ElementsAre(1, 332, 409, 745, 758, 552, 321, 777));
  EXPECT_THAT(ids_of({"--message", "Hi"}), ElementsAre(1, 94, 769, 789, 778, 771, 96, 332, 752, 743,
                                                       94, 50, 769, 789, 778, 771, 96));
  temp.Write("tokenizer_config.json", "{\"tokenizer_class\": \"LlamaTokenizer\", \"odd\": 1}");
  const Result said = NgRun(
      {"--model.path=" + temp.path(), "--prompt", "Hi", "--run.max_new_tokens=1", "--dry-run"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.err, HasSubstr("ng-run: warning: "));
  EXPECT_THAT(said.err, HasSubstr("nobody reads this key: odd"));
}

#if !defined(__SANITIZE_ADDRESS__)  // its shadow does not fit any limit
// However little memory there is: done, or one line and exit 5. 127: the system's loader got none.
TEST(Tokenize, SaysThatItHasNoMemory) {
  const TempDir temp;
  std::string text;
  while (text.size() < 2 << 20) text += "many words in a row ";
  temp.Write("text", text);
  const Result result = Shell(
      "cd $1; tool=$(dirname \"$NG\")/ng-tokenize; out_of_memory=0\n"
      "for folder in spm_unigram spm_bpe_llama bbpe_llama3 layouts/mistral_v03; do\n"
      "for kib in 36000 44000 50000 56000 64000 80000 120000 240000"
      "; do\n"
      "  (ulimit -v $kib; exec \"$tool\" --tokenizer \"$2/$folder\" <text >ids 2>said); code=$?\n"
      "  case $code in\n"
      "  0|127) ;;\n"
      "  5) out_of_memory=1; [ \"$(cat said)\" = 'ng-tokenize: error: out of memory' ] ||\n"
      "    { echo \"$folder $kib:\"; cat said; } ;;\n"
      "  *) echo \"$folder $kib: exit $code\"; cat said ;;\n"
      "  esac\n"
      "done; done; echo $out_of_memory",
      {temp.path(), NG_TEST_DATA "/tokenizers"});
  EXPECT_EQ(result.out, "1\n") << result.err;
}
#endif

}  // namespace
}  // namespace ng::test
