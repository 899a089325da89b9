// What the programs say of themselves: man pages, and completion in bash as a user has it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ng/exit_codes.h"
#include "tests/integration/run_support.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> Programs() {
  std::vector<std::string> programs;
  for (const std::string& file : FilesIn(NG_BINARY_DIR "/bin")) {
    if (file.starts_with("ng-")) programs.push_back(file);
  }
  EXPECT_THAT(programs, IsSupersetOf({"ng-run", "ng-plan", "ng-tokenize"}));
  return programs;
}

Result RunProgram(const std::string& program, const Arguments& arguments) {
  Command command;
  command.program = program;
  command.arguments = arguments;
  return Run(command);
}

// All that `pattern` finds in the text.
std::set<std::string> Found(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  return {std::sregex_token_iterator(text.begin(), text.end(), regex, 1),
          std::sregex_token_iterator()};
}

// The words to which bash completes the last of `words`; "=" is a word of its own there.
std::vector<std::string> Completed(const std::string& words) {
  static const TempDir dir;
  static const std::string script = dir.Write("ng-run.bash", NgRun({"--completion", "bash"}).out);
  const Result result = RunProgram(
      "/bin/bash", {"-c", absl::StrCat("source ", script, " && COMP_WORDS=(", words,
                                       ") && COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) && _ng_run; "
                                       "printf '%s\\n' \"${COMPREPLY[@]}\"")});
  EXPECT_EQ(result.err, "");
  return absl::StrSplit(absl::StripTrailingAsciiWhitespace(result.out), '\n');
}

TEST(Completion, KnowsOptionsSectionsKeysAndValuesInBash) {
  EXPECT_THAT(Completed("ng-run --conf"), ElementsAre("--config"));
  EXPECT_THAT(Completed("ng-run --sa"), IsSupersetOf({"--save", "--sampler."}));
  EXPECT_THAT(Completed("ng-run --cache.cod"),
              ElementsAre("--cache.codec=", "--cache.codec_k=", "--cache.codec_v="));
  EXPECT_THAT(Completed("ng-run --cache.codec = f"), ElementsAre("f32", "f16"));
  EXPECT_THAT(Completed("ng-run --run.use_cache ="), ElementsAre("true", "false"));
  EXPECT_THAT(Completed("ng-run --output j"), ElementsAre("jsonl"));
  EXPECT_THAT(Completed("ng-run --against cache.codec_"),
              ElementsAre("cache.codec_k=", "cache.codec_v="));
  EXPECT_THAT(Completed("ng-run --prompt x"), ElementsAre(""));
  // Where bash does not split at '='.
  EXPECT_THAT(Completed("ng-run --cache.codec=b"), ElementsAre("--cache.codec=bf16"));
}

TEST(Completion, KnowsPluginsAndTheirOptionsInBash) {
  EXPECT_THAT(Completed("ng-run --attention.name ="), IsSupersetOf({"flash", "reference"}));
  EXPECT_THAT(Completed("ng-run --sampler.chain = temperature,top_"),
              IsSupersetOf({"temperature,top_k", "temperature,top_p"}));
  EXPECT_THAT(Completed("ng-run --sampler.dry.m"), ElementsAre("--sampler.dry.multiplier="));
}

TEST(Completion, FindsFilesOfModelsInBash) {
  const TempDir dir;
  const std::string model = dir.Write("some model.gguf", "");
  const std::string begin = dir.File("some");
  for (const char* option : {"--model.path =", "--config", "-m", ""}) {
    EXPECT_THAT(Completed(absl::StrCat("ng-run ", option, " ", begin)), ElementsAre(model))
        << option;
  }
}

TEST(Completion, IsRefusedForAnotherShell) {
  ExpectError(NgRun({"--completion", "tcsh"}), 2, {"tcsh", "must be bash, zsh or fish"});
  ExpectError(NgRun({"--completion=bash", "--config=/no/such.ini"}), 2, {"/no/such.ini"});
}

TEST(Completion, HasAScriptForEachShellAndProgram) {
  for (const std::string& program : Programs()) {
    for (const char* shell : {"bash", "zsh", "fish"}) {
      const Result script = RunProgram(program, {"--completion", shell});
      EXPECT_EQ(script.exit_code, 0) << script.err;
      EXPECT_THAT(script.out, HasSubstr(program));
      EXPECT_THAT(script.out, HasSubstr("man-page"));
    }
  }
}

TEST(ManPage, DescribesEveryOptionOfTheProgram) {
  for (const std::string& program : Programs()) {
    const Result page = RunProgram(program, {"--man-page"});
    EXPECT_EQ(page.exit_code, 0) << page.err;
    EXPECT_THAT(page.out, StartsWith(".TH "));
    const std::string text = absl::StrReplaceAll(page.out, {{"\\-", "-"}, {"\\fB", ""}});
    const Arguments help = program == "ng-run" ? Arguments{"--help", "all"} : Arguments{"--help"};
    const std::set<std::string> options =
        Found(RunProgram(program, help).out, "\n  (--[a-z][a-zA-Z.-]*)");
    EXPECT_THAT(options, Contains("--man-page"));
    for (const std::string& option : options)
      EXPECT_THAT(text, HasSubstr("\n" + option)) << program;
  }
}

TEST(ManPage, DescribesEveryKeyAndPlugin) {
  const std::string page =
      absl::StrReplaceAll(NgRun({"--man-page"}).out, {{"\\-", "-"}, {"\\fB", ""}, {"\\fR", ""}});
  std::set<std::string> keys = Found(NgRun({"--list-plugins"}).out, "\n *([a-z]+[.][a-z_.]+) =");
  EXPECT_THAT(keys, Contains("sampler.dry.multiplier"));
  keys.merge(Found(NgRun({"--help", "all"}).out, "\n  ([a-z]+[.][a-z_.]+) ="));
  EXPECT_THAT(keys, Contains("run.threads"));
  for (const std::string& key : keys) EXPECT_THAT(page, HasSubstr("\n" + key + " ="));
  for (const std::string& plugin :
       Found(NgRun({"--list-plugins"}).out, "(?:^|\n)([a-z]+ [a-z_]+) ")) {
    EXPECT_THAT(page, HasSubstr("\n.SS " + plugin + "\n"));
  }
}

TEST(ManPage, HasTheExitCodesOfTheReadme) {
  const std::string page = absl::StrReplaceAll(NgRun({"--man-page"}).out, {{"\\-", "-"}});
  const std::string readme =
      absl::StrReplaceAll(ReadFile(NG_SOURCE_DIR "/apps/run/README.md"), {{"`", ""}});
  for (const ExitMeaning& exit : ExitMeanings()) {
    const std::string meaning(exit.meaning);
    EXPECT_THAT(page, HasSubstr(absl::StrCat("\n.B ", exit.code, "\n", meaning, "\n")));
    EXPECT_THAT(readme, HasSubstr(absl::StrCat("\n| ", exit.code, " | ", meaning, " |\n")));
  }
}

// Text that roff would take for a command of its own.
TEST(ManPage, HasNoCommandsButItsOwn) {
  for (const std::string& program : Programs()) {
    std::istringstream lines(RunProgram(program, {"--man-page"}).out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_THAT(line, Not(StartsWith("'")));
      if (!line.starts_with('.')) continue;
      EXPECT_TRUE(std::regex_search(line, std::regex("^[.](TH|SH|SS|TP|PP|B|BR|br|nf|fi)( |$)")))
          << line;
    }
  }
}

}  // namespace
}  // namespace ng::test
