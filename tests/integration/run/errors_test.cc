// What ng-run refuses: one line that names the thing, and the documented exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/isa.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The demo with more arguments.
struct BadCommandLine {
  const char* name;
  Arguments arguments;
  int exit_code;
  std::vector<std::string> parts;
};

void PrintTo(const BadCommandLine& bad, std::ostream* out) { *out << bad.name; }

class CommandLineError : public ::testing::TestWithParam<BadCommandLine> {};

TEST_P(CommandLineError, IsOneLineAndNothingIsPrinted) {
  const BadCommandLine& bad = GetParam();
  const Result result = NgRun(Demo() + bad.arguments);
  ExpectError(result, bad.exit_code, bad.parts);
  EXPECT_EQ(result.out, "");
}

const BadCommandLine kCommandLines[] = {
    {"NothingToRun", {}, 2, {"--message"}},
    {"UnknownOption", {"--promt", "x"}, 2, {"unknown option --promt", "did you mean --prompt?"}},
    {"UnknownOptionWithValue", {"--step=x"}, 2, {"--step;", "did you mean --steps?"}},
    {"StrayArgument", {"--message=a", "hello"}, 2, {"only one of", "'hello'"}},
    {"MissingArgument", {"--prompt"}, 2, {"--prompt"}},
    {"EmptyArgument", {"--prompt="}, 2, {"--prompt= is empty"}},
    {"OptionTwice", {"--prompt=a", "--prompt=b"}, 2, {"--prompt", "more than once"}},
    {"TwoPrompts", {"--prompt=a", "--message=b"}, 2, {"only one of"}},
    {"Trace", {"--message=a", "--trace="}, 2, {"--trace"}},
    {"OutputFormat", {"--message=a", "--output=xml"}, 2, {"xml", "text or jsonl"}},
    {"ParseSpecialInAMessage", {"--message=a", "--parse-special"}, 2, {"--parse-special"}},
    {"SaveTensorsWithoutSave", {"--message=a", "--save-tensors=logits"}, 2, {"--save"}},
    {"UnknownTensor", {"--message=a", "--save=x", "--save-tensors=logit"}, 2, {"decode_logits"}},
    {"OneFileTwice", {"--message=a", "--save=x", "--steps=./x"}, 2, {"name one file"}},
    {"ChatWithSteps", {"--chat", "--steps=x"}, 2, {"--chat records nothing"}},
    {"TracedLayer", {"--message=a", "--trace-layer=0,5"}, 2, {"--trace-layer 5", "0 to 4"}},
    {"TracedLayerText", {"--message=a", "--trace-layer=0,"}, 2, {"--trace-layer=0,:"}},
    {"TracedHead", {"--message=a", "--trace-layer=0", "--trace-heads=5"}, 2, {"heads 0 to 4"}},
    {"DebugLayer", {"--message=a", "--debug-cache", "--debug-layer=9"}, 2, {"layers 0 to 4"}},
    {"EmptyPrompt", {"--prompt", ""}, 2, {"the prompt is empty"}},
    {"EmptyMessage", {"--message", ""}, 2, {"--message is empty"}},
    {"NoIds", {"--prompt-ids", " "}, 2, {"the prompt is empty"}},
    {"InvalidUtf8", {"--message", "a\xFF"}, 2, {"not valid UTF-8 at byte 1"}},
    {"IdIsNoNumber", {"--prompt-ids=1 x"}, 2, {"'x' is not a token id"}},
    {"IdOutsideVocabulary", {"--prompt-ids=1 1024"}, 2, {"1024", "[0, 1023]"}},
    {"NegativeId", {"--prompt-ids", "-1"}, 2, {"id -1", "[0, 1023]"}},
    {"PromptFileMissing", {"--prompt-file=/nonexistent"}, 2, {"/nonexistent"}},
    {"PromptFileIsFolder", {"--prompt-file=/tmp"}, 2, {"/tmp", "folder"}},
    {"UnknownKey", {"--run.max_new_token=3"}, 2, {"did you mean run.max_new_tokens?"}},
    {"UnknownSection", {"--rn.threads=3"}, 2, {"did you mean [run]?"}},
    {"KeyWithoutValue", {"--run.threads", "3"}, 2, {"--run.threads=VALUE"}},
    {"ValueTooLarge", {"--run.threads=1025"}, 2, {"--run.threads=1025", "[0, 1024]"}},
    {"OptionOutOfRange", {"--sampler.top_p.p=1.7"}, 2, {"--sampler.top_p.p=1.7", "(0, 1]"}},
    {"CapAsTextTooLarge", {"--run.max_new_tokens=9223372036854775808"}, 2, {"2^63)"}},
    {"Isa", {"--run.isa=sse"}, 2, {"scalar, avx2"}},
    {"StopId", {"--run.stop_ids=6,1024"}, 2, {"1024", "[0, 1023]"}},
    {"ChatTemplate", {"--tokenizer.chat_template=nils"}, 2, {"did you mean niels?"}},
    {"NoChatTemplate", {"--message=a", "--tokenizer.chat_template=none"}, 2, {"chat template"}},
    {"StageTwice", {"--sampler.chain=greedy,greedy"}, 2, {"named twice"}},
    {"PluginFolderMissing", {"--plugins.path=/nonexistent"}, 2, {"plugins.path", "/nonexistent"}},
    {"BannedId",
     {"--sampler.chain=banned_tokens", "--sampler.banned_tokens.ids=3,1024"},
     2,
     {"sampler.banned_tokens.ids", "1024"}},
    {"ModelMissing", {"--model.path=/nonexistent"}, 3, {"/nonexistent", "model.path"}},
    {"ModelIsNoModel", {"--model.path=/etc/passwd"}, 3, {"/etc/passwd", "must be \"GGUF\""}},
    {"TokenizerMissing", {"--tokenizer.path=/nonexistent"}, 3, {"/nonexistent"}},
    {"UnknownPlugin", {"--attention.name=flsh"}, 4, {"did you mean 'flash'?", "searched: /"}},
    {"UnknownStage", {"--sampler.chain=top_k,top_q"}, 4, {"sampler plugin 'top_q'"}},
    {"CodecThatCannotRun",
     {"--cache.codec=int4", "--attention.name=throws_in_worker",
      "--plugins.path=" NG_BINARY_DIR "/tests/fixtures/broken_plugins/throws_in_worker"},
     4,
     {"cache.codec = int4 (keys int8, values int4): ", "throws_in_worker",
      "can run: f32, bf16, f16"}},
    {"UnknownWeights",
     {"--model.weights=int3"},
     2,
     {"int3", "auto, f32, bf16, f16, int8, int4, mxfp4"}},
    {"OverTheContext",
     {"--message=a", "--run.max_new_tokens=253"},
     5,
     {"prompt 4 + max_new_tokens 253 = 257 > 256 T_max; lower run.max_new_tokens to 252"}},
    {"TwoToThe31st", {"--message=a", "--run.max_new_tokens=2147483648"}, 5, {"= 2147483652 > 256"}},
    {"LargestCount",
     {"--message=a", "--run.max_new_tokens=9223372036854775807"},
     5,
     {"= 9223372036854775811 > 256 T_max"}},
    {"OverTheCache",
     {"--message=a", "--cache.max_tokens=20"},
     5,
     {"prompt 4 + max_new_tokens 200 = 204 > 20 cache tokens; lower run.max_new_tokens to 16"}},
    {"CacheOverTheContext", {"--message=a", "--cache.max_tokens=257"}, 5, {"257", "T_max 256"}},
    {"StepsFolderMissing", {"--message=a", "--steps=/nonexistent/s"}, 7, {"/nonexistent/s"}},
    {"SaveFolderMissing", {"--message=a", "--save=/nonexistent/s"}, 7, {"/nonexistent/s"}},
};

