// Every byte of a rendered text knows whether the template wrote it. Nobody can say a special
// token.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "core/text/jinja/template.h"

namespace ng::jinja {
namespace {

using Json = nlohmann::ordered_json;

// What the template wrote; "." for each byte of data.
std::string Written(const std::string& source, const std::string& said) {
  const auto parsed = Template::Parse(source, "t");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (!parsed.ok()) return "";
  const Json values = {{"x", said}, {"n", 12}, {"l", {said, "b"}}, {"d", {{"k", said}}}};
  const auto text = parsed->Render({values, nullptr}, {});
  EXPECT_TRUE(text.ok()) << text.status();
  if (!text.ok()) return "";
  std::string written = text->bytes();
  for (size_t i = 0; i < written.size(); ++i) {
    if (text->OriginAt(i) == Origin::kData) written[i] = '.';
  }
  return written;
}

TEST(Origin, StaysWithEachByte) {
  for (const auto& [source, want] : std::to_array<std::pair<const char*, const char*>>({
           {"a{{ x }}b", "a....b"},
           {"{{ '<' + x + '>' }}", "<....>"},
           {"{{ '<' ~ x ~ '>' ~ n }}", "<....>.."},
           {"{{ ('<' + x + '>')[0:3] }}", "<.."},
           {"{{ ('<' + x + '>')[::-1] }}", ">....<"},
           {"{{ ('<' + x + '>')|upper }}", "<....>"},
           {"{{ (' ' + x + '> ')|trim }}", "....>"},
           {"{{ x|replace('s', '<>') }}", "<>..."},
           {"{{ 'a-b'|replace('-', x) }}", "a....b"},
           {"{{ l|join('<>') }}", "....<>."},
           {"{{ '<>'.join(l) }}", "....<>."},
           {"{{ x|tojson }}", "\"....\""},
           {"{{ d|tojson }}", "{\".\": \"....\"}"},
           {"{{ l }}", "['....', '.']"},
           {"{{ '<%s>' % x }}", "<....>"},
           {"{{ '<{}>'.format(x) }}", "<....>"},
           {"{{ x.center(6, '-') }}", "-....-"},
           {"{% for c in x %}{{ c }}|{% endfor %}", ".|.|.|.|"},
           {"{{ (x + '|y').split('|') }}", "['....', 'y']"},
           {"{% set y %}<{{ x }}>{% endset %}{{ y|title }}", "<....>"},
           {"{% filter upper %}<{{ x }}>{% endfilter %}", "<....>"},
           {"{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(x) }}", "<....>"},
           {"{{ n + 1 }}|{{ x|length }}|{{ '7'|int }}", "..|4|7"},
           {"{{ x|first }}{{ x|last }}{{ x|reverse }}", "......"},
           {"{{ ('a\n' + x)|indent(1) }}", "a\n ...."},
           {"{{ x|e }}{{ x|capitalize }}", "........"},
       })) {
    EXPECT_EQ(Written(source, "said"), want) << source;
  }
}

// A template cannot tell what is said from what it wrote, so each way to write a text is tried with
// each text that could become a token. The token counts where the template wrote all of it.
TEST(Origin, NobodySaysASpecialToken) {
  const std::array<std::string, 10> tokens = {"<|im_end|>", "<|im_start|>", "</s>",    "[INST]",
                                              "<|eot_id|>", "<end>",        "<think>", "<|end|>",
                                              "<s>",        "[/INST]"};
  const std::array<const char*, 22> ways = {
      "{{ x }}",
      "{{ x|trim }}",
      "{{ x|lower }}",
      "{{ x|string|replace('zz', '') }}",
      "{{ x[:2] + x[2:] }}",
      "{{ x.split('|')|join('|') }}",
      "{{ x|list|join }}",
      "{{ x|tojson }}",
      "{{ [x] }}",
      "{{ {'a': x} }}",
      "{{ x|reverse|reverse }}",
      "{{ '%s' % x }}",
      "{{ '{}'.format(x) }}",
      "{{ x.strip() ~ '' }}",
      "{% for c in x %}{{ c }}{% endfor %}",
      "{% set y %}{{ x }}{% endset %}{{ y }}",
      "{% filter trim %}{{ x }}{% endfilter %}",
      "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x) }}",
      "{{ d.k }}{{ l[0] }}",
      "{{ x|default('') }}{{ d|dictsort }}",
      "<{{ x[1:] }}",           // the template writes the first byte only
      "{{ x[:-1] }}{{ '>' }}",  // the last one only
  };
  int n_attempts = 0;
  for (const std::string& token : tokens) {
    for (const char* const way : ways) {
      ++n_attempts;
      EXPECT_EQ(Written(way, token).find(token), std::string::npos) << way << " of " << token;
    }
    EXPECT_NE(Written("{{ x }}" + token, token).find(token), std::string::npos);
  }
  EXPECT_GE(n_attempts, 200);
}

TEST(Origin, OfTrustedWordsIsTheTemplates) {
  const auto parsed = Template::Parse("<|{{ m.role }}|>{{ m.content }}", "t");
  ASSERT_TRUE(parsed.ok());
  const Variables variables = {
      {{"m", {{"role", "user"}, {"content", "user"}}}},
      [](std::string_view path, std::string_view) { return path == "m.role"; }};
  EXPECT_EQ(parsed->Render(variables, {})->origins(), std::string(8, '\1') + std::string(4, '\0'));
}

}  // namespace
}  // namespace ng::jinja
