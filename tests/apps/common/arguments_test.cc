// The command lines that all programs share.
#include "apps/common/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/program_options.hpp>
#include <string>
#include <vector>

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

boost::program_options::options_description Options() {
  boost::program_options::options_description options;
  options.add_options()("config", boost::program_options::value<std::string>(), "")(
      "output", boost::program_options::value<std::string>()->default_value("text"), "")(
      "seed", boost::program_options::value<std::string>(), "")("chat", "");
  return options;
}

std::string ErrorOf(const std::vector<std::string>& arguments) {
  return std::string(ParseArguments(arguments, Options()).status().message());
}

TEST(ParseArguments, TakesOtherProgramsNamesForKeysWithTheirValues) {
  const auto parsed = ParseArguments(
      {"--temp", "0.2", "--run.threads=1", "--top_p=0.9", "--greedy", "--config", "x"}, Options());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->overrides, ElementsAre("temp=0.2", "run.threads=1", "top_p=0.9", "greedy="));
  EXPECT_EQ(parsed->values["config"].as<std::string>(), "x");
}

TEST(ParseArguments, OwnOptionsComeBeforeOtherProgramsNames) {
  const auto parsed = ParseArguments({"--seed", "5", "--conversation", "--json"}, Options());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->overrides.empty());
  EXPECT_EQ(parsed->values["seed"].as<std::string>(), "5");
  EXPECT_EQ(parsed->values.count("chat"), 1U);
  EXPECT_EQ(parsed->values["output"].as<std::string>(), "jsonl");
}

TEST(ParseArguments, SaysWhatIsMissingOrUnknown) {
  EXPECT_EQ(ErrorOf({"--temp"}), "--temp needs a value");
  EXPECT_THAT(ErrorOf({"--temprature", "1"}), HasSubstr("did you mean --temperature?"));
  EXPECT_THAT(ErrorOf({"--file", "x"}), HasSubstr("unknown option --file"));  // it has none
  EXPECT_THAT(ErrorOf({"--run.threads"}), HasSubstr("--run.threads=VALUE"));
  // Not that the value is a second model.
  EXPECT_THAT(ErrorOf({"model", "--prot", "1"}), HasSubstr("--prot; did you mean --port?"));
  EXPECT_THAT(ErrorOf({"model", "-z", "1"}), HasSubstr("'-z' does not belong"));
}

TEST(ParseArguments, TakesOneModel) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"a", "b"}, {"--model", "a", "b"}, {"b", "-m", "a"}, {"b", "--model.path=a"}}) {
    EXPECT_THAT(ErrorOf(arguments), HasSubstr("the model is '")) << arguments[0];
  }
  // With an option the last one counts, and a config is no model.
  EXPECT_TRUE(ParseArguments({"-m", "a", "-m", "b"}, Options()).ok());
  EXPECT_TRUE(ParseArguments({"my.ini", "-m", "a"}, Options()).ok());
  EXPECT_TRUE(ParseArguments({"a", "--model=my.ini"}, Options()).ok());
}

TEST(ParseArguments, TakesTextsBehindTheModel) {
  boost::program_options::options_description options = Options();
  options.add_options()("message", boost::program_options::value<std::string>());
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"m.gguf", "one", "--run.threads=1", "--", "-two"},
                                             {"-m", "m.gguf", "one", "--", "-two"},
                                             {"one", "--model", "m.gguf", "--", "-two"},
                                             {"one", "--model.path=m.gguf", "--", "-two"}}) {
    const auto parsed = ParseArguments(arguments, options);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_THAT(parsed->texts, ElementsAre("one", "-two"));
  }
  const auto config = ParseArguments({"--config", "my.ini", "m.gguf"}, options);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->overrides, ElementsAre("model.path=m.gguf"));
}

TEST(ParseArguments, TakesOtherProgramsLettersWithOneDash) {
  const auto parsed = ParseArguments({"m.gguf", "-np", "4", "-t=2", "-p", "80", "-c"}, Options());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->overrides, ElementsAre("model.path=m.gguf", "np=4", "t=2", "p=80"));
  EXPECT_EQ(parsed->values.count("chat"), 1U);  // the program's own option comes first
  EXPECT_EQ(ErrorOf({"-np"}), "-np needs a value");
}

TEST(ParseArguments, LettersMeanTheOptionsThatAProgramHas) {
  boost::program_options::options_description bench;
  bench.add_options()("prompt-tokens", boost::program_options::value<std::string>(), "")(
      "decode-tokens", boost::program_options::value<std::string>(), "");
  const auto parsed = ParseArguments({"-p", "128", "-n", "32"}, bench);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->values["prompt-tokens"].as<std::string>(), "128");
  EXPECT_EQ(parsed->values["decode-tokens"].as<std::string>(), "32");
  EXPECT_TRUE(parsed->overrides.empty());
}

TEST(ParseArguments, BehindTwoDashesIsNoOption) {
  const auto parsed = ParseArguments({"--temp", "1", "--", "--temp"}, Options());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->overrides, ElementsAre("model.path=--temp", "temp=1"));
}

TEST(TakesValue, IsKnownOfOptionsAndOtherProgramsNames) {
  const auto options = Options();
  for (const char* name : {"config", "temp", "seed", "ctx_size"}) {
    EXPECT_TRUE(TakesValue(name, options)) << name;
  }
  for (const char* name : {"chat", "greedy", "json", "cnv", "nothing"}) {
    EXPECT_FALSE(TakesValue(name, options)) << name;
  }
  EXPECT_TRUE(IsSpelling("cnv", options));
  EXPECT_FALSE(IsSpelling("config", options));
}

}  // namespace
}  // namespace ng
