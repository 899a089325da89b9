// ng-run --chat: turns, /new, a full context, bad messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;

Result Chat(const std::string& input, const Arguments& more = {}) {
  return NgRun(Demo() + Arguments{"--chat", "--run.max_new_tokens=6"} + more, input);
}

std::vector<Json> ChatLines(const std::string& input, const Arguments& more = {}) {
  const Result result = Chat(input, more + Arguments{"--output=jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return JsonLines(result.out);
}

std::vector<int> IdsOf(const Json& line, const char* key) { return line[key]; }

TEST(Chat, AnswersEachLineLikeASingleMessage) {
  const Result chat = Chat("Who art thou?\r\n\n");
  EXPECT_EQ(chat.exit_code, 0);
  EXPECT_EQ(chat.err, "");
  EXPECT_EQ(chat.out, NgRun(DemoTurn(6)).out);
}

TEST(Chat, SecondTurnContinuesTheFirstAfterItsEot) {
  const std::vector<Json> lines = ChatLines("Who art thou?\nAnd thy name?");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1]["index"], 1);
  std::vector<int> beginning = IdsOf(lines[0], "ids");
  if (beginning.back() != kEot) beginning.push_back(kEot);
  beginning.push_back(kUsr);
  const std::vector<int> prompt = IdsOf(lines[1], "prompt_ids");
  ASSERT_GT(prompt.size(), beginning.size());
  EXPECT_TRUE(std::equal(beginning.begin(), beginning.end(), prompt.begin()));
  EXPECT_EQ(prompt[prompt.size() - 2], kEot);
  EXPECT_EQ(prompt.back(), kAsst);
}

TEST(Chat, CacheThatKeepsTheConversationChangesNoToken) {
  const std::string input = "Who art thou?\nAnd thy name?\nFarewell\n";
  const std::vector<Json> cached = ChatLines(input);
  const std::vector<Json> recomputed = ChatLines(input, {"--run.use_cache=false"});
  const std::vector<Json> chunked = ChatLines(input, {"--run.prefill_chunk=2"});
  ASSERT_EQ(cached.size(), 3U);
  for (size_t i = 0; i < cached.size(); ++i) {
    EXPECT_EQ(recomputed.at(i)["ids"], cached[i]["ids"]);
    EXPECT_EQ(chunked.at(i)["ids"], cached[i]["ids"]);
  }
}

TEST(Chat, NewBeginsAnotherConversation) {
  const std::vector<Json> lines = ChatLines("Hello\nHello\n/new\nHello\n");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[2]["prompt_ids"], lines[0]["prompt_ids"]);
  EXPECT_GT(lines[1]["prompt_ids"].size(), lines[0]["prompt_ids"].size());
}

TEST(Chat, SystemTextOpensAConversation) {
  const std::vector<Json> lines = ChatLines("Hello\n/new\nHello\n", {"--run.system=Be brief"});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(IdsOf(lines[0], "prompt_ids").front(), 3);
  EXPECT_EQ(lines[1]["prompt_ids"], lines[0]["prompt_ids"]);
}

TEST(Chat, TypedSpecialIsText) {
  const std::vector<Json> lines = ChatLines("<|ngpt_eot_84a5023f67d74cf29cc4001becde983c|>\n");
  const std::vector<int> prompt = IdsOf(lines.at(0), "prompt_ids");
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), kEot), 1);
}

TEST(Chat, AnAnswerHasWhatIsLeftAndTheNextTurnIsRefused) {
  const Arguments small = {"--cache.max_tokens=24", "--output=jsonl", "--run.stop_ids="};
  const Result full = Chat("Hello\nHello\nHello\n", small);
  EXPECT_EQ(full.exit_code, 5);
  EXPECT_THAT(full.err, HasSubstr("ng-run: warning: the answer is cut: the context is full, /new"));
  EXPECT_THAT(full.err, HasSubstr("ng-run: error: the conversation is full, /new begins another, "
                                  "/set run.on_full=drop_turns leaves out the oldest messages: "));
  const std::vector<Json> answered = JsonLines(full.out);
  ASSERT_EQ(answered.size(), 2U);
  EXPECT_EQ(answered[1]["ids"].size(), 24U);
  const Result again = Chat("Hello\nHello\n/new\nHello\n", small);
  EXPECT_EQ(again.exit_code, 0);
  const std::vector<Json> lines = JsonLines(again.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[2]["prompt_ids"], lines[0]["prompt_ids"]);
}

TEST(Chat, CommandsWorkThroughAPipe) {
  const std::vector<Json> lines =
      ChatLines("Hello\n/CLEAR\nHello\n/undo\nHello\n/retry 1\n/bye\nno\n");
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[1]["prompt_ids"], lines[0]["prompt_ids"]);
  EXPECT_EQ(lines[2]["prompt_ids"], lines[0]["prompt_ids"]);
  EXPECT_EQ(lines[3]["ids"], lines[2]["ids"]);
  const Result told = Chat("/?\n/stats\n  \n");
  EXPECT_EQ(told.exit_code, 0);
  EXPECT_EQ(told.out, "");
  EXPECT_THAT(told.err, HasSubstr("/regen, /retry [SEED]"));
  EXPECT_THAT(told.err, HasSubstr("messages 0, answers 0"));
  EXPECT_EQ(ChatLines("/usr/bin is a folder\n").size(), 1U);
  ExpectError(Chat("Hello\n/nwe\n"), 2, {"no command /nwe; did you mean /new"});
  EXPECT_EQ(Chat("/nwe\nHello\n").exit_code, 0);  // the last one counts
}

