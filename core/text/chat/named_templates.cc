#include "core/text/chat/named_templates.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/absl_view.h"
#include "ng/names.h"

namespace ng {
namespace {

struct Row {
  std::string_view name;
  std::array<std::string_view, 4> specials;  // unused ones are empty
  std::string_view program;                  // follows kPrelude
};

// What the programs below do not write is refused and not left out.
constexpr std::string_view kPrelude = R"(
{%- for m in messages -%}
  {%- if m.role not in ['system', 'user', 'assistant'] -%}
    {{ raise_exception('the role ' ~ m.role ~ ', must be system, user or assistant') }}
  {%- elif m.role == 'system' and not loop.first -%}
    {{ raise_exception('a system text after the first message') }}
  {%- elif m.content is not string or m.tool_calls is defined -%}
    {{ raise_exception('a message of the role ' ~ m.role ~ ' that is not only a text') }}
  {%- endif -%}
{%- endfor -%}
)";

#define NG_NIELS(role) "<|ngpt_" role "_84a5023f67d74cf29cc4001becde983c|>"

// "{gap}" is a space, but only for a tokenizer that treats spaces as transformers does; other
// tokenizers put a space there themselves. If several rows have the same name, the first one is
// taken whose special tokens the tokenizer has.
constexpr Row kRows[] = {
    {"niels",
     {NG_NIELS("sys"), NG_NIELS("usr"), NG_NIELS("asst"), NG_NIELS("eot")},
     "{%- set begins = {'system': '" NG_NIELS("sys") "', 'user': '" NG_NIELS(
         "usr") "', 'assistant': '" NG_NIELS("asst") "'} -%}"
                                                     "{%- for m in messages %}{{ begins[m.role] ~ "
                                                     "m.content ~ '" NG_NIELS(
                                                         "eot") "' }}{% endfor -%}"
                                                                "{%- if add_generation_prompt %}{{ "
                                                                "begins.assistant }}{% endif -%}"},
    {"chatml", {"<|im_start|>", "<|im_end|>"}, R"(
{%- for m in messages -%}
  {{ '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%})"},
    {"llama2", {"<s>", "</s>"}, R"(
{%- set ns = namespace(system='') -%}
{%- for m in messages -%}
  {%- if m.role == 'system' -%}
    {%- set ns.system = '<<SYS>>\n' ~ m.content ~ '\n<</SYS>>\n\n' if m.content else '' -%}
  {%- elif m.role == 'user' -%}
    {{ '<s>[INST] ' ~ (ns.system ~ m.content)|trim ~ ' [/INST]' }}
    {%- set ns.system = '' -%}
  {%- else -%}
    {{ ' ' ~ m.content|trim ~ ' </s>' }}
  {%- endif -%}
{%- endfor -%})"},
    {"llama3",
     {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     R"(
{{- '<|begin_of_text|>' -}}
{%- for m in messages -%}
  {{ '<|start_header_id|>' ~ m.role ~ '<|end_header_id|>\n\n' ~ m.content|trim ~ '<|eot_id|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif -%})"},
    {"zephyr", {"</s>"}, R"(
{%- for m in messages %}{{ '<|' ~ m.role ~ '|>\n' ~ m.content ~ '</s>\n' }}{% endfor -%}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif -%})"},
    // Two rows: the marks of an instruction are tokens (version 3 of the tokenizer), or text.
    {"mistral", {"<s>", "</s>", "[INST]", "[/INST]"}, R"(
{{- '<s>' -}}
{%- set ns = namespace(system='') -%}
{%- for m in messages -%}
  {%- if m.role == 'system' -%}
    {%- set ns.system = m.content ~ '\n\n' if m.content else '' -%}
  {%- elif m.role == 'user' -%}
    {{ '[INST]{gap}' ~ ns.system ~ m.content ~ '[/INST]' }}
    {%- set ns.system = '' -%}
  {%- else -%}
    {{ m.content ~ '</s>' }}
  {%- endif -%}
{%- endfor -%})"},
    {"mistral", {"<s>", "</s>"}, R"(
{{- '<s>' -}}
{%- set ns = namespace(system='') -%}
{%- for m in messages -%}
  {%- if m.role == 'system' -%}
    {%- set ns.system = m.content ~ '\n\n' if m.content else '' -%}
  {%- elif m.role == 'user' -%}
    {{ '[INST] ' ~ ns.system ~ m.content ~ ' [/INST]' }}
    {%- set ns.system = '' -%}
  {%- else -%}
    {{ m.content ~ '</s>' }}
  {%- endif -%}
{%- endfor -%})"},
};

#undef NG_NIELS

std::vector<std::string> AllNames() {
  std::vector<std::string> names = {std::string(kNoTemplate)};
  for (const Row& row : kRows) {
    if (names.back() != row.name) names.emplace_back(row.name);
  }
  return names;
}

std::string JoinedNames() {
  std::string joined;
  for (const std::string& name : AllNames()) {
    absl::StrAppend(&joined, joined.empty() ? "" : "|", name);
  }
  return joined;
}

absl::Status UnknownTemplate(std::string_view name, const std::vector<std::string>& own) {
  std::vector<std::string> names = AllNames();
  names.insert(names.end(), own.begin(), own.end());
  const std::optional<std::string> nearest = NearestName(name, names);
  return UsageError(absl::StrCat(
      "chat template \"", View(name), "\", must be auto, one of ", ChatTemplateNames(),
      own.empty() ? "" : absl::StrCat(", one of the model's own: ", absl::StrJoin(own, "|")),
      ", or a path with a '/' or a '.'", nearest ? "; did you mean " + *nearest + "?" : ""));
}

// The special token of a row that a tokenizer lacks, if any.
std::string_view MissingToken(const Row& row, const Tokenizer& tokenizer) {
  const std::vector<WholeToken> whole = tokenizer.WholeTokens();
  const auto missing = std::ranges::find_if(row.specials, [&](std::string_view literal) {
    return !literal.empty() && std::ranges::count(whole, literal, &WholeToken::text) == 0;
  });
  return missing == row.specials.end() ? std::string_view() : *missing;
}

}  // namespace

const char* ChatTemplateNames() {
  static const std::string names = JoinedNames();
  return names.c_str();
}

absl::StatusOr<std::string> NamedTemplate(std::string_view name, const Tokenizer& tokenizer,
                                          const std::vector<std::string>& own) {
  std::string_view missing;
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    missing = MissingToken(row, tokenizer);
    if (!missing.empty()) continue;
    const char* const gap = tokenizer.spaces_as_transformers() ? " " : "";
    return absl::StrReplaceAll(absl::StrCat(View(kPrelude), View(row.program)), {{"{gap}", gap}});
  }
  if (missing.empty()) return UnknownTemplate(name, own);
  return UsageError(absl::StrCat("chat template \"", View(name),
                                 "\": the tokenizer has no special token ", View(missing)));
}

std::string_view RecognisedTemplate(const Tokenizer& tokenizer) {
  // Base models have the tokens of the other templates too, so only niels can be recognised.
  const Row& niels = kRows[0];
  return MissingToken(niels, tokenizer).empty() ? niels.name : kNoTemplate;
}

}  // namespace ng
