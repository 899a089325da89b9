// How texts stand to grammars, and a small vocabulary, for the tests of the stage grammar.
#ifndef NG_TESTS_PLUGINS_SAMPLER_GRAMMAR_GRAMMAR_TESTING_H_
#define NG_TESTS_PLUGINS_SAMPLER_GRAMMAR_GRAMMAR_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ng/plugin.h"
#include "plugins/sampler/grammar/compile.h"
#include "plugins/sampler/grammar/masks/machine.h"

namespace ng::test {

// Token 0 is the stop id, token 1 another special one; then come all bytes and some longer texts.
struct GrammarVocabulary {
  explicit GrammarVocabulary(const std::vector<std::string>& more = {}) {
    texts = {"", "<name>"};
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    for (const char* text : {"ab", "abc", "\":", "\", \"", "\"}", "true", "null", "}}", "]}", "12",
                             "\": \"", "{\"", "{\"a", "1,", "é", " \"", "-1", "\n  "}) {
      texts.emplace_back(text);
    }
    texts.insert(texts.end(), more.begin(), more.end());
    views.assign(texts.begin(), texts.end());
    special.assign(texts.size(), 0);
    special[0] = special[1] = 1;
    context.model = {.vocab_size = std::ssize(texts), .max_positions = 1000};
    context.token_bytes = views;
    context.special = special;
    context.stop_ids = stop_ids;
  }
  int32_t IdOf(std::string_view text) const {
    return static_cast<int32_t>(std::ranges::find(texts, text) - texts.begin());
  }

  std::vector<std::string> texts;
  std::vector<std::string_view> views;
  std::vector<uint8_t> special;
  std::vector<int32_t> stop_ids = {0};
  PluginContext context;
};

// How a text stands to a grammar: "no", "begins", "matches", or "matches and ends".
inline std::string Standing(const absl::StatusOr<grammar::Program>& program,
                            std::string_view text) {
  if (!program.ok()) return std::string(program.status().message());
  absl::StatusOr<grammar::Machine> machine = grammar::Machine::Make(*program, 8);
  if (!machine.ok()) return std::string(machine.status().message());
  const absl::StatusOr<int32_t> now = machine->Advance(grammar::Machine::kStart, text);
  if (!now.ok()) return std::string(now.status().message());
  if (*now == grammar::Machine::kDead) return "no";
  if (machine->MustEnd(*now)) return "matches and ends";
  return machine->CanEnd(*now) ? "matches" : "begins";
}
inline std::string OfRegex(std::string_view pattern, std::string_view text) {
  return Standing(grammar::CompileRegex(pattern), text);
}
inline std::string OfGbnf(std::string_view rules, std::string_view text) {
  return Standing(grammar::CompileGbnf(rules), text);
}
inline std::string OfSchema(std::string_view schema, std::string_view text) {
  return Standing(grammar::CompileSchema(schema, {}), text);
}

// A text so many times.
inline std::string Times(const std::string& text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

}  // namespace ng::test

#endif  // NG_TESTS_PLUGINS_SAMPLER_GRAMMAR_GRAMMAR_TESTING_H_
