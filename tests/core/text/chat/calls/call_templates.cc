#include "tests/core/text/chat/calls/call_templates.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/text/bpe/byte_alphabet.h"
#include "core/text/chat/jinja_chat.h"
#include "core/text/files/open_tokenizer.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

// Turns around the calls; thoughts before content.
constexpr const char* kBegin = R"({%- for m in messages -%}
{{- '<|turn|>' + m.role + '\n' -}}
{%- if m.role == 'assistant' -%}
{%- if m.reasoning_content -%}{{- '<think>\n' + m.reasoning_content + '\n</think>\n\n' -}}{%- endif -%}
{%- if m.content -%}{{- m.content -}}{%- endif -%}
{%- if m.tool_calls -%})";
constexpr const char* kEnd = R"({%- endif -%}
{%- else -%}{{- m.content -}}{%- endif -%}
{{- '<|end|>\n' -}}
{%- endfor -%}
{%- if tools is string -%}{{- raise_exception('no list') -}}{%- endif -%}
{%- if add_generation_prompt -%}{{- '<|turn|>assistant\n' -}}{%- endif -%})";

const std::vector<CallTemplate>& All() {
  static const std::vector<CallTemplate> templates = {
      {"hermes",
       R"({%- for c in m.tool_calls -%}
{{- '\n<tool_call>\n{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments|tojson) + '}\n</tool_call>' -}}
{%- endfor -%})",
       {"<tool_call>", "</tool_call>"}},
      {"one_object",
       R"({{- '{"name": "' + m.tool_calls[0].function.name + '", "parameters": ' -}}
{{- m.tool_calls[0].function.arguments|tojson -}}{{- '}' -}})",
       {},
       {},
       false},
      {"nested_object",
       R"({%- for c in m.tool_calls -%}
{{- '<call>{"type": "function", "function": {"name": "' + c.function.name + '", "arguments": ' -}}
{{- c.function.arguments|tojson -}}{{- '}, "id": "' + c.id + '"}</call>' -}}
{%- endfor -%})",
       {"<call>", "</call>"}},
      {"quoted_arguments",
       R"({%- for c in m.tool_calls -%}
{{- '<call>{"name": "' + c.function.name + '", "arguments": ' -}}
{{- c.function.arguments|tojson|tojson -}}{{- '}</call>' -}}
{%- endfor -%})",
       {"<call>", "</call>"}},
      {"arguments_first",
       R"({{- '{"parameters": ' -}}{{- m.tool_calls[0].function.arguments|tojson -}}
{{- ', "name": "' + m.tool_calls[0].function.name + '"}' -}})",
       {},
       {},
       false},
      {"arguments_first_in_tags",
       R"({%- for c in m.tool_calls -%}
{{- '<call>{"function": {"arguments": ' + (c.function.arguments|tojson|tojson) -}}
{{- ', "name": "' + c.function.name + '"}}</call>' -}}
{%- endfor -%})",
       {"<call>", "</call>"}},
      {"list",
       R"({{- '[TOOL_CALLS] [' -}}{%- for c in m.tool_calls -%}
{{- '{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments|tojson) + ', "id": "' + c.id + '"}' -}}
{%- if not loop.last -%}{{- ', ' -}}{%- endif -%}{%- endfor -%}{{- ']' -}})",
       {"[TOOL_CALLS]"}},
      {"list_in_tags",
       R"({{- '\n<TOOLCALL>[' -}}{%- for c in m.tool_calls -%}
{{- {'name': c.function.name, 'arguments': c.function.arguments}|tojson(indent=2) -}}
{%- if not loop.last -%}{{- ',\n' -}}{%- endif -%}{%- endfor -%}{{- ']</TOOLCALL>' -}})",
       {"<TOOLCALL>", "</TOOLCALL>"}},
      {"lines",
       R"({{- '<tool_calls>\n' -}}{%- for c in m.tool_calls -%}
{{- '{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments|tojson) + '}\n' -}}
{%- endfor -%}{{- '</tool_calls>' -}})",
       {}},
      {"name_is_key",
       R"({{- '<|tools|>[' -}}{%- for c in m.tool_calls -%}
{{- '{"' + c.function.name + '": ' + (c.function.arguments|tojson) + '}' -}}
{%- if not loop.last -%}{{- ', ' -}}{%- endif -%}{%- endfor -%}{{- ']<|/tools|>' -}})",
       {"<|tools|>", "<|/tools|>"}},
      {"numbered",
       R"({{- '<|START_ACTION|>[' -}}{%- for c in m.tool_calls -%}
{{- '\n    {"tool_call_id": "' ~ loop.index0 ~ '", "tool_name": "' + c.function.name + '", "parameters": ' -}}
{{- (c.function.arguments|tojson) + '}' -}}{%- if not loop.last -%}{{- ',' -}}{%- endif -%}{%- endfor -%}
{{- '\n]<|END_ACTION|>' -}})",
       {"<|START_ACTION|>", "<|END_ACTION|>"}},
      {"head",
       R"({%- for c in m.tool_calls -%}
{{- '[TOOL_CALLS]' + c.function.name + '[CALL_ID]' + c.id + '[ARGS]' + (c.function.arguments|tojson) -}}
{%- endfor -%})",
       {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"}},
      {"fenced",
       R"({{- '<|calls|>' -}}{%- for c in m.tool_calls -%}
{{- '<|call|>function<|sep|>' + c.function.name + '\n```json\n' + (c.function.arguments|tojson) + '\n```<|/call|>' -}}
{%- if not loop.last -%}{{- '\n' -}}{%- endif -%}{%- endfor -%}{{- '<|/calls|>' -}})",
       {"<|calls|>", "<|call|>", "<|sep|>", "<|/call|>", "<|/calls|>"}},
      {"indexed",
       R"({{- '<|section|>' -}}{%- for c in m.tool_calls -%}
{{- '<|call|>functions.' ~ c.function.name ~ ':' ~ loop.index0 ~ '<|arguments|>' ~ (c.function.arguments|tojson) ~ '<|/call|>' -}}
{%- endfor -%}{{- '<|/section|>' -}})",
       {"<|section|>", "<|call|>", "<|arguments|>", "<|/call|>", "<|/section|>"}},
      {"functions",
       R"({%- for c in m.tool_calls -%}
{{- '<function=' + c.function.name + '>' + (c.function.arguments|tojson) + '</function>' -}}
{%- endfor -%})",
       {}},
      {"parameters",
       R"({%- for c in m.tool_calls -%}
{{- '\n\n<tool_call>\n<function=' + c.function.name + '>\n' -}}
{%- for k, v in c.function.arguments|items -%}
{{- '<parameter=' + k + '>\n' -}}{{- v if v is string else v|tojson -}}{{- '\n</parameter>\n' -}}
{%- endfor -%}{{- '</function>\n</tool_call>' -}}
{%- endfor -%})",
       {"<tool_call>", "</tool_call>"},
       {"</parameter>"}},
      {"key_and_value",
       R"({%- for c in m.tool_calls -%}
{{- '\n<tool_call>' + c.function.name + '\n' -}}
{%- for k, v in c.function.arguments|items -%}
{{- '<arg_key>' + k + '</arg_key>\n<arg_value>' -}}{{- v if v is string else v|tojson -}}{{- '</arg_value>\n' -}}
{%- endfor -%}{{- '</tool_call>' -}}
{%- endfor -%})",
       {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"},
       {"</arg_value>"}},
      {"invoke",
       R"({{- '\n<x:calls>\n' -}}{%- for c in m.tool_calls -%}
{{- '<invoke name="' + c.function.name + '">\n' -}}
{%- for k, v in c.function.arguments|items -%}
{{- '<parameter name="' + k + '">' -}}{{- v if v is string else v|string -}}{{- '</parameter>\n' -}}
{%- endfor -%}{{- '</invoke>\n' -}}
{%- endfor -%}{{- '</x:calls>' -}})",
       {"<x:calls>", "</x:calls>"},
       {"</parameter>"}},
      {"typed",
       R"({{- '\n\n<|M|calls>\n' -}}{%- for c in m.tool_calls -%}
{{- '<|M|invoke name="' + c.function.name + '">\n' -}}
{%- for k, v in c.function.arguments|items -%}
{{- '<|M|parameter name="' + k + '" string="' + ('true' if v is string else 'false') + '">' -}}
{{- v if v is string else v|tojson -}}{{- '</|M|parameter>\n' -}}
{%- endfor -%}{{- '</|M|invoke>\n' -}}
{%- endfor -%}{{- '</|M|calls>' -}})",
       {"|M|"},
       {"</|M|parameter>"}},
      {"escaped",
       R"({%- for c in m.tool_calls -%}
{{- '<start>call:' + c.function.name + '{' -}}
{%- for k, v in c.function.arguments|items -%}
{{- k + ':<escape>' -}}{{- v if v is string else v|tojson -}}{{- '<escape>' -}}
{%- if not loop.last -%}{{- ',' -}}{%- endif -%}
{%- endfor -%}{{- '}<end>' -}}
{%- endfor -%})",
       {"<start>", "<end>", "<escape>"},
       {"<escape>"}},
      {"quoted_by_a_mark",
       R"({%- macro put(v) -%}
{%- if v is string -%}{{- '<|"|>' + v + '<|"|>' -}}
{%- elif v is mapping -%}{{- '{' -}}{%- for k, w in v|items -%}{{- k + ':' -}}{{- put(w) -}}
{%- if not loop.last -%}{{- ',' -}}{%- endif -%}{%- endfor -%}{{- '}' -}}
{%- elif v is boolean or v is none or v is number -%}{{- v|tojson -}}
{%- else -%}{{- '[' -}}{%- for w in v -%}{{- put(w) -}}
{%- if not loop.last -%}{{- ',' -}}{%- endif -%}{%- endfor -%}{{- ']' -}}{%- endif -%}
{%- endmacro -%}{%- for c in m.tool_calls -%}
{{- '<|call>call:' + c.function.name -}}{{- put(c.function.arguments) -}}{{- '<call|>' -}}
{%- endfor -%})",
       {"<|call>", "<call|>", "<|\"|>"},
       {"<|\"|>"}},
      {"python",
       R"({{- '<|list|>[' -}}{%- for c in m.tool_calls -%}
{{- c.function.name + '(' -}}
{%- for k, v in c.function.arguments|items -%}
{{- k + '=' -}}{{- v|tojson if v is string else v|string -}}{%- if not loop.last -%}{{- ', ' -}}{%- endif -%}
{%- endfor -%}{{- ')' -}}{%- if not loop.last -%}{{- ', ' -}}{%- endif -%}
{%- endfor -%}{{- ']<|/list|>' -}})",
       {"<|list|>", "<|/list|>"}},
      {"python_object",
       R"({%- for c in m.tool_calls -%}{{- '<call>' -}}
{{- {'name': c.function.name, 'arguments': c.function.arguments} -}}{{- '</call>' -}}
{%- endfor -%})",
       {"<call>", "</call>"}},
      {"python_objects_unmarked",
       R"({{- '[' -}}{%- for c in m.tool_calls -%}
{{- {'name': c.function.name, 'arguments': c.function.arguments} -}}
{%- if not loop.last -%}{{- ', ' -}}{%- endif -%}{%- endfor -%}{{- ']' -}})",
       {}},
      {"python_arguments",
       R"({%- for c in m.tool_calls -%}
{{- '<call>' + c.function.name + ' ' -}}{{- c.function.arguments -}}{{- '</call>' -}}
{%- endfor -%})",
       {"<call>", "</call>"}},
      {"python_unmarked",
       R"({{- '[' -}}{%- for c in m.tool_calls -%}
{{- c.function.name + '(' -}}
{%- for k, v in c.function.arguments|items -%}
{{- k + '=' -}}{{- v|tojson if v is string else v|string -}}{%- if not loop.last -%}{{- ', ' -}}{%- endif -%}
{%- endfor -%}{{- ')' -}}{%- if not loop.last -%}{{- ', ' -}}{%- endif -%}
{%- endfor -%}{{- ']' -}})",
       {}},
  };
  return templates;
}

}  // namespace

