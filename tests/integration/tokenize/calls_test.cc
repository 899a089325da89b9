// ng-tokenize --calls: what was learned of a template's calls, and answers that are read by it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;

class CallsOfTools : public ::testing::Test {
 protected:
  Result Calls(const Arguments& more, const std::string& answer = "") const {
    Command command;
    command.program = "ng-tokenize";
    command.arguments = Arguments{"--tokenizer", NG_TEST_DATA "/tokenizers/spm_unigram", "--calls",
                                  "--template", template_} +
                        more;
    command.input = answer;
    return ng::test::Run(command);
  }
  Json Read(const std::string& answer) const {
    const Result result = Calls({"--tools", tools_}, answer);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out);
  }

  const TempDir folder_;
  std::string template_ = folder_.Write(
      "calls.jinja",
      "{%- for m in messages -%}[{{ m.role }}]{{ m.content or '' }}"
      "{%- for c in m.tool_calls or [] -%}<call={{ c.function.name }}>"
      "{%- for k, v in c.function.arguments|items -%}<{{ '' }}arg={{ k }}>"
      "{{ v if v is string else v|tojson }}</arg>{%- endfor -%}</call>{%- endfor -%}[end]"
      "{%- endfor -%}{%- if tools %}{% endif -%}{%- if add_generation_prompt -%}[assistant]"
      "{%- endif -%}");
  const std::string tools_ = folder_.Write(
      "tools.json", R"([{"type": "function", "function": {"name": "look", "parameters":
      {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}])");
};

TEST_F(CallsOfTools, AreShown) {
  const Result result = Calls({});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json shown = Json::parse(result.out);
  EXPECT_EQ(shown["call_begin"], "<call=");
  EXPECT_EQ(shown["heads"][0], "{name}>");
  EXPECT_EQ(shown["arguments"]["before_key"], "<arg=");
  EXPECT_EQ(shown["arguments"]["after_value"], "</arg>");
  EXPECT_EQ(shown["arguments"]["cannot_write"], Json::array());
  EXPECT_EQ(shown["call_end"], Json::array({"</call>"}));
}

TEST_F(CallsOfTools, AreReadInAnAnswer) {
  const Json read = Read("So. <call=look><arg=city>5</arg><arg=days>5</arg></call>");
  EXPECT_EQ(read["content"], "So.");
  EXPECT_EQ(read["tool_calls"].size(), 1U);
  EXPECT_EQ(read["tool_calls"][0]["name"], "look");
  EXPECT_EQ(Json::parse(read["tool_calls"][0]["arguments"].get<std::string>()),
            Json({{"city", "5"}, {"days", 5}}));
  EXPECT_EQ(Read("no call")["tool_calls"], Json::array());
}

TEST_F(CallsOfTools, AreRefusedWhereATemplateWritesNone) {
  template_ = folder_.Write("none.jinja", "{{ messages[0].content }}{{ tools|length }}");
  ExpectErrorOf("ng-tokenize", Calls({}), 2, {"none.jinja", "in no way that ng can read back"});
  template_ = folder_.Write("no_tools.jinja", "{{ messages[0].content }}");
  ExpectErrorOf("ng-tokenize", Calls({}), 2, {"no_tools.jinja takes none"});
  ExpectErrorOf("ng-tokenize", Calls({"--render"}), 2, {"--render needs --chat FILE"});
}

}  // namespace
}  // namespace ng::test