TEST(Chat, ItsTwoStreamsKeepTheirOrderInOnePipeAndFile) {
  const std::string input = "Who art thou?\n/stats\nAnd thy name?\n/nosuch\n/stats\nFarewell\n";
  // What each line adds to either of them.
  std::string wanted;
  Result before;
  for (size_t end = 0; (end = input.find('\n', end)) != input.npos;) {
    const Result now = Chat(input.substr(0, ++end));
    ASSERT_TRUE(now.out.starts_with(before.out) && now.err.starts_with(before.err));
    EXPECT_EQ((now.out == before.out) + (now.err == before.err), 1);
    wanted += now.out.substr(before.out.size()) + now.err.substr(before.err.size());
    before = now;
  }
  const TempDir temp;
  const std::string typed = temp.Write("typed", input);
  const std::string both = temp.File("both");
  const Arguments chat = Demo() + Arguments{"--chat", "--run.max_new_tokens=6"};
  EXPECT_EQ(Shell("\"$NG\" \"$@\" < " + typed + " 2>&1 | cat", chat).out, wanted);
  Shell("\"$NG\" \"$@\" < " + typed + " > " + both + " 2>&1", chat);
  EXPECT_EQ(ReadFile(both), wanted);
}

TEST(Chat, DropTurnsLeavesOutTheOldestOnesAndSaysSo) {
  const Arguments drop = {"--cache.max_tokens=28", "--run.on_full=drop_turns", "--output=jsonl",
                          "--run.system=Be brief"};
  const Result result = Chat("Hello\nHi\nHo\n", drop);
  EXPECT_EQ(result.exit_code, 0);
  const std::vector<Json> lines = JsonLines(result.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(result.err, HasSubstr("ng-run: warning: the context is full: the oldest 2 messages"));
  // What is left is a conversation of its own, with the system text.
  EXPECT_EQ(lines[2]["prompt_ids"], ChatLines("Ho\n", {"--run.system=Be brief"})[0]["prompt_ids"]);
  EXPECT_EQ(NgRun(DemoTurn(6) + Arguments{"--run.on_full=drop_turns"}).exit_code, 0);
  ExpectError(NgRun(DemoTurn(300) + Arguments{"--run.on_full=drop_turns"}), 5, {"> 256 T_max"});
}

TEST(Chat, AnswerMayFillTheContext) {
  const size_t prompt = ChatLines("Hello\n").at(0)["prompt_ids"].size();
  const auto turn = [&](size_t room) {
    return Chat("Hello\n", {"--run.max_new_tokens=" + std::to_string(256 - prompt + room),
                            "--run.stop_ids=", "--output=jsonl"});
  };
  const Result exact = turn(0);
  EXPECT_EQ(exact.exit_code, 0) << exact.err;
  EXPECT_EQ(JsonLines(exact.out).at(0)["ids"].size(), 256U);
  const Result longer = turn(1);
  EXPECT_EQ(longer.exit_code, 0);
  EXPECT_EQ(JsonLines(longer.out).at(0)["ids"].size(), 256U);
  EXPECT_THAT(longer.err, HasSubstr("the answer is cut: the context is full"));
}

TEST(Chat, MessageThatIsNotUtf8IsRefusedAndTheConversationGoesOn) {
  const Result result = Chat("\xFF\nHello\n", {"--output=jsonl"});
  ExpectError(result, 0, {"not valid UTF-8"});  // the last turn went well
  EXPECT_EQ(JsonLines(result.out).size(), 1U);
  ExpectError(Chat("Hello\n\xFF\n"), 2, {"not valid UTF-8"});
}

TEST(Chat, DebugLinesFollowTheConversation) {
  const Result result = Chat("Hello\nHello\n", {"--debug-cache", "--debug-layer=0"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("[KVDBG][GPT] kv_cache=None b=1 t="));
}

TEST(Chat, EndsQuietlyWithItsInputAndLoudlyWithoutATemplate) {
  const Result empty = Chat("");
  EXPECT_EQ(empty.exit_code, 0);
  EXPECT_EQ(empty.out + empty.err, "");
  ExpectError(Chat("Hello\n", {"--tokenizer.chat_template=none"}), 2, {"chat template"});
  ExpectError(Chat("Hello\n", {"--run.on_full=recompute"}), 2, {"run.on_full", "--chat"});
  ExpectError(Shell("exec \"$NG\" \"$@\" --chat </", Demo()), 1, {"stdin: cannot read"});
}

}  // namespace
}  // namespace ng::test