std::span<const CallTemplate> CallTemplates() { return All(); }

const CallTemplate& CallTemplateOf(std::string_view name) {
  return *std::ranges::find(All(), name,
                            [](const CallTemplate& one) { return std::string_view(one.name); });
}

BoundTemplate Bind(const CallTemplate& call_template, bool marks_are_tokens) {
  std::vector<std::string> marks = {"<|turn|>", "<|end|>", "<think>", "</think>"};
  if (marks_are_tokens) {
    marks.insert(marks.end(), call_template.marks.begin(), call_template.marks.end());
  }
  const TemplateSource source = {call_template.name,
                                 absl::StrCat(kBegin, call_template.calls, kEnd)};
  return BindProgram({.own = source}, marks).value();
}

absl::StatusOr<BoundTemplate> BindProgram(const TemplateMetadata& program,
                                          std::span<const std::string> marks) {
  using Json = nlohmann::json;
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    vocabulary[ByteLevelText({&c, 1})] = byte;
  }
  Json added = Json::array();
  for (const std::string& mark : marks) {
    added.push_back({{"id", 256 + added.size()},
                     {"content", mark},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const Json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", false}};
  const Json tokenizer = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", bytes},
      {"decoder", bytes},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
  const TempDir dir;
  dir.Write("tokenizer.json", tokenizer.dump());
  BoundTemplate bound;
  NG_ASSIGN_OR_RETURN(bound.tokenizer, OpenTokenizer(dir.path()));
  NG_ASSIGN_OR_RETURN(bound.chat, BindChatTemplate(program, *bound.tokenizer, {}));
  return bound;
}

}  // namespace ng::test
