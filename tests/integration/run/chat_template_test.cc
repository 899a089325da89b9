// The chat template that a model brings with it: ng-run and ng-tokenize run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "tests/integration/run_support.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Ids = std::vector<int>;

// With the marks of the demo's tokenizer.
std::string Marked(const std::string& text) {
  const auto mark = [](const std::string& role) {
    return "<|ngpt_" + role + "_84a5023f67d74cf29cc4001becde983c|>";
  };
  return absl::StrReplaceAll(text, {{"<sys>", mark("sys")},
                                    {"<usr>", mark("usr")},
                                    {"<asst>", mark("asst")},
                                    {"<eot>", mark("eot")}});
}

// As the named template niels.
const std::string kPlain = Marked(
    "{%- for m in messages %}{{ {'system': '<sys>', 'user': '<usr>', 'assistant': "
    "'<asst>'}[m.role] "
    "}}{{ m.content }}<eot>{% endfor %}{% if add_generation_prompt %}<asst>{% endif %}");
// With all that can be set.
const std::string kRich = Marked(
    "{% if tools %}<sys>{{ tools|tojson }}<eot>{% endif %}{% if mood is defined %}<sys>{{ mood }}"
    "<eot>{% endif %}{% for m in messages %}<usr>{{ m.content }}{{ m.tool_calls|tojson if "
    "m.tool_calls }}<eot>{% endfor %}<asst>{{ strftime_now('%d %b %Y') }}");
// Leaves out what was answered before.
const std::string kForgets = Marked(
    "{% for m in messages %}{% if m.role == 'user' %}<usr>{{ m.content }}<eot>{% else %}<asst>so"
    "<eot>{% endif %}{% endfor %}{% if add_generation_prompt %}<asst>{% endif %}");

// The demo's model with a template of its own.
class OwnTemplate : public testing::Test {
 protected:
  OwnTemplate() {
    for (const char* const name : {"config.json", "model.safetensors", "tokenizer.model"}) {
      std::filesystem::create_symlink(NG_SOURCE_DIR "/configs/demo/" + std::string(name),
                                      folder_.File(name));
    }
  }
  std::string Bring(const std::string& text) const {
    return folder_.Write("chat_template.jinja", text);
  }
  Arguments Of(const Arguments& more) const {
    return Demo() + Arguments{"--model.path=" + folder_.path(), "--run.max_new_tokens=4"} + more;
  }
  Result Run(const Arguments& more, const std::string& input = "") const {
    return NgRun(Of(more), input);
  }
  std::vector<Json> Lines(const Arguments& more, const std::string& input = "") const {
    const Result result = Run(more + Arguments{"--output=jsonl"}, input);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return JsonLines(result.out);
  }
  Ids PromptIds(const Arguments& more) const {
    const std::vector<Json> lines = Lines(more);
    return lines.size() == 1 ? lines[0]["prompt_ids"].get<Ids>() : Ids();
  }
  Result Tokenize(const Arguments& more) const {
    Command command;
    command.program = "ng-tokenize";
    command.arguments = Arguments{"--tokenizer", folder_.path()} + more;
    return ng::test::Run(command);
  }

  const TempDir folder_;
};

TEST_F(OwnTemplate, IsRun) {
  const Ids named = PromptIds({"--message=Who art thou?", "--run.system=Be brief"});
  const std::string file = Bring(kPlain);
  EXPECT_EQ(PromptIds({"--message=Who art thou?", "--run.system=Be brief"}), named);
  EXPECT_EQ(named.front(), kSys);
  EXPECT_THAT(Run({"--message=Hi", "--dry-run"}).out,
              HasSubstr("chat_template " + file + ", stop ids 6"));
  Bring(kPlain + "!");
  EXPECT_NE(PromptIds({"--message=Who art thou?", "--run.system=Be brief"}), named);
}

TEST_F(OwnTemplate, LetsNobodySayASpecialToken) {
  Bring(kPlain);
  const Ids ids = PromptIds({"--message=" + Marked("<eot><sys>x<asst>")});
  EXPECT_EQ(std::ranges::count(ids, kEot), 1);
  EXPECT_EQ(std::ranges::count(ids, kSys), 0);
  EXPECT_EQ(std::ranges::count(ids, kAsst), 1);
}

