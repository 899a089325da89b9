// What a template writes of random calls is read back as these calls, wherever the text is cut.
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

class RoundTrip : public testing::TestWithParam<std::pair<const char*, bool>> {};

TEST_P(RoundTrip, GivesTheSameCalls) {
  const auto& [name, tokens] = GetParam();
  const CallTemplate& call_template = CallTemplateOf(name);
  const BoundTemplate bound = Bind(call_template, tokens);
  RandomCalls random(7, {}, {call_template.unwritable.begin(), call_template.unwritable.end()});
  for (int i = 0; i < 20; ++i) {
    const MadeUp made = MakeUp(random, call_template.several);
    const Json before = Json::array({made.messages[0]});
    const Conversation asked = {.messages = before.dump(), .tools = made.tools.dump()};
    const std::vector<int32_t> prompt = bound.chat->Encode(asked).value();
    std::vector<int32_t> ids =
        bound.chat
            ->Encode({.messages = made.messages.dump(), .tools = made.tools.dump(), .asks = false})
            .value();
    ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(prompt.size()));
    ids.resize(static_cast<size_t>(std::ranges::find(ids, bound.chat->eot()) - ids.begin()));

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
