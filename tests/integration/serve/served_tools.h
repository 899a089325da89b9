// A server whose model, by its chat template, calls tools and thinks. A grammar holds the tiny
// model to the text that a model with tools would write.
#ifndef NG_TESTS_INTEGRATION_SERVE_SERVED_TOOLS_H_
#define NG_TESTS_INTEGRATION_SERVE_SERVED_TOOLS_H_

#include <gtest/gtest.h>

#include <string>

#include "tests/integration/run_support.h"
#include "tests/integration/serve/server.h"
#include "tests/support/temp_dir.h"

namespace ng::test {

inline constexpr const char* kTwoCalls =
    "<think>hm</think>So. <call>{\"name\": \"look\", \"arguments\": {\"city\": \"Rome\"}}</call>"
    "<call>{\"name\": \"look\", \"arguments\": {\"city\": \"Oslo\"}}</call>";

class ServedTools : public ::testing::Test {
 protected:
  // What holds the answer to this text.
  static std::string GrammarOf(const std::string& answer) {
    std::string literal;
    for (const char c : answer) literal += c == '"' ? "\\\"" : std::string(1, c);
    return "root ::= \"" + literal + "\"";
  }
  // A chat whose answer is this text.
  static Json Asking(const std::string& answer, bool with_tools = true) {
    Json body = {{"messages", {{{"role", "user"}, {"content", "ask"}}}},
                 {"grammar", GrammarOf(answer)},
                 {"max_tokens", 400}};
    if (!with_tools) return body;
    const Json schema = Schema();
    body["tools"] = {{{"type", "function"},
                      {"function", {{"name", "look"}, {"parameters", schema}, {"strict", true}}}}};
    return body;
  }
  static Json Schema() {
    return {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}};
  }
  static std::string Program(const std::string& call) {
    return "{%- for m in messages -%}[{{ m.role }}]"
           "{%- if m.reasoning_content -%}<think>{{ m.reasoning_content }}</think>{%- endif -%}"
           "{{ m.content or '' }}{%- for c in m.tool_calls or [] -%}" +
           call +
           "{%- endfor -%}[end]{%- endfor -%}{{ '' if tools }}"
           "{%- if add_generation_prompt -%}[assistant]{%- endif -%}";
  }

  const TempDir folder_;
  const std::string template_ = folder_.Write(
      "calls.jinja", Program("<call>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
                             "{{ c.function.arguments|tojson }}}</call>"));
  const Server server_{{"--tokenizer.chat_template=" + template_}};
};

}  // namespace ng::test

#endif  // NG_TESTS_INTEGRATION_SERVE_SERVED_TOOLS_H_
