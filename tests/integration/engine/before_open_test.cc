// What a program can ask without a model: the config, the plugins, a tokenizer, checks of its
// files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ng/engine.h"
#include "ng/files.h"
#include "ng/json.h"
#include "ng/tokenizer.h"
#include "tests/support/message.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using test::TempDir;
using ::testing::HasSubstr;

TEST(BeforeOpen, TheConfigIsReadWithTheOptionsOfItsPlugins) {
  EngineOptions options;
  options.overrides = {"sampler.chain=top_k", "sampler.top_k.k=7"};
  const auto config = Engine::ReadConfig(options);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->Int("sampler.top_k.k"), 7);
  EXPECT_EQ(config->Origin("sampler.top_k.k").ToString(), "command line");
  EXPECT_TRUE(config->IsDefault("run.threads"));
  EXPECT_THAT(config->Help(), HasSubstr("\n  sampler.top_k.k = "));
  EXPECT_TRUE(std::ranges::any_of(config->items(), [](const ConfigItem& item) {
    return item.declared.key == "cache.codec" && item.value.text == "f32";
  }));

  options.overrides = {"sampler.top_k.kk=7"};
  EXPECT_EQ(ExitCode(Engine::ReadConfig(options).status()), 2);
}

TEST(BeforeOpen, ThePluginsAreListed) {
  auto plugins = Engine::FindPlugins({});
  ASSERT_TRUE(plugins.ok()) << plugins.status();
  EXPECT_TRUE(std::ranges::any_of(plugins->files(), [](const PluginFile& file) {
    return file.kind == "sampler" && file.name == "greedy";
  }));
  const auto top_k = plugins->Load("sampler", "top_k");
  ASSERT_TRUE(top_k.ok()) << top_k.status();
  EXPECT_THAT(OptionHelp(*top_k), HasSubstr("sampler.top_k.k"));
}

TEST(BeforeOpen, ATokenizerNeedsNoModel) {
  const auto tokenizer = OpenTokenizer(NG_TEST_DATA "/tokenizers/spm_unigram");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto ids = (*tokenizer)->Encode("Hello", {});
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ((*tokenizer)->Decode(*ids).value(), "Hello");
}

TEST(BeforeOpen, NoOutputOverwritesAnInputOrAnotherOutput) {
  const TempDir folder;
  const std::string text = folder.Write("text", "abc");
  const InputLog inputs;
  EXPECT_EQ(ReadText(text, 10, nullptr).value(), "abc");
  const auto check = [&](std::vector<NamedOutput> outputs) {
    return CheckOutputs(outputs, inputs);
  };
  EXPECT_TRUE(check({{"--save", folder.File("a")}, {"--steps", ""}}).ok());
  EXPECT_THAT(Message(check({{"--save", text}})), HasSubstr("would overwrite an input"));
  EXPECT_THAT(Message(check({{"--a", folder.File("x")}, {"--b", folder.File("x")}})),
              HasSubstr("--a and --b name one file"));
}

TEST(BeforeOpen, JsonThatALibraryWouldTakeIsRefused) {
  EXPECT_TRUE(CheckJson("{\"a\": [1]}", "line 3", 2).ok());
  for (const char* const text :
       {"{\"a\": [1]}]", "{\"a\": 1, \"a\": 2}", "[[[1]]]", "\xEF\xBB\xBF{}"}) {
    EXPECT_THAT(Message(CheckJson(text, "line 3", 2)), HasSubstr("line 3: ")) << text;
  }
}

}  // namespace
}  // namespace ng
