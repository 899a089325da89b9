// The parts of a chat, without a terminal: thoughts, what is shown, files, commands, turns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/run/chat/answer_view.h"
#include "apps/run/chat/chat_file.h"
#include "apps/run/chat/commands.h"
#include "apps/run/chat/conversation.h"
#include "apps/run/chat/history_file.h"
#include "apps/run/chat/session.h"
#include "apps/run/chat/thoughts.h"
#include "ng/config.h"
#include "tests/support/temp_dir.h"

namespace ng::run {
namespace {

using test::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

// What a view shows of an answer that comes in these pieces.
std::string Shown(const ViewStyle& style, const std::vector<std::string>& pieces,
                  const std::string& prompt_end = "", const std::string& said = "") {
  AnswerView view(style, prompt_end, said);
  std::string shown;
  for (const std::string& piece : pieces) shown += view.Push(piece);
  return shown + view.Finish();
}

std::string ThoughtsIn(const std::vector<std::string>& pieces, const std::string& prompt_end = "") {
  Thoughts thoughts(prompt_end);
  std::string found;
  const auto add = [&](const std::vector<Piece>& more) {
    for (const Piece& piece : more) found += piece.thought ? piece.text : "";
  };
  for (const std::string& piece : pieces) add(thoughts.Push(piece));
  add(thoughts.Finish());
  return found;
}

TEST(Thoughts, BeginAnAnswerAndEndWithTheirMarker) {
  EXPECT_EQ(ThoughtsIn({"<think>hm</think>yes"}), "<think>hm</think>");
  EXPECT_EQ(ThoughtsIn({"\n<th", "ink>h", "m</th", "ink>y"}), "\n<think>hm</think>");
  EXPECT_EQ(ThoughtsIn({"[THINK]a[/THINK]b"}), "[THINK]a[/THINK]");
  EXPECT_EQ(ThoughtsIn({"never ends"}, "<|assistant|><think>\n"), "never ends");
  EXPECT_EQ(ThoughtsIn({"a</think", ">b"}, "<think>\n"), "a</think>");
}

TEST(Thoughts, AnywhereElseAMarkerIsText) {
  EXPECT_EQ(ThoughtsIn({"Write <think>so</think>."}), "");
  EXPECT_EQ(ThoughtsIn({"<thin", "g>"}), "");
  EXPECT_EQ(ThoughtsIn({"text"}, "<think></think>"), "");
}

TEST(AnswerView, FoldsThoughtsToOneLine) {
  const ViewStyle folded = {.colors = true, .terminal = true, .moves = true};
  EXPECT_EQ(Shown(folded, {"<think>", "a", "b", "</think>", "\n\n", "Yes."}),
            "\033[2m(thinking)\033[0m\r\033[K\033[2m(4 tokens of thought, /think shows them)\033[0m"
            "\nYes.\n");
  const ViewStyle shown = {.colors = true, .terminal = true, .folded = false};
  EXPECT_EQ(Shown(shown, {"<think>a</think>", "b"}), "\033[2m<think>a</think>\033[0mb\n");
  const ViewStyle plain = {.colors = false, .terminal = true, .folded = false};
  EXPECT_EQ(Shown(plain, {"<think>a</think>", "b"}), "<think>a</think>b\n");
  EXPECT_EQ(Shown(folded, {"<think>", "a"}),
            "\033[2m(thinking)\033[0m\r\033[K"
            "\033[2m(2 tokens of thought, /think shows them)\033[0m\n");
}

TEST(AnswerView, GoesOnWithinThoughts) {
  const ViewStyle folded = {.terminal = true, .moves = true};
  EXPECT_EQ(Shown(folded, {"b</think>", "c"}, "", "<think>a"),
            "(thinking)\r\033[K(1 token of thought, /think shows them)\nc\n");
  EXPECT_EQ(Shown(folded, {"c"}, "", "<think>a</think>b"), "c\n");
}

TEST(AnswerView, ControlsNoTerminalAndChangesNoFile) {
  EXPECT_EQ(Shown({.terminal = true}, {"a\033[2J\x07\tb\n"}), "a^[[2J^G\tb\n");
  EXPECT_EQ(Shown({.terminal = false}, {"<think>a</think>\033b"}), "<think>a</think>\033b\n");
}

TEST(StatusLine, SaysTheMostImportantFirst) {
  TurnFigures figures = {.stop_reason = StopReason::kMaxNewTokens,
                         .n_answer = 20,
                         .length = 28,
                         .capacity = 256,
                         .seed = 7,
                         .timings = {}};
  figures.timings = {.prefill_s = 0.5, .prefill_tokens = 8, .decode_s = 2.0, .decode_tokens = 19};
  EXPECT_EQ(StatusLine(figures, 200),
            "[cut, /more goes on | context 28 of 256, 228 left | 20 tokens, 9.5/s | prefill 8, "
            "16.0/s | seed 7]");
  EXPECT_EQ(StatusLine(figures, 20), "[cut, /more goes on | context 28 of 256, 228 left]");
  figures.stop_reason = StopReason::kInterrupted;
  EXPECT_THAT(StatusLine(figures, 80), StartsWith("[stopped, /more goes on | "));
  figures.stop_reason = StopReason::kEot;
  EXPECT_THAT(StatusLine(figures, 80), StartsWith("[context 28 of 256, 228 left | 20 tokens"));
}

TEST(HistoryFile, KeepsEntriesOfManyLinesForTheirUserAlone) {
  const TempDir temp;
  const HistoryFile file(temp.File("a/b/history"));
  EXPECT_THAT(*file.Load(), ElementsAre());
  ASSERT_TRUE(file.Append("one\ntwo \\n three").ok());
  ASSERT_TRUE(file.Append("日本").ok());
  EXPECT_THAT(*file.Load(), ElementsAre("one\ntwo \\n three", "日本"));
  struct stat status = {};
  ASSERT_EQ(stat(temp.File("a/b/history").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST(HistoryFile, IsShortenedAndMayBeAbsent) {
  const TempDir temp;
  std::string lines;
  for (size_t i = 0; i < 2 * HistoryFile::kMost + 1; ++i) lines += std::to_string(i) + "\n";
  const HistoryFile file(temp.Write("history", lines));
  const std::vector<std::string> entries = *file.Load();
  EXPECT_EQ(entries.size(), HistoryFile::kMost);
  EXPECT_EQ(entries.back(), std::to_string(2 * HistoryFile::kMost));
  EXPECT_LT(test::Slurp(temp.File("history")).size(), lines.size() * 2 / 3);
  EXPECT_TRUE(HistoryFile("").Append("x").ok());
  EXPECT_THAT(*HistoryFile("").Load(), ElementsAre());
  EXPECT_TRUE(absl::IsUnavailable(HistoryFile(temp.File("history/no")).Append("x")));
  EXPECT_TRUE(absl::IsUnavailable(HistoryFile(temp.path()).Load().status()));
}

TEST(HistoryFile, HasItsPlaceFromTheEnvironment) {
  setenv("XDG_STATE_HOME", "/state", 1);
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(HistoryFile::DefaultPath(), "/state/ng/history");
  unsetenv("XDG_STATE_HOME");
  EXPECT_EQ(HistoryFile::DefaultPath(), "/home/me/.local/state/ng/history");
  setenv("NG_HISTORY", "", 1);
  EXPECT_EQ(HistoryFile::DefaultPath(), "");
  setenv("NG_HISTORY", "/tmp/h", 1);
  EXPECT_EQ(HistoryFile::DefaultPath(), "/tmp/h");
  unsetenv("NG_HISTORY");
}

TEST(ChatFile, IsReadAsItWasWritten) {
  SavedChat chat;
  chat.said.resize(2);
  chat.said[0].message = Json::parse(R"({"role": "user", "content": "Hi", "name": "x"})");
  chat.said[1].message = Json::parse(R"({"role": "assistant", "content": "Ho"})");
  chat.said[1].ids = {4, 5};
  chat.said[1].cut = true;
  chat.tools = R"([{"type":"function"}])";
  chat.settings = {{"sampler.seed", "3"}};
  const absl::StatusOr<SavedChat> read = ParseChatFile(ChatFileText(chat), "f");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ChatFileText(*read), ChatFileText(chat));
  EXPECT_EQ(read->said[1].ids, chat.said[1].ids);
  EXPECT_TRUE(read->said[1].cut);
}

TEST(ChatFile, TakesAListOfMessagesAlone) {
  const absl::StatusOr<SavedChat> read =
      ParseChatFile(R"([{"role": "user", "content": "Hi"}])", "f");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(TextOf(read->said.at(0)), "Hi");
}

TEST(ChatFile, SaysWhatIsWrong) {
  const auto error = [](const std::string& text) {
    const absl::Status status = ParseChatFile(text, "f.json").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << ": " << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error(""), StartsWith("f.json: "));
  EXPECT_THAT(error("{}"), HasSubstr("must be a list of messages, or an object with"));
  EXPECT_THAT(error("[]"), HasSubstr("must be a list of messages"));
  EXPECT_THAT(error("[3]"), HasSubstr("message 1 is 3, must be"));
  EXPECT_THAT(error(R"({"messages": [{"role": "user"}], "seed": 1})"), HasSubstr("\"seed\""));
  const auto own = [&](const std::string& ng) {
    return error(R"({"messages": [{"role": "user"}, {"role": "assistant"}], "ng": )" + ng + "}");
  };
  EXPECT_THAT(own("3"), HasSubstr("\"ng\" must be an object"));
  EXPECT_THAT(own(R"({"answer_ids": []})"), HasSubstr("must be 1 lists, one for each answer"));
  EXPECT_THAT(own(R"({"answer_ids": [[-1]]})"), HasSubstr("holds -1, must hold token ids"));
  EXPECT_THAT(own(R"({"answer_ids": [3]})"), HasSubstr("holds 3, must hold lists"));
  EXPECT_THAT(own(R"({"cut": 1})"), HasSubstr("must be true or false"));
  EXPECT_THAT(own(R"({"set": {"a": 1}})"), HasSubstr("an object of texts"));
  EXPECT_THAT(error(std::string(100, '[')), StartsWith("f.json: "));
}

// The demo, and a session whose output is kept.
class ChatSession : public ::testing::Test {
 protected:
  explicit ChatSession(std::vector<std::string> more = {}) {
    EngineOptions options;
    options.config_file = NG_SOURCE_DIR "/configs/demo.ini";
    options.overrides = {"run.max_new_tokens=12", "run.stop_ids=", "run.threads=1"};
    options.overrides.insert(options.overrides.end(), more.begin(), more.end());
    options.stop = &stop_;
    engine_ = std::move(Engine::Open(options).value());
    EXPECT_TRUE(engine_->Load({.max_tokens = 256}).ok());
    Begin();
  }

  void Begin() {
    SessionHost host;
    host.answer = [this](std::string_view text) {
      answers_ += text;
      return absl::OkStatus();
    };
    host.tell = host.remark = [this](std::string_view line) { notes_.emplace_back(line); };
    host.warning = [this](std::string_view text) {
      notes_.push_back("[" + std::string(text) + "]");
    };
    host.fault = [this](const absl::Status& error) {
      notes_.push_back("error: " + std::string(error.message()));
      return absl::OkStatus();
    };
    host.closing_lines = true;
    host.columns = [] { return size_t{80}; };
    host.take_interrupt = [this] { return stop_.exchange(false); };
    host.stop = &stop_;
    host.inputs = &inputs_;
    session_ = std::make_unique<Session>(*engine_, line_, 256, std::move(host));
  }

  // What the session answers, without the line's end.
  std::string Type(const std::string& typed) {
    answers_.clear();
    notes_.clear();
    EXPECT_TRUE(session_->Take(typed).ok());
    if (answers_.ends_with('\n')) answers_.pop_back();
    return answers_;
  }
  // What it has to say.
  std::string NoteOn(const std::string& typed) {
    EXPECT_EQ(Type(typed), "");
    return notes_.empty() ? "" : notes_.back();
  }

  InputLog inputs_;
  CommandLine line_;
  std::atomic<bool> stop_ = false;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  std::string answers_;
  std::vector<std::string> notes_;
  TempDir temp_;
};

TEST_F(ChatSession, RegenTakesTheNextSeedAndASeedRepeats) {
  const std::string first = Type("Who art thou?");
  EXPECT_THAT(notes_.back(), StartsWith("[cut, /more goes on | context 20 of 256, 236 left"));
  const std::string second = Type("/regen");
  EXPECT_NE(second, first);
  EXPECT_NE(Type("/regen"), second);
  EXPECT_EQ(Type("/regen 2"), second);
  EXPECT_EQ(Type("/regen 1"), first);
  EXPECT_THAT(NoteOn("/regen x"), HasSubstr("sampler.seed=x"));
  EXPECT_THAT(NoteOn("/regen -1"), HasSubstr("sampler.seed=-1"));
}

TEST_F(ChatSession, MoreGoesOnAsIfTheAnswerHadNotBeenCut) {
  const std::string begin = Type("Who art thou?");
  const std::string rest = Type("/more");
  Type("/set run.max_new_tokens=24");
  Type("/new");
  EXPECT_EQ(Type("Who art thou?"), begin + rest);
}

TEST_F(ChatSession, MoreNeedsAnAnswerThatWasCut) {
  EXPECT_EQ(NoteOn("/more"), "error: there is no answer that was cut");
  EXPECT_EQ(NoteOn("/regen"), "error: there is no message to answer again");
  EXPECT_EQ(NoteOn("/edit"), "error: there is no message to change");
  EXPECT_EQ(NoteOn("/save x"), "error: there is nothing to save yet");
}

TEST_F(ChatSession, StopKeepsTheAnswerSoFar) {
  stop_ = true;
  EXPECT_EQ(Type("Who art thou?"), "");
  EXPECT_THAT(notes_.back(), StartsWith("[stopped, /more goes on"));
  EXPECT_FALSE(stop_);
  const std::string answer = Type("/more");
  Type("/new");
  EXPECT_EQ(Type("Who art thou?"), answer);
}

TEST_F(ChatSession, EditReplacesTheLastMessage) {
  const std::string wanted = Type("What news?");
  Type("/new");
  Type("Who art thou?");
  EXPECT_EQ(Type("/edit"), "");
  EXPECT_EQ(session_->draft(), "Who art thou?");
  EXPECT_EQ(Type("What news?"), wanted);
  EXPECT_EQ(session_->draft(), "");
  const std::string next = Type("And then?");
  Type("/edit");
  session_->GiveUpDraft();
  Type("/new");
  Type("What news?");
  EXPECT_EQ(Type("And then?"), next);
}

TEST_F(ChatSession, SetTakesOtherProgramsNamesForKeys) {
  Type("/set sampler.chain=top_k");
  Type("/set temp=0.5");
  EXPECT_THAT(notes_, ElementsAre("[sampler.chain = temperature,top_k]",
                                  "[sampler.temperature.value = 0.5]"));
  EXPECT_EQ(NoteOn("/set temperature=0"), "[sampler.chain = greedy]");
  // The chain that is named last counts.
  EXPECT_EQ(NoteOn("/set sampler.chain=top_k"), "[sampler.chain = top_k]");
  EXPECT_EQ(engine_->config().Text("sampler.chain"), "top_k");
  EXPECT_THAT(NoteOn("/set threads=2"), HasSubstr("run.threads = 2: cannot change once"));
  EXPECT_THAT(NoteOn("/set num-predict=-2"), HasSubstr("not a number of tokens"));
  EXPECT_EQ(engine_->config().Text("sampler.chain"), "top_k");
}

TEST_F(ChatSession, CommandsAreToldAndNotSent) {
  EXPECT_THAT(NoteOn("/foo"), StartsWith("error: no command /foo; "));
  EXPECT_THAT(NoteOn("/sav x"), HasSubstr("did you mean /save"));
  // How a command begins says more than how it is spelled.
  EXPECT_THAT(NoteOn("/sys"), HasSubstr("did you mean /system;"));
  EXPECT_THAT(NoteOn("/mod"), HasSubstr("did you mean /model;"));
  EXPECT_THAT(NoteOn("/qiut"), HasSubstr("did you mean /quit;"));
  EXPECT_EQ(NoteOn("/new York"), "error: /new takes nothing, not 'York'");
  EXPECT_EQ(NoteOn("/save"), "error: /save needs the name of a file");
  EXPECT_NE(Type("//foo"), "");
  EXPECT_EQ(NoteOn("/edit"), "");
  EXPECT_EQ(session_->draft(), "//foo");
  Type("/help");
  EXPECT_EQ(notes_.size(), ChatCommands().size() + 1);
  for (const std::string& line : notes_) EXPECT_LE(line.size(), 80U);
  EXPECT_EQ(Type("/exit"), "");
  EXPECT_TRUE(session_->ended());
}

TEST_F(ChatSession, SetChangesWhatCanChange) {
  EXPECT_EQ(NoteOn("/set sampler.top_k.k = 1"), "[sampler.top_k.k = 1]");
  EXPECT_EQ(NoteOn("/set sampler.top_k.k 1"), "[sampler.top_k.k = 1]");
  const std::string greedy = Type("Who art thou?");
  EXPECT_EQ(NoteOn("/set sampler.chain=greedy"), "[sampler.chain = greedy]");
  EXPECT_EQ(Type("/regen"), greedy);
  EXPECT_THAT(NoteOn("/set run.threads=2"), HasSubstr("run.threads = 2: cannot change once"));
  EXPECT_THAT(NoteOn("/set run.thread=2"), HasSubstr("run.threads"));
  EXPECT_THAT(NoteOn("/set sampler.top_k.k=0"), HasSubstr("must be in [1, "));
  EXPECT_THAT(NoteOn("/set sampler.chain=nucleus"), HasSubstr("no sampler plugin 'nucleus'"));
  EXPECT_THAT(NoteOn("/set warmth=1"), HasSubstr("must be /set SECTION.KEY=VALUE"));
  EXPECT_THAT(NoteOn("/set run.max_new_tokens"), HasSubstr("needs a value"));
  EXPECT_THAT(NoteOn("/set run.on_full=recompute"), HasSubstr("run.on_full = recompute"));
  EXPECT_THAT(NoteOn("/set run.template.x=1"), HasSubstr("run.template.x"));
  EXPECT_EQ(Type("/regen"), greedy);  // what was refused has changed nothing
  Type("/set");
  EXPECT_THAT(notes_, ::testing::Contains("sampler.chain = greedy"));
}

TEST_F(ChatSession, FullContextRefusesOrDropsTheOldestTurns) {
  Type("/system Speak well.");
  Type("/set run.max_new_tokens=100");
  Type("one");
  Type("two");
  // The answer has what is left.
  EXPECT_NE(Type("three"), "");
  EXPECT_THAT(notes_.back(), StartsWith("[cut, the context is full, /new or /set run.on_full=drop_"
                                        "turns | context 256 of 256, 0 left"));
  EXPECT_EQ(Type("four"), "");
  EXPECT_THAT(notes_.back(), StartsWith("error: the conversation is full, /new begins another, "
                                        "/set run.on_full=drop_turns leaves out the oldest"));
  EXPECT_EQ(NoteOn("/undo"), "[taken back: three]");
  Type("/set run.on_full=drop_turns");
  EXPECT_NE(Type("three"), "");
  EXPECT_EQ(notes_.front(),
            "[the context is full: the oldest 2 messages of the conversation are left out]");
  EXPECT_NE(Type("four"), "");
  EXPECT_THAT(notes_.front(), HasSubstr("the oldest 2 messages"));
  EXPECT_EQ(NoteOn("/system"), "Speak well.");
  Type("/save " + temp_.File("c.json"));
  const Json saved = Json::parse(test::Slurp(temp_.File("c.json")));
  ASSERT_EQ(saved["messages"].size(), 5U);
  EXPECT_EQ(saved["messages"][0]["role"], "system");
  EXPECT_EQ(saved["messages"][1]["content"], "three");
  // An answer that is longer than the context has all of it.
  Type("/set run.max_new_tokens=250");
  EXPECT_NE(Type("five"), "");
  EXPECT_THAT(notes_.back(), HasSubstr("| context 256 of 256, 0 left"));
}

TEST_F(ChatSession, UndoTakesTheLastTurnBack) {
  EXPECT_EQ(NoteOn("/undo"), "error: there is no message to take back");
  const std::string first = Type("Who art thou?");
  const std::string second = Type("What news?");
  EXPECT_EQ(NoteOn("/undo"), "[taken back: What news?]");
  EXPECT_EQ(Type("What news?"), second);
  Type("/undo");
  EXPECT_EQ(NoteOn("/UNDO"), "[taken back: Who art thou?]");
  EXPECT_EQ(NoteOn("/undo"), "error: there is no message to take back");
  EXPECT_EQ(Type("Who art thou?"), first);
}

TEST_F(ChatSession, CommandsHaveOtherNamesAndAnyCase) {
  const std::string first = Type("Who art thou?");
  EXPECT_NE(Type("/RETRY"), first);
  EXPECT_EQ(Type("/regen 1"), first);
  EXPECT_EQ(NoteOn("/Clear"), "[a new conversation]");
  Type("/?");
  EXPECT_THAT(notes_.front(), HasSubstr("/help, /?"));
  EXPECT_EQ(NoteOn("/model"), "demo | context 256 | temperature 0.9, top_k 50 | seed 1");
  EXPECT_THAT(NoteOn("/model a b"), HasSubstr("ng-run -c 'a b'"));
  for (const std::string name : {"/q", "/quit", "/bye", "/Exit"}) {
    Begin();
    Type(name);
    EXPECT_TRUE(session_->ended()) << name;
  }
}

TEST_F(ChatSession, ThePathOfAFileIsAMessageAndBlanksAreNone) {
  EXPECT_NE(Type("/usr/bin/env says what?"), "");
  EXPECT_NE(Type("/2 is a half"), "");
  EXPECT_EQ(NoteOn("  \t "), "");
  EXPECT_EQ(notes_.size(), 0U);
}

TEST_F(ChatSession, LoadGoesOnAsIfNothingHadBeenSaved) {
  Type("/system Speak well.");
  Type("/set sampler.temperature.value=1.3");
  Type("Who art thou?");
  Type("/regen 5");
  Type("And what news?");
  Type("/save " + temp_.File("c.json"));
  const std::string next = Type("Farewell");
  const std::string more = Type("/more");
  Begin();  // the engine has the settings of before: those of the file count
  EXPECT_TRUE(engine_->Set({}).ok());
  EXPECT_NE(Type("/load " + temp_.File("c.json")), "");
  EXPECT_EQ(engine_->config().Text("run.system"), "Speak well.");
  EXPECT_EQ(Type("Farewell"), next);
  EXPECT_EQ(Type("/more"), more);
  // In the same session once more, and the answer of the file itself.
  Type("/set run.max_new_tokens=3");
  Type("/load " + temp_.File("c.json"));
  EXPECT_EQ(engine_->config().Int("run.max_new_tokens"), 12);
  EXPECT_EQ(Type("Farewell"), next);
}

TEST_F(ChatSession, LoadRefusesWhatIsWrongAndKeepsTheConversation) {
  const std::string wanted = Type("Who art thou?");
  const auto load = [&](const std::string& text) {
    return NoteOn("/load " + temp_.Write("x.json", text));
  };
  EXPECT_THAT(NoteOn("/load " + temp_.File("none")), HasSubstr("none"));
  EXPECT_THAT(load("no"), HasSubstr("x.json: "));
  EXPECT_THAT(load(R"([{"role": "user", "content": 3}])"), HasSubstr("\"content\" = 3"));
  EXPECT_THAT(load(R"({"messages": [{"role": "user", "content": "a"}],
                       "ng": {"set": {"run.threads": "2"}}})"),
              HasSubstr("cannot change"));
  EXPECT_THAT(load(R"([{"role": "system", "content": "a"}])"), HasSubstr("but a system text"));
  EXPECT_EQ(engine_->config().Text("run.system"), "");
  EXPECT_EQ(Type("/regen 1"), wanted);
}

TEST_F(ChatSession, IdsThatDoNotSpellTheAnswerAreLeftOut) {
  const std::string file = temp_.Write("x.json", R"({"messages": [{"role": "user", "content": "a"},
                                 {"role": "assistant", "content": "No"}],
                    "ng": {"answer_ids": [[6, 6, 100000]]}})");
  EXPECT_EQ(Type("/load " + file), "No");
  EXPECT_THAT(notes_.front(), HasSubstr("1 answers are of another model"));
  EXPECT_NE(Type("And?"), "");
}

TEST_F(ChatSession, SaveOverwritesOnlyConversations) {
  Type("Who art thou?");
  const std::string other = temp_.Write("notes.txt", "mine");
  EXPECT_THAT(NoteOn("/save " + other), HasSubstr("holds no conversation"));
  EXPECT_EQ(test::Slurp(other), "mine");
  EXPECT_THAT(NoteOn("/save " + temp_.File("no/where")), StartsWith("error: "));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(NoteOn("/save " + temp_.File("c.json")), "[saved 2 messages]");
    Type("/load " + temp_.File("c.json"));
  }
  EXPECT_EQ(NoteOn("/save \"" + temp_.File("a b.json") + "\""), "[saved 2 messages]");
  EXPECT_TRUE(std::filesystem::exists(temp_.File("a b.json")));
}

