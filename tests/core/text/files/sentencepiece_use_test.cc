// SentencePiece folders as published models have them: ids equal transformers'.
#include "core/text/files/sentencepiece_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/text/chat/jinja_chat.h"
#include "core/text/files/open_tokenizer.h"
#include "core/text/sentencepiece/sentencepiece_library.h"
#include "ng/tokenizer.h"
#include "tests/core/text/golden_rows.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kLayouts[] = NG_TEST_DATA "/tokenizers/layouts/";
constexpr char kModel[] = NG_TEST_DATA "/tokenizers/spm_bpe_llama/tokenizer.model";

// A copy of one of the layouts, with its model.
class Folder {
 public:
  explicit Folder(const std::string& layout) {
    fs::copy(kLayouts + layout, dir_.path());
    if (!fs::exists(dir_.File("tokenizer.model"))) fs::copy(kModel, dir_.path());
  }

  const std::string& path() const { return dir_.path(); }
  void Remove(const char* name) const { fs::remove(dir_.File(name)); }
  void Write(const char* name, const json& value) const { dir_.Write(name, value.dump()); }
  json Read(const char* name) const { return json::parse(test::Slurp(dir_.File(name))); }
  void Set(const char* name, const char* pointer, const json& value) const {
    json file = Read(name);
    file[json::json_pointer(pointer)] = value;
    Write(name, file);
  }

  std::unique_ptr<Tokenizer> Open(std::vector<std::string>* warnings = nullptr) const {
    KeyPolicy policy(false, {}, [&](std::string_view line) {
      if (warnings != nullptr) warnings->emplace_back(line);
    });
    auto tokenizer = OpenTokenizer(path(), policy);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
  }
  // What is said when it is refused.
  std::string Refusal() const {
    const absl::Status status = OpenTokenizer(path()).status();
    EXPECT_EQ(ExitCode(status), status.ok() ? 0 : 3) << status;
    return std::string(status.message());
  }

 private:
  test::TempDir dir_;
};

Ids PromptIds(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.Encode(text, {.add_special = tokenizer.knows_ends()}).value();
}

class Layout : public testing::TestWithParam<std::string> {};

// Each row of a layout, by the tokenizer that the folder has.
void ExpectEveryRow(const Folder& folder, const std::string& layout) {
  std::vector<std::string> warnings;
  const auto tokenizer = folder.Open(&warnings);
  ASSERT_NE(tokenizer, nullptr);
  if (layout == "llama_json_counts") {
    EXPECT_THAT(warnings, ElementsAre(HasSubstr("add_bos_token = false is not what")));
  } else {
    EXPECT_THAT(warnings, IsEmpty());
  }
  for (const json& row : GoldenRows("tokenizers/layouts/" + layout + "/cases.jsonl")) {
    if (row.contains("message")) {
      const json message = {{{"role", "user"}, {"content", row["message"]}}};
      // The named template, and the folder's own.
      for (const std::string& name : {row["template"].get<std::string>(), std::string("auto")}) {
        const auto chat = BindChatTemplate(FindTemplateMetadata(folder.path()).value(), *tokenizer,
                                           {.chat_template = name});
        ASSERT_TRUE(chat.ok()) << chat.status();
        EXPECT_EQ((*chat)->Encode({.messages = message.dump()}).value(), Ids(row["ids"]))
            << name << " of " << row["message"];
      }
      continue;
    }
    EncodeOptions options = OptionsOf(row);
    options.add_special = tokenizer->knows_ends();
    EXPECT_EQ(tokenizer->Encode(row["text"].get<std::string>(), options).value(), Ids(row["ids"]))
        << row["text"];
  }
}

TEST_P(Layout, GivesTheIdsOfTransformers) { ExpectEveryRow(Folder(GetParam()), GetParam()); }

TEST_P(Layout, GivesTheSameIdsWithoutItsModelFile) {
  const Folder folder(GetParam());
  folder.Remove("tokenizer.model");
  if (fs::exists(folder.path() + "/tokenizer.json")) ExpectEveryRow(folder, GetParam());
}

TEST_P(Layout, IsTheSameByItsFile) {
  const Folder folder(GetParam());
  const auto tokenizer = OpenTokenizer(folder.path() + "/tokenizer.model").value();
  EXPECT_EQ(PromptIds(*tokenizer, "Hello"), PromptIds(*folder.Open(), "Hello"));
}

std::vector<std::string> LayoutNames() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kLayouts)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}
INSTANTIATE_TEST_SUITE_P(Published, Layout, testing::ValuesIn(LayoutNames()),
                         [](const auto& info) { return info.param; });

TEST(SentencePieceUse, SaysNothingOfEndsWithoutFiles) {
  const Folder folder("llama2_no_json");
  for (const char* const name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    folder.Remove(name);
  }
  const auto tokenizer = folder.Open();
  EXPECT_FALSE(tokenizer->knows_ends());
  EXPECT_EQ(ExitCode(tokenizer->Encode("a", {.add_special = true}).status()), 2);
}

TEST(SentencePieceUse, WarnsWhereNoFileSaysWhatBeginsAText) {
  const Folder folder("llama2_no_json");
  json config = folder.Read("tokenizer_config.json");
  config.erase("add_bos_token");
  folder.Write("tokenizer_config.json", config);
  std::vector<std::string> warnings;
  EXPECT_EQ(PromptIds(*folder.Open(&warnings), "Hello")[0], 332) << "as transformers 5 does";
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("does not say add_bos_token")));
}

