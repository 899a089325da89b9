#include "core/text/chat/template_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/gguf_builder.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

using Tokens = std::map<std::string, std::string>;
using NamedSources = std::map<std::string, TemplateSource, std::less<>>;

TEST(FindTemplateMetadata, ReadsTheKeysOfAGgufFile) {
  const test::TempDir folder;
  const auto find = [&](const test::GgufBuilder& keys) {
    return FindTemplateMetadata(OpenGguf(folder.Write("m.gguf", keys.Bytes())).value().metadata);
  };
  const auto found =
      find(test::GgufBuilder()
               .Text("tokenizer.chat_template", "a")
               .Text("tokenizer.chat_template.tool_use", "t")
               .Text("tokenizer.chat_template.rag", "r")
               .Array("tokenizer.chat_templates", GgufType::kText, 2,
                      test::RawText("tool_use") + test::RawText("rag"))
               .Array("tokenizer.ggml.tokens", GgufType::kText, 3,
                      test::RawText("u") + test::RawText("<s>") + test::RawText("</s>"))
               .U32("tokenizer.ggml.bos_token_id", 1)
               .U32("tokenizer.ggml.eos_token_id", 2));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->own, (TemplateSource{folder.File("m.gguf"), "a"}));
  EXPECT_EQ(found->named, (NamedSources{{"rag", {folder.File("m.gguf"), "r"}},
                                        {"tool_use", {folder.File("m.gguf"), "t"}}}));
  EXPECT_EQ(found->special_tokens, (Tokens{{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
  EXPECT_EQ(FindTemplateMetadataOf(folder.File("m.gguf")).value().own, found->own);
  EXPECT_EQ(find(test::GgufBuilder()).value().own, std::nullopt);
  EXPECT_THAT(find(test::GgufBuilder().U32("tokenizer.chat_template", 7)).status().message(),
              HasSubstr("tokenizer.chat_template"));
  EXPECT_THAT(find(test::GgufBuilder().U32("tokenizer.chat_template.rag", 7)).status().message(),
              HasSubstr("tokenizer.chat_template.rag"));
  EXPECT_THAT(find(test::GgufBuilder().U32("tokenizer.chat_templates", 7)).status().message(),
              HasSubstr("tokenizer.chat_templates"));
}

TEST(FindTemplateMetadata, ReadsTheConfigOrTheJinjaFile) {
  const test::TempDir folder;
  const auto text = [&] { return FindTemplateMetadata(folder.path()).value().own->text; };
  EXPECT_EQ(FindTemplateMetadata(folder.path()).value().own, std::nullopt);
  folder.Write("tokenizer_config.json", R"({"eos_token": "</s>", "pad_token": null})");
  EXPECT_EQ(FindTemplateMetadata(folder.path()).value().own, std::nullopt);
  EXPECT_EQ(FindTemplateMetadata(folder.path()).value().special_tokens,
            (Tokens{{"eos_token", "</s>"}}));
  folder.Write("special_tokens_map.json", R"({"eos_token": "x", "bos_token": {"content": "<s>"}})");
  EXPECT_EQ(FindTemplateMetadata(folder.path()).value().special_tokens,
            (Tokens{{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
  const std::string config =
      folder.Write("tokenizer_config.json", nlohmann::json{{"chat_template", "a\n"}}.dump());
  EXPECT_EQ(text(), "a\n");
  EXPECT_EQ(FindTemplateMetadata(folder.path()).value().own->path, config);
  folder.Write("tokenizer.model", "");
  EXPECT_EQ(FindTemplateMetadataOf(folder.File("tokenizer.model")).value().own->path, config);
  folder.Write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "rag", "template": "r"}, {"name": "no"},
                                     {"name": "default", "template": "d"}]})");
  EXPECT_EQ(text(), "d");
  EXPECT_EQ(FindTemplateMetadata(folder.path()).value().named,
            (NamedSources{{"rag", {config, "r"}}, {"tool_use", {config, "t"}}}));
  folder.Write("chat_template.jinja", "j");
  EXPECT_EQ(text(), "j") << "the newer form counts";
  EXPECT_EQ(FindTemplateMetadata(folder.path()).value().named, NamedSources());
  std::filesystem::create_directory(folder.File("additional_chat_templates"));
  const std::string tools = folder.Write("additional_chat_templates/tool_use.jinja", "jt");
  folder.Write("additional_chat_templates/readme.txt", "x");
  EXPECT_EQ(FindTemplateMetadata(folder.path()).value().named,
            (NamedSources{{"tool_use", {tools, "jt"}}}));
  std::filesystem::remove(folder.File("chat_template.jinja"));
  EXPECT_EQ(FindTemplateMetadata(folder.path()).value().own, std::nullopt)
      << "what the config has does not count beside files";
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