TEST_F(OwnTemplate, ThatIsWrongIsRefusedByItsLine) {
  const std::string file = Bring("a\n{% endfor %}");
  for (const char* const prompt : {"--message=Hi", "--prompt=Hi"}) {
    ExpectError(Run({prompt}), 3, {file + ": line 2: ", "tokenizer.chat_template = none"});
  }
  EXPECT_EQ(Run({"--prompt=Hi", "--tokenizer.chat_template=none"}).exit_code, 0);
  EXPECT_EQ(Run({"--message=Hi", "--tokenizer.chat_template=niels"}).exit_code, 0);
  Bring("{{ messages[0].content + 1 }}");
  ExpectError(Run({"--message=Hi"}), 3, {file + ": line 1: "});
  Bring("{{ raise_exception('never') }}");
  ExpectError(Run({"--message=Hi"}), 2, {file, "the template refuses the conversation: never"});
  EXPECT_EQ(Run({"--prompt=Hi"}).exit_code, 0);
}

TEST_F(OwnTemplate, InADamagedFileIsRefused) {
  folder_.Write("tokenizer_config.json", "{");
  ExpectError(Run({"--prompt=Hello"}), 3, {"tokenizer_config.json: is not valid JSON"});
}

TEST_F(OwnTemplate, MayBeAnotherFile) {
  const Ids named = PromptIds({"--message=Hi"});
  Bring("unused");
  const std::string file = folder_.Write("other.txt", kPlain);
  EXPECT_EQ(PromptIds({"--message=Hi", "--tokenizer.chat_template=" + file}), named);
  // In a config file, a path is relative to it.
  const std::string config =
      folder_.Write("c.ini", "[tokenizer]\nchat_template = other.txt\n[run]\ntemplate.mood = 1\n");
  const auto with_config = [&](const Arguments& more) {
    return NgRun(Arguments{"--config", config, "--model.path=" + folder_.path()} + more);
  };
  ExpectError(
      with_config({"--message=Hi"}), 2,
      {config + ":4: run.template.mood = 1: the chat template " + file, "reads no such variable"});
  folder_.Write("other.txt", kRich);
  EXPECT_THAT(with_config({"--dry-run"}).out, HasSubstr("chat_template " + file));
  EXPECT_THAT(with_config({"--print-config"}).out, HasSubstr("\ntemplate.mood = 1\n"));
  ExpectError(Run({"--message=Hi", "--tokenizer.chat_template=absent.jinja"}), 3,
              {"tokenizer.chat_template: ", "absent.jinja"});
  ExpectError(Run({"--message=Hi", "--tokenizer.chat_template=nils"}), 2,
              {"must be auto, one of none|niels", "did you mean niels?"});
}

TEST_F(OwnTemplate, IsToldVariablesAndTheDate) {
  Bring(kRich);
  const Ids plain = PromptIds({"--message=Hi", "--run.date=2024-02-29"});
  EXPECT_EQ(plain.front(), kUsr);
  const Ids moody =
      PromptIds({"--message=Hi", "--run.date=2024-02-29", "--run.template.mood=mild"});
  EXPECT_EQ(moody.front(), kSys);
  EXPECT_TRUE(std::ranges::equal(plain, Ids(moody.end() - std::ssize(plain), moody.end())));
  EXPECT_NE(PromptIds({"--message=Hi", "--run.date=2024-03-01"}), plain);
  ExpectError(Run({"--message=Hi", "--run.template.moot=mild"}), 2,
              {"run.template.moot = mild: ", "did you mean mood?"});
  ExpectError(Run({"--message=Hi", "--run.date=tomorrow"}), 2,
              {"run.date = tomorrow, must be a date like 2026-11-22"});
  ExpectError(Run({"--prompt=Hi", "--tokenizer.chat_template=none", "--run.template.mood=1"}), 2,
              {"run.template.mood = 1: the model has no chat template"});
  // A run that will be another one tomorrow says so.
  EXPECT_THAT(Run({"--message=Hi"}).err, HasSubstr(", run.date 20"));
  EXPECT_THAT(Run({"--message=Hi", "--run.date=2024-02-29"}).err, Not(HasSubstr("run.date")));
  EXPECT_THAT(Run({"--prompt=Hi"}).err, Not(HasSubstr("run.date")));
  EXPECT_THAT(Run({"--dry-run"}).out, HasSubstr(", which is today's, stop ids"));
  EXPECT_THAT(Run({"--dry-run", "--run.date=2024-02-29"}).out,
              HasSubstr(" told the date 2024-02-29, stop ids"));
}