INSTANTIATE_TEST_SUITE_P(All, CommandLineError, ::testing::ValuesIn(kCommandLines),
                         [](const auto& info) { return std::string(info.param.name); });

struct BadConfig {
  const char* name;
  const char* text;
  int exit_code;
  std::vector<std::string> parts;
};

void PrintTo(const BadConfig& bad, std::ostream* out) { *out << bad.name; }

class ConfigError : public ::testing::TestWithParam<BadConfig> {};

TEST_P(ConfigError, NamesTheFileAndTheLine) {
  const BadConfig& bad = GetParam();
  const TempDir temp;
  const Result result =
      NgRun({"--config", temp.Write("run.ini", bad.text), "--prompt-ids=1", "--dry-run"});
  ExpectError(result, bad.exit_code, bad.parts);
  EXPECT_THAT(result.err, HasSubstr(temp.path()));
  EXPECT_EQ(result.out, "");
}

const BadConfig kConfigs[] = {
    {"UnknownKey", "[run]\nthread = 2\n", 2, {"run.ini:2: ", "did you mean run.threads?"}},
    {"UnknownSection", "[runn]\nthreads = 2\n", 2, {"run.ini:2: ", "did you mean [run]?"}},
    {"WrongType", "[run]\n\nthreads = two\n", 2, {"run.ini:3: run.threads = two", "integer"}},
    {"OutOfRange", "[sampler]\nseed = -1\n", 2, {"run.ini:2: sampler.seed = -1", "[0, 2^63)"}},
    {"PluginOption", "[sampler]\ntop_k.k = 0\n", 2, {"run.ini:2: sampler.top_k.k = 0"}},
    {"KeyTwice", "[run]\nthreads = 1\nthreads = 2\n", 2, {"run.ini:3: ", "line 2"}},
    {"NoSection", "threads = 1\n", 2, {"run.ini:1: "}},
    {"NoAssignment", "[run]\nthreads\n", 2, {"run.ini:2: "}},
    {"SemicolonComment", "; hello\n", 2, {"run.ini:1: ", "'#'"}},
    {"ByteOrderMark", "\xEF\xBB\xBF[run]\n", 2, {"run.ini:1: ", "BOM"}},
    {"RelativeModelPath", "[model]\npath = nowhere\n", 3, {"/nowhere: "}},
};

