// What a template writes of random calls is read back as these calls, wherever the text is cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/text/chat/calls/call_templates.h"
#include "tests/core/text/chat/calls/random_calls.h"
#include "tests/core/text/chat/calls/read_answer.h"

namespace ng::test {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

class RoundTrip : public testing::TestWithParam<std::pair<const char*, bool>> {};

Conversation Asked(const MadeUp& made) {
  return {.messages = Json::array({made.messages[0]}).dump(), .tools = made.tools.dump()};
}

Conversation Whole(const MadeUp& made) {
  return {.messages = made.messages.dump(), .tools = made.tools.dump(), .asks = false};
}

// Those of the last answer.
std::vector<int32_t> AnswerIds(const ChatTemplate& chat, const MadeUp& made) {
  const std::vector<int32_t> prompt = chat.Encode(Asked(made)).value();
  std::vector<int32_t> ids = chat.Encode(Whole(made)).value();
  ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(prompt.size()));
  ids.resize(static_cast<size_t>(std::ranges::find(ids, chat.eot()) - ids.begin()));
  return ids;
}

TEST_P(RoundTrip, GivesTheSameCalls) {
  const auto& [name, tokens] = GetParam();
  const CallTemplate& call_template = CallTemplateOf(name);
  const BoundTemplate bound = Bind(call_template, tokens);
  RandomCalls random(7, {}, {call_template.unwritable.begin(), call_template.unwritable.end()});
  for (int i = 0; i < 20; ++i) {
    const MadeUp made = MakeUp(random, call_template.several);
    const Conversation asked = Asked(made);
    const std::vector<int32_t> ids = AnswerIds(*bound.chat, made);

    const auto reader = [&] { return bound.chat->ReadAnswer(asked).value(); };
    const ReadBack read = ReadTokens(*bound.tokenizer, ids, *reader());
    EXPECT_EQ(Values(read), Values(made.said)) << name;
    EXPECT_EQ(read.content, made.said.content) << name;
    EXPECT_EQ(read.reasoning, made.said.reasoning) << name;
    // A token is a byte or a mark, so that was a cut at each of them.
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      ASSERT_EQ(ReadCut(*bound.tokenizer, ids, seed, *reader()), read) << name << " " << seed;
    }
  }
}

TEST_P(RoundTrip, SaysWhatDoesNotComeBack) {
  const auto& [name, tokens] = GetParam();
  const CallTemplate& call_template = CallTemplateOf(name);
  const BoundTemplate bound = Bind(call_template, tokens);
  const auto& unwritable = call_template.unwritable;
  RandomCalls random(11, {unwritable.begin(), unwritable.end()}, {});
  int n_said = 0;
  for (int i = 0; i < 40; ++i) {
    const MadeUp made = MakeUp(random, call_template.several);
    const auto reader = bound.chat->ReadAnswer(Asked(made)).value();
    const ReadBack read = ReadTokens(*bound.tokenizer, AnswerIds(*bound.chat, made), *reader);
    const std::string said = bound.chat->NotWritten(Whole(made)).value();
    n_said += said.empty() ? 0 : 1;
    if (Values(read) != Values(made.said)) {
      EXPECT_THAT(said, HasSubstr("cannot write")) << name << made.messages;
    }
  }
  if (unwritable.empty()) {
    EXPECT_EQ(n_said, 0) << name;
  }
  EXPECT_LT(n_said, 40) << name;
}

std::vector<std::pair<const char*, bool>> AllTemplates() {
  std::vector<std::pair<const char*, bool>> all;
  for (const CallTemplate& one : CallTemplates()) {
    all.emplace_back(one.name, true);
    if (!one.marks.empty()) all.emplace_back(one.name, false);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(, RoundTrip, testing::ValuesIn(AllTemplates()), [](const auto& info) {
  return std::string(info.param.first) + (info.param.second ? "" : "_in_bytes");
});

}  // namespace
}  // namespace ng::test