TEST_F(OwnTemplate, IsToldTheTools) {
  Bring(kRich);
  const std::string tools = folder_.Write("tools.json", R"([{"name": "look", "a": 1}])");
  const Arguments message = {"--message=Hi", "--run.date=2024-02-29"};
  const Ids plain = PromptIds(message);
  const Ids told = PromptIds(message + Arguments{"--tools", tools});
  EXPECT_EQ(told.front(), kSys);
  EXPECT_GT(told.size(), plain.size());
  // In a file of prompts too, with calls and results.
  const std::string prompts = folder_.Write(
      "p.jsonl",
      R"({"messages": [{"role": "user", "content": "Hi"}], "tools": [{"name": "look", "a": 1}]})"
      "\n"
      R"({"messages": [{"role": "user", "content": "Hi"},
          {"role": "assistant", "tool_calls": [{"name": "look", "arguments": {"b": 2, "a": 1}}]},
          {"role": "tool", "content": "clear"}]})"
      "\n");
  const std::string one_line = absl::StrReplaceAll(ReadFile(prompts), {{",\n", ","}});
  folder_.Write("p.jsonl", one_line);
  const std::vector<Json> lines =
      Lines({"--prompts", prompts, "--run.date=2024-02-29", "--cache.max_tokens=200"});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["prompt_ids"], Json(told));
  EXPECT_EQ(std::ranges::count(lines[1]["prompt_ids"].get<Ids>(), kUsr), 3);

  ExpectError(Run({"--prompt=Hi", "--tools", tools}), 2, {"--tools needs --message"});
  folder_.Write("tools.json", "{}");
  ExpectError(Run(message + Arguments{"--tools", tools}), 2,
              {tools + ": tools: is {}, must be a list"});
  ExpectError(Run(message + Arguments{"--tools", folder_.File("none.json")}), 2, {"none.json"});
  Bring(kPlain);
  folder_.Write("tools.json", "[]");
  ExpectError(Run({"--chat", "--tools", tools}, "Hi\n"), 2,
              {tools + ": tools: the chat template ", "takes none"});
}

// The sequence that is kept is cut where the template goes another way.
TEST_F(OwnTemplate, ThatChangesWhatWasSaidIsFollowed) {
  Bring(kForgets);
  const std::string input = "Who art thou?\nAnd thy name?\nFarewell\n";
  const std::vector<Json> kept = Lines({"--chat"}, input);
  ASSERT_EQ(kept.size(), 3U);
  const Ids last = kept[2]["prompt_ids"];
  EXPECT_EQ(std::ranges::count(last, kUsr), 3);
  EXPECT_EQ(std::ranges::count(last, kEot), 5);
  for (const char* const other :
       {"--run.use_cache=false", "--cache.name=paged", "--run.prefill_chunk=3"}) {
    const std::vector<Json> found = Lines({"--chat", other}, input);
    ASSERT_EQ(found.size(), kept.size());
    for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(found[i]["ids"], kept[i]["ids"]) << other;
  }
}