INSTANTIATE_TEST_SUITE_P(All, ConfigError, ::testing::ValuesIn(kConfigs),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ConfigFile, MissingOrAFolderIsAUsageError) {
  ExpectError(NgRun({"--config=/nonexistent.ini"}), 2, {"/nonexistent.ini", "no such file"});
  ExpectError(NgRun({"--config=/tmp"}), 2, {"/tmp", "is a folder"});
  ExpectError(NgRun({"--config=/two\nlines"}), 2, {"/two lines"});
}

TEST(IsaVariable, IsRefusedWhenItNamesNoLevel) {
  ExpectError(Shell("NG_ISA=nonsense exec \"$NG\" \"$@\"", DemoTurn(1)), 2,
              {"NG_ISA = nonsense", "scalar"});
}

TEST(Arithmetic, IsRefusedWhereTheNamedLevelHasAnother) {
  ExpectError(NgRun(DemoTurn(1) + Arguments{"--run.arithmetic=exact"}), 2,
              {"--run.arithmetic=exact", "fastest, portable"});
  if (SupportedIsaLevels().back() != IsaLevel::kAvx512Bf16) GTEST_SKIP() << "no level of another";
  const Arguments portable = DemoTurn(1) + Arguments{"--run.arithmetic=portable"};
  const std::vector<std::string> parts = {
      " = avx512_bf16: its arithmetic is bf16_dot 1, and run.arithmetic = portable; allowed: auto, "
      "scalar, avx2"};
  ExpectError(NgRun(portable + Arguments{"--run.isa=avx512_bf16"}), 2, parts);
  ExpectError(Shell("NG_ISA=avx512_bf16 exec \"$NG\" \"$@\"", portable), 2, parts);
}

