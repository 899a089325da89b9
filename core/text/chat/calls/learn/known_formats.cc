#include "core/text/chat/calls/learn/known_formats.h"

#include <string_view>

#include "absl/strings/match.h"
#include "core/base/absl_view.h"

namespace ng::calls {
namespace {

using PartKind = HeadPart::Kind;

bool Has(const ProbedTemplate& probed, std::string_view mark) {
  return absl::StrContains(View(probed.program), View(mark));
}

// A token of the model's, which the template need not write.
bool IsMark(const ProbedTemplate& probed, std::string_view mark) {
  const Symbols symbols = probed.mark(mark);
  return symbols.size() == 1 && IsToken(symbols.front());
}

// gpt-oss: every message has a channel. Its template refuses most of what could be asked of it, and
// the model writes the parts of a call's head in two orders.
CallFormat Harmony(const ProbedTemplate& probed) {
  const auto literal = [&](std::string_view text) {
    return HeadPart{PartKind::kLiteral, probed.mark(text)};
  };
  CallFormat format;
  const HeadPart name = {PartKind::kName, {}};
  for (const char* const type :
       {"<|channel|>commentary json<|message|>",
        "<|channel|>commentary <|constrain|>json<|message|>", "<|channel|>commentary<|message|>"}) {
    format.heads.push_back({literal("to=functions."), name, literal(type)});
  }
  for (const char* const type :
       {"<|constrain|>json<|message|>", "json<|message|>", "<|message|>"}) {
    format.heads.push_back({literal("<|channel|>commentary to=functions."), name, literal(type)});
  }
  for (const char* const end : {"<|call|>", "<|end|>"}) {
    format.call_end.push_back(probed.mark(end));
  }
  format.ends_differ = true;
  format.several = false;
  format.reasoning_begin = probed.mark("<|channel|>analysis<|message|>");
  format.reasoning_end = probed.mark("<|end|>");
  for (const char* const skipped : {"<|start|>assistant", "<|channel|>final<|message|>",
                                    "<|channel|>commentary<|message|>", "<|end|>"}) {
    format.skipped.push_back(probed.mark(skipped));
  }
  return format;
}

// Kimi K2: the name of a call is a part of its id, which is all that the template writes.
CallFormat Kimi(const ProbedTemplate& probed) {
  CallFormat format;
  format.section_begin = probed.mark("<|tool_calls_section_begin|>");
  format.call_begin = probed.mark("<|tool_call_begin|>");
  format.heads = {{{PartKind::kLiteral, probed.mark("functions.")},
                   {PartKind::kName, {}},
                   {PartKind::kLiteral, probed.mark(":")},
                   {PartKind::kIndex, {}},
                   {PartKind::kLiteral, probed.mark("<|tool_call_argument_begin|>")}}};
  format.head_is_id = true;
  format.call_end = {probed.mark("<|tool_call_end|>")};
  format.section_end = {probed.mark("<|tool_calls_section_end|>")};
  return format;
}

// Mistral from version 11 on, where a template writes none of its calls.
CallFormat Mistral(const ProbedTemplate& probed) {
  CallFormat format;
  format.call_begin = probed.mark("[TOOL_CALLS]");
  format.heads = {{{PartKind::kName, {}}, {PartKind::kLiteral, probed.mark("[ARGS]")}},
                  {{PartKind::kName, {}},
                   {PartKind::kLiteral, probed.mark("[CALL_ID]")},
                   {PartKind::kId, {}},
                   {PartKind::kLiteral, probed.mark("[ARGS]")}}};
  return format;
}

// LFM2: calls as Python writes them, in a list. Granite 3: a list of objects. Their templates tell
// the model of tools and leave out its calls.
CallFormat Lfm2(const ProbedTemplate& probed) {
  CallFormat format;
  format.section_begin = probed.mark("<|tool_call_start|>") + U'[';
  format.heads = {{{PartKind::kName, {}}}};
  format.notation = {.python = true, .bare_keys = true, .open = '(', .close = ')', .colon = '='};
  format.separator = U",";
  format.section_end = {U"]", probed.mark("<|tool_call_end|>")};
  return format;
}

CallFormat Granite3(const ProbedTemplate& probed) {
  CallFormat format;
  format.section_begin = probed.mark("<|tool_call|>") + U'[';
  format.name_path = {"name"};
  format.arguments_path = {"arguments"};
  format.separator = U",";
  format.section_end = {U"]"};
  return format;
}

struct Family {
  std::string_view marks[3];  // that its template has
  CallFormat (*format)(const ProbedTemplate& probed);
  std::string_view token = {};  // that its tokenizer has
};
constexpr Family kFamilies[] = {
    {{"<|channel|>", "<|message|>", "<|call|>"}, Harmony},
    {{"<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_calls_section_begin|>"}, Kimi},
    {{"[TOOL_CALLS]", "[ARGS]", "[TOOL_RESULTS]"}, Mistral},
    {{"List of tools: ", "<|im_start|>", ""}, Lfm2, "<|tool_call_start|>"},
    {{"respond only with <|tool_call|> followed by a JSON list", "", ""}, Granite3},
};

constexpr std::string_view kThoughts[][2] = {{"<think>", "</think>"},
                                             {"[THINK]", "[/THINK]"},
                                             {"<seed:think>", "</seed:think>"},
                                             {"<|START_THINKING|>", "<|END_THINKING|>"}};

}  // namespace

std::optional<CallFormat> KnownFormat(const ProbedTemplate& probed) {
  for (const Family& family : kFamilies) {
    bool is_it = family.token.empty() || IsMark(probed, family.token);
    for (const std::string_view mark : family.marks) is_it = is_it && Has(probed, mark);
    if (is_it) return family.format(probed);
  }
  return std::nullopt;
}

std::pair<Symbols, Symbols> KnownThoughts(const ProbedTemplate& probed) {
  for (const auto& [begin, end] : kThoughts) {
    if (Has(probed, begin) || Has(probed, end)) return {probed.mark(begin), probed.mark(end)};
  }
  return {};
}

}  // namespace ng::calls
