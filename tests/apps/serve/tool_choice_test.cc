#include "apps/serve/requests/tool_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ng::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Mode = ToolChoice::Mode;

struct ReadBackChoice {
  ToolChoice choice;
  std::string error;
};

ReadBackChoice ReadChoice(const std::string& choice, const std::string& tools) {
  const Json body = Json::parse(R"({"tool_choice":)" + choice + R"(,"tools":)" + tools + "}");
  Fields fields(body);
  ReadBackChoice read;
  read.choice = ReadToolChoice(fields, fields.Value("tools"));
  if (fields.error()) read.error = fields.error()->message;
  return read;
}

constexpr const char* kTwoTools =
    R"([{"type":"function","function":{"name":"look"}},{"type":"function","name":"jump"}])";

TEST(ToolChoice, ReadsEveryForm) {
  EXPECT_EQ(ReadChoice("null", kTwoTools).choice.mode, Mode::kAuto);
  EXPECT_EQ(ReadChoice(R"("auto")", "null").choice.mode, Mode::kAuto);
  EXPECT_EQ(ReadChoice(R"("none")", kTwoTools).choice.mode, Mode::kNone);
  const ToolChoice required = ReadChoice(R"("required")", kTwoTools).choice;
  EXPECT_EQ(required.mode, Mode::kRequired);
  EXPECT_THAT(required.names, IsEmpty());
  // As chats and as responses have it.
  for (const char* const text : {R"({"type":"function","function":{"name":"look"}})",
                                 R"({"type":"function","name":"look"})"}) {
    const ToolChoice named = ReadChoice(text, kTwoTools).choice;
    EXPECT_EQ(named.mode, Mode::kRequired);
    EXPECT_THAT(named.names, ElementsAre("look"));
  }
  for (const char* const text :
       {R"({"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[
            {"type":"function","function":{"name":"jump"}},{"type":"function","name":"look"}]}})",
        R"({"type":"allowed_tools","mode":"auto","tools":[{"name":"jump"},{"name":"look"}]})"}) {
    const ToolChoice allowed = ReadChoice(text, kTwoTools).choice;
    EXPECT_EQ(allowed.mode, Mode::kAuto);
    EXPECT_THAT(allowed.names, ElementsAre("jump", "look"));
  }
}

TEST(ToolChoice, RefusesWhatItCannotMean) {
  for (const char* const text :
       {R"("any")", "3", "[]", R"({"type":"tool"})", R"({"type":"function"})",
        R"({"type":"allowed_tools"})", R"({"type":"allowed_tools","mode":"none","tools":[{}]})",
        R"({"type":"allowed_tools","mode":"auto","tools":[]})",
        R"({"type":"allowed_tools","mode":"auto","tools":[{}]})"}) {
    EXPECT_THAT(ReadChoice(text, kTwoTools).error, ::testing::StartsWith("tool_choice = ")) << text;
  }
  EXPECT_EQ(ReadChoice(R"({"type":"function","name":"run"})", kTwoTools).error,
            "tool_choice names 'run', which is none of the tools");
  EXPECT_EQ(ReadChoice(R"("required")", "[]").error, "tool_choice = \"required\", needs tools");
  EXPECT_EQ(ReadChoice(R"("required")", "null").error, "tool_choice = \"required\", needs tools");
}

}  // namespace
}  // namespace ng::serve