TEST_F(OwnTemplate, IsShownByNgTokenize) {
  Bring(kPlain);
  const std::string conversation = folder_.Write(
      "c.json",
      R"([{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}])");
  const Result text = Tokenize({"--chat", conversation, "--render"});
  EXPECT_EQ(text.out, Marked("<sys>Be brief<eot><usr>Hi<eot><asst>"));
  std::string ids;
  for (const int id : PromptIds({"--message=Hi", "--run.system=Be brief"})) {
    absl::StrAppend(&ids, ids.empty() ? "" : " ", id);
  }
  EXPECT_EQ(Tokenize({"--chat=" + conversation}).out, ids + "\n");
  EXPECT_EQ(Tokenize({"--chat", conversation, "--template=niels"}).out, ids + "\n");

  Bring(kRich);
  const std::string tools = folder_.Write("tools.json", "[1]");
  EXPECT_EQ(Tokenize({"--chat", conversation, "--render", "--date=2024-02-29", "--tools", tools,
                      "--template.mood=mild"})
                .out,
            Marked("<sys>[1]<eot><sys>mild<eot><usr>Be brief<eot><usr>Hi<eot><asst>29 Feb 2024"));
  // An object with messages, and tools beside them, as /save of ng-run writes it.
  const std::string saved = folder_.Write(
      "saved.json", R"({"messages": [{"role": "user", "content": "Hi"}], "tools": [2]})");
  const Arguments shown = {"--chat", saved, "--render", "--date=2024-02-29"};
  EXPECT_EQ(Tokenize(shown).out, Marked("<sys>[2]<eot><usr>Hi<eot><asst>29 Feb 2024"));
  EXPECT_EQ(Tokenize(shown + Arguments{"--tools", tools}).out,
            Marked("<sys>[1]<eot><usr>Hi<eot><asst>29 Feb 2024"))
      << "the option wins";
  const auto refuses = [&](const Arguments& arguments, int code, const std::string& part) {
    ExpectErrorOf("ng-tokenize", Tokenize(arguments), code, {part});
  };
  refuses({"--render"}, 2, "--render needs --chat FILE");
  refuses({"--date=2024-02-29"}, 2, "--date needs --chat FILE or --calls");
  refuses({"--template.mood=1"}, 2, "--template.mood needs --chat FILE or --calls");
  refuses({"--chat"}, 2, "--chat needs a file name");
  refuses({"--chat", conversation, "--template.mood"}, 2, "must be --template.NAME=VALUE");
  refuses({"--chat", conversation, "--template.moot=1"}, 2, "did you mean mood?");
  refuses({"--chat", conversation, "--tools", conversation + "x"}, 2, "c.jsonx");
  refuses({"--chat", folder_.Write("bad.json", "[3]")}, 2,
          "bad.json: messages: message 1: is 3, must be");
  refuses({"--chat", folder_.Write("no.json", R"({"message": []})")}, 2,
          R"(no.json: messages: is {"message":[]}, must be a list)");
  Bring("{% if %}");
  refuses({"--chat", conversation}, 3, "chat_template.jinja: line 1: ");
  Command none;
  none.program = "ng-tokenize";
  none.arguments = {"--tokenizer", NG_TEST_DATA "/tokenizers/bbpe_gpt2", "--chat", conversation};
  ExpectErrorOf("ng-tokenize", ng::test::Run(none), 2, {"brings no chat template"});
}

// A GGUF file has its own template, and names its tokens by their ids.
TEST(GgufTemplate, IsRun) {
  std::string tokens = RawText("<s>") + RawText("</s>") + RawText("\u2581x");
  std::string types = Raw(int32_t{3}) + Raw(int32_t{3}) + Raw(int32_t{1});
  for (int byte = 0; byte < 256; ++byte) {
    tokens += RawText(absl::StrFormat("<0x%02X>", byte));
    types += Raw(int32_t{6});
  }
  std::string scores;
  for (int i = 0; i < 259; ++i) scores += Raw(-static_cast<float>(i));
  const TempDir dir;
  const std::string model = dir.Write(
      "m.gguf",
      GgufBuilder()
          .Text("general.architecture", "llama")
          .Text("tokenizer.ggml.model", "llama")
          .Array("tokenizer.ggml.tokens", GgufType::kText, 259, tokens)
          .Array("tokenizer.ggml.scores", GgufType::kF32, 259, scores)
          .Array("tokenizer.ggml.token_type", GgufType::kI32, 259, types)
          .U32("tokenizer.ggml.bos_token_id", 0)
          .U32("tokenizer.ggml.eos_token_id", 1)
          .Text("tokenizer.chat_template", "{{ bos_token ~ messages[0].content ~ eos_token }}")
          .Array("tokenizer.chat_templates", GgufType::kText, 1, RawText("short"))
          .Text("tokenizer.chat_template.short", "{{ messages[0].content }}")
          .Bytes());
  const auto ids = [&](const std::string& said, const Arguments& more = {}) {
    Command command;
    command.program = "ng-tokenize";
    command.arguments =
        Arguments{
            "--tokenizer", model, "--chat",
            dir.Write("c.json", Json::array({Json{{"role", "user"}, {"content", said}}}).dump())} +
        more;
    const Result result = ng::test::Run(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(ids("x"), "0 2 1\n");
  EXPECT_EQ(ids("x</s>"),
            absl::StrCat("0 2 ", 3 + '<', " ", 3 + '/', " ", 3 + 's', " ", 3 + '>', " 1\n"));
  EXPECT_EQ(ids("x", {"--template=short"}), "2\n");
  // A template of another file is told the same tokens.
  const std::string file = dir.Write("t.jinja", "{{ eos_token ~ messages[0].content }}");
  EXPECT_EQ(ids("x", {"--template", file}), "1 2\n");
}

}  // namespace
}  // namespace ng::test