TEST(SentencePieceUse, AddsTokensBeyondTheModels) {
  const Folder folder("llama2_no_json");
  folder.Write("added_tokens.json", {{"<|im_end|>", 800}, {"plain", 801}});
  folder.Set("special_tokens_map.json", "/additional_special_tokens", {"<|im_end|>"});
  const auto tokenizer = folder.Open();
  EXPECT_EQ(tokenizer->vocab_size(), 802);
  EXPECT_EQ(tokenizer->n_added(), 2);
  EXPECT_EQ(tokenizer->SpecialId("<|im_end|>"), 800);
  EXPECT_EQ(tokenizer->TokenBytes(800), "");
  EXPECT_EQ(tokenizer->TokenBytes(801), "plain");
  const Ids ids = tokenizer->Encode("<|im_end|>plain", {.parse_special = true}).value();
  EXPECT_THAT(ids, ElementsAre(800, 801));
  const Ids typed = tokenizer->Encode("<|im_end|>", {}).value();
  EXPECT_EQ(std::count(typed.begin(), typed.end(), 800), 0);
  EXPECT_EQ(tokenizer->Decode(ids).value(), "plain");
}

TEST(SentencePieceUse, RefusesByNameWhatItCannotFollow) {
  struct Case {
    const char* file;
    const char* pointer;
    json value;
    const char* part;
  };
  for (const Case& wrong : std::vector<Case>{
           {"tokenizer_config.json", "/do_lower_case", true, "key \"do_lower_case\" = true"},
           {"tokenizer_config.json", "/add_bos_token", 1, "key \"add_bos_token\" = 1"},
           {"tokenizer_config.json", "/added_tokens_decoder/2/content", "</x>", "has the id 2"},
           {"tokenizer_config.json", "/added_tokens_decoder/2/lstrip", true, "is not described as"},
           {"tokenizer.json", "/model/dropout", 0.5, "model.dropout = 0.5"},
           {"tokenizer.json", "/model/byte_fallback", false, "model.byte_fallback = false"},
           {"tokenizer.json", "/model/ignore_merges", true, "model.ignore_merges = true"},
           {"tokenizer.json", "/model/vocab/Hello", 5, "model.vocab[\"Hello\"]"},
           {"tokenizer.json", "/pre_tokenizer", {{"type", "Whitespace"}}, "pre_tokenizer.type"},
           {"tokenizer.json", "/normalizer", {{"type", "Lowercase"}}, "normalizer"},
           {"tokenizer.json",
            "/post_processor",
            {{"type", "BertProcessing"}},
            "post_processor.type"}}) {
    SCOPED_TRACE(wrong.pointer);
    const Folder folder("mistral_v02");
    folder.Set(wrong.file, wrong.pointer, wrong.value);
    EXPECT_THAT(folder.Refusal(), HasSubstr(wrong.part));
    EXPECT_THAT(folder.Refusal(), HasSubstr(wrong.file));
  }
}

TEST(SentencePieceUse, NamesKeysThatNobodyKnows) {
  const Folder folder("mistral_v02");
  folder.Set("tokenizer_config.json", "/frobnicate", 1);
  folder.Set("tokenizer.json", "/model/frobnicate", 1);
  std::vector<std::string> warnings;
  folder.Open(&warnings);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("nobody reads this key: frobnicate"),
                                    HasSubstr("nobody reads this key: model.frobnicate")));
  KeyPolicy strict(true, {}, {});
  EXPECT_EQ(ExitCode(OpenTokenizer(folder.path(), strict).status()), 3);
}

// What counts a text's tokens stops where they are too many, and says no more of it.
TEST(SentencePieceUse, StopsBehindTheMostIdsThatAreOfUse) {
  const auto tokenizer = Folder("llama2_no_json").Open();
  for (const std::string& text : {Megabyte("many words "), Megabyte("x"), Megabyte("\U0001f600")}) {
    const Ids some = tokenizer->Encode(text, {.most = 1000}).value();
    EXPECT_GT(some.size(), 1000U);
    EXPECT_LT(some.size(), 200000U) << "but not all";
  }
  const std::string text = Megabyte("many words in a row ");
  EXPECT_EQ(tokenizer->Encode(text, {.most = 10000000}).value(),
            tokenizer->Encode(text, {}).value());
}

// In parts as in one: the library by itself has the model's ids of a text of any length.
TEST(SentencePieceUse, EncodesLongTextsInPartsAsAWhole) {
  SentencePieceLibrary library;
  ASSERT_EQ(library.Load(test::Slurp(kModel)), "");
  const auto tokenizer = OpenTokenizer(kModel).value();
  for (const std::string unit : {"many words ", "a  b   c\n d", " x", "\u2581y z", "\U0001f600 "}) {
    const std::string text = Megabyte(unit).substr(0, 300000 / unit.size() * unit.size());
    Ids whole;
    ASSERT_EQ(library.Encode(text, &whole), "");
    EXPECT_EQ(tokenizer->Encode(text, {}).value(), whole) << unit;
  }
}

}  // namespace
}  // namespace ng
