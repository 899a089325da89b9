#include "core/text/chat/template_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_replace.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

// ChatML's, with what a model may put in front of a conversation that has no system text.
std::string ChatMl(const std::string& in_front = "") {
  return "{% for message in messages %}" + in_front +
         "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
         "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
}
std::string WithSystem(const std::string& system) {
  return ChatMl("{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n" +
                system + "<|im_end|>\n' }}{% endif %}");
}

TEST(RecogniseTemplate, KnowsPublishedOnesByteForByte) {
  ASSERT_TRUE(RecogniseTemplate(ChatMl()));
  EXPECT_EQ(RecogniseTemplate(ChatMl())->name, "chatml");
  EXPECT_EQ(RecogniseTemplate(ChatMl())->default_system, "");
  EXPECT_FALSE(RecogniseTemplate(ChatMl() + "\n"));
  EXPECT_FALSE(RecogniseTemplate(ChatMl().substr(1)));
  EXPECT_FALSE(RecogniseTemplate(""));
}

TEST(RecogniseTemplate, TakesEscapedLineEndsForTheSame) {
  for (const std::string& text : {ChatMl(), WithSystem("You are a helpful assistant.")}) {
    EXPECT_TRUE(RecogniseTemplate(absl::StrReplaceAll(text, {{"\n", "\\n"}}))) << text;
  }
}

TEST(RecogniseTemplate, KnowsWhatTheySayWithoutASystemText) {
  for (const char* const system :
       {"You are a helpful assistant", "You are a helpful assistant.",
        "You are a helpful AI assistant named SmolLM, trained by Hugging Face"}) {
    const auto known = RecogniseTemplate(WithSystem(system));
    ASSERT_TRUE(known) << system;
    EXPECT_EQ(known->name, "chatml");
    EXPECT_EQ(known->default_system, system);
  }
  EXPECT_FALSE(RecogniseTemplate(WithSystem("You are a pirate.")));
}

TEST(FindTemplateMetadata, ReadsTheKeyOfAGgufFile) {
  const test::TempDir folder;
  const auto find = [&](const test::GgufBuilder& keys) {
    return FindTemplateMetadata(OpenGguf(folder.Write("m.gguf", keys.Bytes())).value().metadata);
  };
  EXPECT_EQ(find(test::GgufBuilder().Text("tokenizer.chat_template", ChatMl())).value(),
            (TemplateMetadata{folder.File("m.gguf"), ChatMl()}));
  EXPECT_EQ(find(test::GgufBuilder()).value(), std::nullopt);
  EXPECT_THAT(find(test::GgufBuilder().U32("tokenizer.chat_template", 7)).status().message(),
              HasSubstr("tokenizer.chat_template"));
}

TEST(FindTemplateMetadata, ReadsTheConfigOrTheJinjaFile) {
  const test::TempDir folder;
  const auto text = [&] { return FindTemplateMetadata(folder.path()).value()->text; };
  EXPECT_EQ(FindTemplateMetadata(folder.path()).value(), std::nullopt);
  folder.Write("tokenizer_config.json", "{\"eos_token\": \"</s>\"}");
  EXPECT_EQ(FindTemplateMetadata(folder.path()).value(), std::nullopt);
  const std::string config =
      folder.Write("tokenizer_config.json", nlohmann::json{{"chat_template", "a\n"}}.dump());
  EXPECT_EQ(text(), "a\n");
  EXPECT_EQ(FindTemplateMetadata(folder.path()).value()->path, config);
  folder.Write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "t"},
                                     {"name": "default", "template": "d"}]})");
  EXPECT_EQ(text(), "d");
  folder.Write("chat_template.jinja", "j");
  EXPECT_EQ(text(), "j") << "the newer form counts";
}

TEST(FindTemplateMetadata, RefusesWhatItCannotRead) {
  const test::TempDir folder;
  for (const char* const config : {"{", "[]", "{\"chat_template\": 3}", "{\"chat_template\": [3]}",
                                   "{\"chat_template\": [{\"template\": \"t\"}]}"}) {
    folder.Write("tokenizer_config.json", config);
    const absl::Status status = FindTemplateMetadata(folder.path()).status();
    EXPECT_EQ(ExitCode(status), 3) << config;
    EXPECT_THAT(std::string(status.message()), HasSubstr("tokenizer_config.json"));
  }
}

}  // namespace
}  // namespace ng