TEST_F(ChatSession, CompletesCommandsKeysAndFiles) {
  const PluginHost plugins = Engine::FindPlugins({}).value();
  const auto complete = [&](const std::string& before) {
    return CompleteCommand(before, *engine_, plugins.files());
  };
  EXPECT_THAT(complete("/s").words, ElementsAre("/system", "/set", "/stats", "/save"));
  EXPECT_THAT(complete("/set sampler.se").words, ElementsAre("sampler.seed="));
  EXPECT_EQ(complete("/set sampler.se").begin, 5U);
  EXPECT_THAT(complete("/set run.th").words, ElementsAre());
  EXPECT_THAT(complete("/set run.on_full=d").words, ElementsAre("drop_turns"));
  EXPECT_EQ(complete("/set run.on_full=d").begin, 17U);
  EXPECT_THAT(complete("/set run.on_full  dr").words, ElementsAre("drop_turns"));
  EXPECT_THAT(complete("/set sampler.chain=temperature,top_").words,
              ElementsAre("top_k", "top_n_sigma", "top_p"));
  EXPECT_EQ(complete("/set sampler.chain=temperature,top_").begin, 31U);
  EXPECT_THAT(complete("/set sampler.top_k.k=").words, ElementsAre("50"));
  temp_.Write("talk.json", "");
  EXPECT_THAT(complete("/load " + temp_.File("ta")).words, ElementsAre(temp_.File("talk.json")));
  temp_.Write("a b.json", "");
  EXPECT_THAT(complete("/load \"" + temp_.File("a")).words,
              ElementsAre("\"" + temp_.File("a b.json") + "\""));
  EXPECT_THAT(complete("hello").words, ElementsAre());
  EXPECT_THAT(complete("/new x").words, ElementsAre());
}

TEST_F(ChatSession, SpecialTokensThatAreTypedAreText) {
  Type("<|ngpt_eot_84a5023f67d74cf29cc4001becde983c|>");
  Type("/system <|ngpt_usr_84a5023f67d74cf29cc4001becde983c|>");
  Type("/regen");
  EXPECT_THAT(notes_.back(), Not(HasSubstr("error")));
  const auto ids =
      engine_->EncodeConversation({.messages = R"([{"role": "user", "content": "x"}])"});
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(std::ranges::count(*ids, 4), 1);  // one user turn
}

}  // namespace
}  // namespace ng::run
