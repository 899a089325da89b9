// A conversation of a thousand tokens over HTTP, with a config that says nothing of the cache: its
// second turn computes what is new, and its answers are those of ng-run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/integration/run_support.h"
#include "tests/integration/serve/server.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using Ids = std::vector<int32_t>;

constexpr const char* kChatPath = "/v1/chat/completions";
constexpr int64_t kPage = 32;
// A token each, behind the two special ones.
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz \n().,!?:-012";
constexpr int kThoughtEnds = 31;  // the id of ')'

// How the template writes the answers that came before.
enum class Answers { kAsTheyAre, kWithoutThoughts };
using Case = std::pair<std::string, Answers>;

// A model of the goldens with room for long texts, letters and a chat template.
class ChatModel {
 public:
  ChatModel(const std::string& golden, Answers answers) {
    constexpr int64_t kContext = 2048;
    CopyWithContext(NG_TEST_DATA "/golden/" + golden, kContext, dir_.path());
    const std::string config = ReadFile(dir_.File("config.json"));
    const std::string field = "\"vocab_size\": ";
    vocabulary_ = std::atoi(config.c_str() + config.find(field) + field.size());
    Json vocabulary = {{"<|s|>", 0}, {"<|e|>", 1}};
    for (const char letter : kLetters) vocabulary[std::string(1, letter)] = vocabulary.size();
    Json added = Json::array();
    for (const char* const name : {"<|s|>", "<|e|>"}) {
      added.push_back({{"id", vocabulary[name]},
                       {"content", name},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    }
    const Json tokenizer = {
        {"version", "1.0"},
        {"added_tokens", added},
        {"normalizer", nullptr},
        {"pre_tokenizer", nullptr},
        {"decoder", {{"type", "Fuse"}}},
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
    dir_.Write("tokenizer.json", tokenizer.dump());
    dir_.Write("chat_template.jinja",
               absl::StrCat("{%- for m in messages -%}{{- '<|s|>' + m.role + '\\n' -}}"
                            "{%- if m.role == 'assistant' -%}{{- m.content",
                            answers == Answers::kWithoutThoughts ? ".split(')')[-1]" : "",
                            " -}}{%- else -%}{{- m.content -}}{%- endif -%}{{- '<|e|>' -}}"
                            "{%- endfor -%}{%- if add_generation_prompt -%}"
                            "{{- '<|s|>assistant\\n' -}}{%- endif -%}"));
  }
  const std::string& path() const { return dir_.path(); }
  int vocabulary() const { return vocabulary_; }

 private:
  int vocabulary_ = 0;
  const TempDir dir_;
};

class ServedConversation : public ::testing::TestWithParam<Case> {
 protected:
  std::string Letters(size_t n) {
    std::string text;
    while (text.size() < n) text += kLetters[random_() % 26];
    return text;
  }

  // The answer to a conversation, whose ids and logprobs are those of ng-run.
  static Json Answer(const Server& server, const ChatModel& model, const Json& messages) {
    Json bias = {{absl::StrCat(kThoughtEnds), 3}};
    std::vector<std::string> biases = {absl::StrCat(kThoughtEnds, "=3")};
    // Only what has a letter.
    for (int id = 0; id < model.vocabulary(); ++id) {
      if (id >= 2 && id < 2 + std::ssize(kLetters)) continue;
      bias[absl::StrCat(id)] = -100;
      biases.push_back(absl::StrCat(id, "=-100"));
    }
    const Json answer = server.Post(kChatPath, {{"messages", messages},
                                                {"max_tokens", 70},
                                                {"logit_bias", bias},
                                                {"logprobs", true},
                                                {"return_token_ids", true}});
    const Json& choice = answer["choices"][0];
    const Ids prompt = choice["prompt_token_ids"];
    const TempDir dir;
    const Result run =
        NgRun(Demo() + Arguments{"--model.path=" + model.path(), "--prompt-ids",
                                 absl::StrJoin(prompt, " "), "--run.max_new_tokens=70",
                                 "--sampler.chain=logit_bias,temperature,top_k",
                                 "--sampler.logit_bias.bias=" + absl::StrJoin(biases, ","),
                                 "--output=jsonl", "--steps", dir.File("steps")});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    if (run.exit_code != 0) return answer;
    Ids ids = prompt;
    const Ids own = choice["token_ids"];
    ids.insert(ids.end(), own.begin(), own.end());
    EXPECT_EQ(JsonLines(run.out).at(0)["ids"].get<Ids>(), ids);
    const std::vector<Json> steps = JsonLines(ReadFile(dir.File("steps")));
    const Json& logprobs = choice["logprobs"]["content"];
    EXPECT_EQ(steps.size(), logprobs.size());
    for (size_t i = 0; i < std::min(steps.size(), logprobs.size()); ++i) {
      EXPECT_EQ(logprobs[i]["logprob"], steps[i]["logprob"]) << i;
    }
    return answer;
  }
  static Ids TextOf(const Json& answer) {
    Ids ids = answer["choices"][0]["prompt_token_ids"];
    const Ids own = answer["choices"][0]["token_ids"];
    ids.insert(ids.end(), own.begin(), own.end());
    return ids;
  }
  static int64_t CachedOf(const Json& answer) {
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"];
  }

  std::mt19937_64 random_{3};
};

TEST_P(ServedConversation, IsReadOnce) {
  const auto& [golden, answers] = GetParam();
  const ChatModel model(golden, answers);
  const Server server({"--model.path=" + model.path(), "--serve.model=demo"});
  Json messages = Json::array({{{"role", "user"}, {"content", Letters(1000)}}});
  Json before = Answer(server, model, messages);
  EXPECT_EQ(CachedOf(before), 0);
  for (int turn = 2; turn <= 3; ++turn) {
    const std::string text = before["choices"][0]["message"]["content"];
    messages.push_back({{"role", "assistant"}, {"content", text}});
    messages.push_back({{"role", "user"}, {"content", Letters(40)}});
    const Json answer = Answer(server, model, messages);
    const Ids had = TextOf(before);
    const Ids prompt = answer["choices"][0]["prompt_token_ids"];
    const int64_t n_common = std::ranges::mismatch(had, prompt).in1 - had.begin();
    EXPECT_GT(n_common, 1000);
    if (answers == Answers::kAsTheyAre) {
      // All but the last token of the answer was fed.
      EXPECT_EQ(n_common, std::ssize(had));
      EXPECT_GE(CachedOf(answer), n_common - 1 - kPage);
    } else {
      EXPECT_TRUE(absl::StrContains(text, ")")) << text;
      EXPECT_LT(n_common, std::ssize(had) - 1);
      // The words that ask for an answer, and letters that happen to be the same.
      constexpr int64_t kAsking = 11;
      const Ids question = before["choices"][0]["prompt_token_ids"];
      EXPECT_GE(CachedOf(answer), std::ssize(question) - kAsking - kPage);
    }
    before = answer;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ServedConversation,
                         ::testing::Values(Case{"llama/tied_gqa", Answers::kAsTheyAre},
                                           Case{"llama/tied_gqa", Answers::kWithoutThoughts},
                                           Case{"gemma3/tiny", Answers::kAsTheyAre},
                                           Case{"gemma3/tiny", Answers::kWithoutThoughts},
                                           Case{"qwen3_5/tiny", Answers::kAsTheyAre},
                                           Case{"qwen3_5/tiny", Answers::kWithoutThoughts},
                                           Case{"granite_hybrid/tiny", Answers::kAsTheyAre},
                                           Case{"granite_hybrid/tiny", Answers::kWithoutThoughts}),
                         [](const auto& test) {
                           std::string name = test.param.first;
                           std::ranges::replace(name, '/', '_');
                           return name + (test.param.second == Answers::kAsTheyAre
                                              ? ""
                                              : "_without_thoughts");
                         });

// A cache that the user has named stays what it is.
TEST(Serve, KeepsToTheCacheThatIsNamed) {
  const ChatModel model("llama/tied_gqa", Answers::kAsTheyAre);
  const Server server(
      {"--model.path=" + model.path(), "--serve.model=demo", "--cache.name=contiguous"});
  const Json body = {
      {"messages",
       Json::array({{{"role", "user"}, {"content", "abcdefgh abcdefgh abcdefgh abcdefgh"}}})},
      {"max_tokens", 4}};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(server.Post(kChatPath, body)["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  }
}

}  // namespace
}  // namespace ng::test