// A fault on the second line refuses the first one, too.
TEST(PromptsFile, IsRefusedAsAWholeNamingTheLine) {
  const TempDir temp;
  for (const auto& [line, exit_code, part] : std::vector<std::tuple<std::string, int, std::string>>{
           {"[1]", 2, "JSON object"},
           {"{}", 2, "one of \"prompt\", \"prompt_ids\", \"messages\""},
           {R"({"prompt": "x", "prompt_ids": [1]})", 2, "must have one of"},
           {R"({"prompt": 5})", 2, "must be a text"},
           {R"({"prompt": ""})", 2, "empty"},
           {R"({"prompt": "x", "prompt": "y"})", 2, "twice"},
           {R"({"prompt": "x", "max_new": 1})", 2, "\"max_new\""},
           {R"({"prompt": "x", "max_new_tokens": "3"})", 2, "must be an integer"},
           {R"({"prompt": "x", "max_new_tokens": 9223372036854775808})", 2, "2^63"},
           {R"({"prompt": "x", "max_new_tokens": 300})", 5, "> 256 T_max"},
           {R"({"prompt_ids": []})", 2, "empty"},
           {R"({"prompt_ids": [1.5]})", 2, "1.5"},
           {R"({"prompt_ids": [1024]})", 2, "[0, 1023]"},
           {"{\"prompt\": \"\xFF\"}", 2, "UTF-8"}}) {
    SCOPED_TRACE(line);
    const std::string file =
        temp.Write("p.jsonl", "{\"prompt\": \"To be\"}\n" + line + "\n{\"prompt\": \"or\"}\n");
    const Result result =
        NgRun(Demo() + Arguments{"--prompts", file, "--steps", temp.File("steps.jsonl")});
    ExpectError(result, exit_code, {file + ":2: ", part});
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(FilesIn(temp.path()), ElementsAre("p.jsonl"));
  }
  ExpectError(NgRun(Demo() + Arguments{"--prompts", temp.Write("e.jsonl", "")}), 2, {"no prompt"});
}

TEST(HardCap, HoldsAtTheContextCachedAndRecomputed) {
  const TempDir temp;
  const TinyNiels model;  // T_max 64
  model.WriteTo(temp.path());
  for (const Arguments& way : {Arguments{}, Arguments{"--run.use_cache=false"}}) {
    for (const int max_new : {59, 60}) {
      const Result result =
          NgRun(Greedy(temp.path(), "1 2 3 4", max_new) + way + Arguments{"--output=jsonl"});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(JsonLines(result.out).at(0)["ids"].size(), 4U + static_cast<size_t>(max_new));
    }
    const Result over = NgRun(Greedy(temp.path(), "1 2 3 4", 61) + way);
    ExpectError(over, 5, {"prompt 4 + max_new_tokens 61 = 65 > 64 T_max", " to 60"});
    EXPECT_EQ(over.out, "");
  }
}

TEST(TextPrompt, NeedsATokenizer) {
  const TempDir temp;
  const TinyNiels model;
  model.WriteTo(temp.path());
  ExpectError(NgRun({"--model.path=" + temp.path(), "--prompt=a"}), 2, {"has no tokenizer"});
}

class BadWeights : public ::testing::Test {
 protected:
  // A model in which all of a tensor's values are `value`.
  void Write(const std::string& tensor_name, float value) {
    TinyNiels().WriteTo(temp_.path(), Filling(tensor_name, value));
  }
  Result RunWith(const Arguments& more = {}) {
    return NgRun(Greedy(temp_.path(), "1 2 3", 4) + more);
  }
  TempDir temp_;
};

