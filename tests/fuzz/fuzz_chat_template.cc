// What lies beside a tokenizer: a tokenizer_config.json (an input that begins with '{'), with its
// chat template and more, or a chat_template.jinja (any other), which is run. The same bytes are
// then said in conversations of every named template: nobody can say a token that opens or closes a
// turn.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/text/chat/jinja_chat.h"
#include "core/text/chat/template_metadata.h"
#include "core/text/files/companions.h"
#include "core/text/files/tokenizer_json.h"
#include "tests/fuzz/support.h"

namespace {

namespace fs = std::filesystem;
using ng::fuzz::Check;
using ng::fuzz::CheckError;

constexpr const char* kSpecials[] = {"<s>",
                                     "</s>",
                                     "[INST]",
                                     "[/INST]",
                                     "<|im_start|>",
                                     "<|im_end|>",
                                     "<|begin_of_text|>",
                                     "<|start_header_id|>",
                                     "<|end_header_id|>",
                                     "<|eot_id|>"};

// A folder in which one file is the input.
class Folder {
 public:
  Folder(const std::string& input, const char* name)
      : path_(fs::temp_directory_path() / ("ng-fuzz-" + std::to_string(getpid()) + "-" + name)) {
    fs::create_directories(path_);
    fs::create_symlink(input, path_ / name);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const std::string& path() const { return path_.native(); }

 private:
  fs::path path_;
};

// Byte-level, with the special tokens of every template but niels'.
std::unique_ptr<ng::Tokenizer> MakeTokenizer() {
  // GPT-2's characters for bytes: those that print stand for themselves, the others follow 255.
  nlohmann::json vocabulary;
  int n_others = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    const int c = prints ? byte : 256 + n_others++;
    const std::string utf8 = c < 0x80 ? std::string(1, static_cast<char>(c))
                                      : std::string{static_cast<char>(0xC0 | c >> 6),
                                                    static_cast<char>(0x80 | (c & 0x3F))};
    vocabulary[utf8] = byte;
  }
  nlohmann::json added = nlohmann::json::array();
  for (const char* special : kSpecials) {
    added.push_back({{"id", 256 + added.size()},
                     {"content", special},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const nlohmann::json byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", false},
                                     {"trim_offsets", true},
                                     {"use_regex", true}};
  const nlohmann::json tokenizer = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"pre_tokenizer", byte_level},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
  auto made = ng::ReadTokenizerJson(tokenizer.dump(), "tokenizer.json");
  Check(made.ok(), std::string(made.status().message()));
  return *std::move(made);
}

// How many special tokens there are in a turn.
int64_t CountSpecials(const absl::StatusOr<std::vector<int32_t>>& ids) {
  Check(ids.ok(), std::string(ids.status().message()));
  return std::count_if(ids->begin(), ids->end(), [](int32_t id) { return id >= 256; });
}

const ng::Tokenizer& TheTokenizer() {
  static const std::unique_ptr<ng::Tokenizer> tokenizer = MakeTokenizer();
  return *tokenizer;
}

// The user says `said` after `system`, and again after an answer.
absl::StatusOr<std::vector<int32_t>> Encode(const ng::ChatTemplate& chat, std::string_view system,
                                            std::string_view said) {
  using Json = nlohmann::ordered_json;
  const auto message = [](const char* role, std::string_view content) {
    return Json{{"role", role}, {"content", content}};
  };
  const Json messages = Json::array({message("system", system), message("user", said),
                                     message("assistant", said), message("user", said)});
  return chat.Encode({.messages = messages.dump(-1, ' ', false, Json::error_handler_t::replace)});
}

// A template that is made once, and how many special tokens a conversation has with it.
struct NamedTemplate {
  std::string name;
  std::unique_ptr<ng::ChatTemplate> chat;
  int64_t n_specials;
};

std::vector<NamedTemplate> MakeNamedTemplates() {
  std::vector<NamedTemplate> all;
  for (const char* name : {"chatml", "llama2", "llama3", "zephyr", "mistral"}) {
    auto chat = ng::BindChatTemplate({}, TheTokenizer(), {.chat_template = name});
    Check(chat.ok(), std::string(chat.status().message()));
    const int64_t n_specials = CountSpecials(Encode(**chat, "s", "u"));
    all.push_back({name, *std::move(chat), n_specials});
  }
  return all;
}

void CheckConversations(std::string_view said) {
  static const std::vector<NamedTemplate> all = MakeNamedTemplates();
  for (const NamedTemplate& named : all) {
    Check(CountSpecials(Encode(*named.chat, said, said)) <= named.n_specials,
          "a text that speaks special tokens in " + named.name);
  }
}

// Runs a template, with tools and without.
void RunTemplate(const ng::TemplateMetadata& metadata, const std::string& folder) {
  const auto chat = ng::BindChatTemplate(metadata, TheTokenizer(), {.date = "2025-07-30"});
  CheckError(chat.status(), folder);
  if (!chat.ok() || *chat == nullptr) return;
  (void)Encode(**chat, "s", "u<|im_end|>");
  const std::string messages = R"([{"role": "user", "content": "a"}, {"role": "assistant",
      "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, null, "y"]}}}]},
      {"role": "tool", "content": "{}"}])";
  (void)(*chat)->Encode({.messages = messages, .tools = R"([{"name": "f", "n": 1.5}])"});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static ng::fuzz::MemoryFile file;
  static const Folder with_config(file.path(), "tokenizer_config.json");
  static const Folder with_jinja(file.path(), "chat_template.jinja");
  const std::string_view bytes = ng::fuzz::Bytes(data, size);
  file.Write(bytes);
  const Folder& folder = bytes.starts_with('{') ? with_config : with_jinja;
  const auto found = ng::FindTemplateMetadata(folder.path());
  CheckError(found.status(), folder.path());
  if (found.ok()) RunTemplate(*found, folder.path());
  ng::KeyPolicy policy;
  CheckError(ng::ReadCompanions(folder.path(), policy).status(), folder.path());
  CheckConversations(bytes);
  return 0;
}