TEST_F(BadWeights, NanIsRefusedNamingTheTensor) {
  Write("blocks.1.mlp.fc_a.bias", NAN);
  const Result result = RunWith();
  ExpectError(result, 3, {"model.safetensors", "blocks.1.mlp.fc_a.bias"});
  EXPECT_EQ(result.out, "");
}

// The weights, which would be refused, are not read.
TEST_F(BadWeights, AreNotReadBeforeLimitsAndCombinationsAreChecked) {
  Write("blocks.1.mlp.fc_a.bias", NAN);
  ExpectError(RunWith({"--cache.name=paged", "--cache.paged.pool_tokens=60000000000"}), 5,
              {"needs ", " bytes", " are available"});
  ExpectError(
      RunWith({"--cache.codec=int8", "--attention.name=throws_in_worker",
               "--plugins.path=" NG_BINARY_DIR "/tests/fixtures/broken_plugins/throws_in_worker"}),
      4, {"can run: f32, bf16, f16"});
}

TEST_F(BadWeights, OverflowIsANumericFaultNamingStepAndLayer) {
  Write("blocks.1.mlp.fc_out.bias", 3e38F);
  Write("blocks.1.mlp.fc_out.weight", 3e38F);
  const Result result = RunWith({"--output=jsonl"});
  ExpectError(result, 6, {"step 0", "layer 1"});
  const std::vector<Json> lines = JsonLines(result.out);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["stop_reason"], "error");
  EXPECT_EQ(lines[0]["ids"], Json({1, 2, 3}));
}

TEST(UnwritableOutput, ExitsSevenAndLeavesNothingBehind) {
  const TempDir temp;
  for (const Arguments& output : {Arguments{"--steps=/dev/full"}, Arguments{"--save=/dev/full"},
                                  Arguments{"--steps", temp.path()}}) {
    ExpectError(NgRun(DemoTurn(3) + output), 7, {output.back().substr(output.back().find('/'))});
  }
  const Result kept = NgRun(DemoTurn(3) + Arguments{"--steps", temp.File("s"), "--save=/dev/full"});
  ExpectError(kept, 7, {"/dev/full"});
  EXPECT_THAT(FilesIn(temp.path()), ElementsAre("s"));  // whole: it could be written
  EXPECT_EQ(JsonLines(ReadFile(temp.File("s"))).size(), 3U);
}

TEST(UnwritableStdout, ExitsSeven) {
  for (const Arguments& arguments :
       {DemoTurn(3), DemoTurn(3) + Arguments{"--output=jsonl"}, Demo() + Arguments{"--dry-run"},
        Arguments{"--list-plugins"}, Arguments{"--help"}, Arguments{"--version"}}) {
    ExpectError(Shell("exec \"$NG\" \"$@\" >/dev/full", arguments), 7, {"stdout: cannot write"});
    ExpectError(Shell("exec \"$NG\" \"$@\" >&-", arguments), 7, {"stdout: cannot write"});
  }
}

// The reader closes its end, and only then the program begins.
TEST(UnwritableStdout, EndsQuietlyWhenItsReaderIsGone) {
  const TempDir temp;
  const Result result = Shell(
      "mkfifo \"$1/go\"\n"
      "{ read go <\"$1/go\"; shift; \"$NG\" \"$@\"; echo \"exit $?\" >&2; } |"
      "{ exec <&-; echo go >\"$1/go\"; }",
      Arguments{temp.path()} + DemoTurn(3));
  EXPECT_EQ(result.err, "exit 7\n");
}

// A file opened later must not take the place of a closed stream and receive what was meant for it.
TEST(ClosedStreams, DoNotSpillIntoOutputFiles) {
  const TempDir temp;
  const Result result =
      Shell("exec \"$NG\" \"$@\" <&- 2>&-", DemoTurn(3) + Arguments{"--steps", temp.File("s")});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(JsonLines(ReadFile(temp.File("s"))).size(), 3U);
}

}  // namespace
}  // namespace ng::test
