// Grammars: what it takes to make one, as bytes that are allocated, and to hold an answer to it, as
// steps of the machine.
#include "plugins/sampler/grammar/grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/text/chat/calls/call_grammar.h"
#include "plugins/sampler/grammar/masks/machine.h"
#include "plugins/sampler/grammar/masks/masks.h"
#include "plugins/sampler/grammar/schema/compiler.h"
#include "tests/growth/grammar_texts.h"
#include "tests/growth/growth.h"
#include "tests/plugins/sampler/grammar/grammar_testing.h"

namespace ng::test {
namespace {

GrowthKind Making(const char* name, size_t size, const Written& write) {
  return {name, size, [write](size_t n) {
            std::string refusal;
            const std::optional<int64_t> bytes = BytesToMake(write(n), &refusal);
            if (!bytes && GrowthScale() > 1) std::printf("    %s\n", refusal.c_str());
            return bytes;
          }};
}

// The steps of its budget that a schema takes.
GrowthKind Counting(const char* name, size_t size, const Written& write) {
  return {name, size, [write](size_t n) -> std::optional<int64_t> {
            const grammar::SchemaSpelling spelling;
            grammar::Budget budget;
            grammar::Net net(budget);
            const auto nodes = grammar::SchemaNodes::Parse(write(n).text, spelling, budget).value();
            const absl::Status made =
                grammar::SchemaCompiler(*nodes, spelling, net).Compile().status();
            if (!made.ok() && GrowthScale() > 1) std::printf("    %s\n", made.ToString().c_str());
            if (!made.ok()) return std::nullopt;
            return budget.spent();
          }};
}

// The steps that all masks on the way through an answer take, and the way itself.
std::optional<int64_t> StepsToHold(const GrammarText& grammar, const std::string& answer) {
  static const GrammarVocabulary* const vocabulary = new GrammarVocabulary;
  const auto trie = grammar::TokenTrie::Shared(vocabulary->context);
  absl::StatusOr<grammar::Program> program = CompileGrammar(grammar.source());
  if (!program.ok() && GrowthScale() > 1) return std::nullopt;
  grammar::Machine machine = grammar::Machine::Make(*std::move(program), trie->depth()).value();
  const int64_t vocab_size = vocabulary->context.model.vocab_size;
  grammar::Masks masks(*trie, machine, vocab_size, vocabulary->context.stop_ids);
  int32_t now = grammar::Machine::kStart;
  auto steps = static_cast<int64_t>(machine.work());
  for (size_t i = 0; i < answer.size(); ++i) {
    if (machine.Full()) {
      machine.Restart({&now, 1});
      masks.Forget();
    }
    const auto mask = masks.Of(now);
    EXPECT_TRUE(mask.ok()) << mask.status() << i;
    steps += static_cast<int64_t>(machine.work());
    now = machine.Advance(now, std::string_view(answer).substr(i, 1)).value();
    steps += static_cast<int64_t>(machine.work());
    if (now != grammar::Machine::kDead) continue;
    ADD_FAILURE() << "the answer stops at byte " << i;
    break;
  }
  return steps;
}

using Answered = std::function<std::string(size_t n)>;
GrowthKind Holding(const char* name, size_t size, const Written& write, const Answered& answer) {
  return {name, size, [write, answer](size_t n) { return StepsToHold(write(n), answer(n)); }};
}

// A grammar of calls of n tools.
GrammarText Calls(size_t n, bool must, bool names) {
  calls::CallFormat format;
  format.call_begin = calls::SymbolsOf("<tool_call>");
  format.call_end = {calls::SymbolsOf("</tool_call>")};
  format.name_path = {"name"};
  format.arguments_path = {"arguments"};
  CallChoice choice{.must = must};
  const Json tools = ListOf(n, [&](size_t i) {
    const std::string name = absl::StrCat("tool", i);
    if (names) choice.names.push_back(name);
    const Json parameters = {{"type", "object"},
                             {"properties", {{"city", TypeOf("string")}, {"n", TypeOf("integer")}}},
                             {"required", {"city"}}};
    return Json{{"type", "function"}, {"function", {{"name", name}, {"parameters", parameters}}}};
  });
  return Gbnf(calls::CallGrammar(format, tools, choice, /*thinks=*/false).value());
}

// n types of objects, each with a kind of its own.
Json Kinds(size_t n) {
  return ListOf(n, [](size_t i) {
    return Json{{"type", "object"},
                {"properties", {{"kind", {{"const", i}}}, {"id", TypeOf("integer")}}},
                {"required", {"id", "kind"}}};
  });
}

const GrowthKind kGrammarKinds[] = {
    Making("enum of integers", 100,
           [](size_t n) {
             return Schema({{"enum", ListOf(n, [](size_t i) { return i; })}});
           }),
    Making("enum of strings", 100,
           [](size_t n) {
             return Schema({{"enum", ListOf(n, [](size_t i) { return absl::StrCat("s", i); })}});
           }),
    Making("enum of objects", 32,
           [](size_t n) {
             return Schema({{"enum", ListOf(n, [](size_t i) { return Json{{"a", i}}; })}});
           }),
    Making("enum in an enum", 100,
           [](size_t n) {
             const Json values = ListOf(n, [](size_t i) { return i; });
             return Schema({{"enum", values}, {"allOf", {{{"enum", values}}}}});
           }),
    Making("none of n values", 50,
           [](size_t n) {
             const Json values = ListOf(n, [](size_t i) { return absl::StrCat("s", i); });
             return Schema({{"type", "string"}, {"not", {{"enum", values}}}});
           }),
    Making("const, a long text", 100,
           [](size_t n) {
             return Schema({{"const", TextTimes("a", n)}});
           }),
    Making("optional properties", 32,
           [](size_t n) {
             return Schema({{"type", "object"},
                            {"properties", ObjectOf(n, [](size_t) { return TypeOf("integer"); })},
                            {"additionalProperties", false}});
           }),
    Making("optional properties and others", 32,
           [](size_t n) {
             return Schema({{"type", "object"},
                            {"properties", ObjectOf(n, [](size_t) { return TypeOf("integer"); })}});
           }),
    Making("required properties", 32,
           [](size_t n) {
             return Schema({{"type", "object"},
                            {"properties", ObjectOf(n, [](size_t) { return TypeOf("string"); })},
                            {"required", ListOf(n, [](size_t i) { return absl::StrCat("k", i); })},
                            {"additionalProperties", false}});
           }),
    Making("at least some of the properties", 32,
           [](size_t n) {
             return Schema({{"type", "object"},
                            {"properties", ObjectOf(n, [](size_t) { return TypeOf("string"); })},
                            {"minProperties", 1},
                            {"maxProperties", n},
                            {"additionalProperties", false}});
           }),
    Making("objects within each other", 32,
           [](size_t n) {
             return Definitions(n, TypeOf("null"), [](size_t next) {
               return Json{{"type", "object"},
                           {"properties", {{"next", Reference(next)}}},
                           {"additionalProperties", false}};
             });
           }),
    Making("references that follow another", 8,
           [](size_t n) { return Definitions(n, TypeOf("null"), Reference); }),
    Making("definitions, each used twice", 32,
           [](size_t n) {
             return Definitions(n, TypeOf("null"), [](size_t next) {
               return Json{{"type", "array"}, {"prefixItems", {Reference(next), Reference(next)}}};
             });
           }),
    Making("allOf of the same twice", 8,
           [](size_t n) {
             return Definitions(n, TypeOf("null"), [](size_t next) {
               return Json{{"allOf", {Reference(next), Reference(next)}}};
             });
           }),
    Making("anyOf of the same twice", 8,
           [](size_t n) {
             return Definitions(n, TypeOf("null"), [](size_t next) {
               return Json{{"anyOf", {Reference(next), Reference(next)}}};
             });
           }),
    Making("anyOf of many types", 16,
           [](size_t n) {
             return Schema({{"anyOf", ListOf(n, [](size_t i) {
                               return Json{{"type", "object"},
                                           {"properties", {{"kind", {{"const", i}}}}},
                                           {"required", {"kind"}},
                                           {"additionalProperties", false}};
                             })}});
           }),
    Counting("oneOf of many types", 16,
             [](size_t n) {
               return Schema({{"oneOf", Kinds(n)}});
             }),
    Counting("oneOf of references", 16,
             [](size_t n) {
               Json kinds = Json::object();
               const Json list = Kinds(n);
               for (size_t i = 0; i < n; ++i) kinds[absl::StrCat("k", i)] = list[i];
               return Schema({{"$defs", kinds}, {"oneOf", ListOf(n, Reference)}});
             }),
    Counting("oneOf of values", 16,
             [](size_t n) {
               return Schema({{"oneOf", ListOf(n, [](size_t i) { return Json{{"const", i}}; })}});
             }),
    Making("no value of one of many types", 16,
           [](size_t n) {
             return Schema({{"type", "string"}, {"not", {{"oneOf", Kinds(n)}}}});
           }),
    Making("allOf of many limits", 32,
           [](size_t n) {
             return Schema({{"type", "integer"}, {"allOf", ListOf(n, [](size_t i) {
                                                    return Json{{"minimum", i}};
                                                  })}});
           }),
    Making("maxLength", 1000,
           [](size_t n) {
             return Schema({{"type", "string"}, {"maxLength", n}});
           }),
    Making(
        "maxItems", 1000,
        [](size_t n) {
          return Schema(
              {{"type", "array"}, {"items", TypeOf("integer")}, {"minItems", n}, {"maxItems", n}});
        }),
    Making("prefixItems", 32,
           [](size_t n) {
             return Schema({{"type", "array"},
                            {"prefixItems", ListOf(n, [](size_t) { return TypeOf("integer"); })}});
           }),
    Making(
        "limits of a number", 8,
        [](size_t n) {
          return Schema({{"type", "number"}, {"maximum", std::stod("1e" + std::to_string(n / 8))}});
        }),
    Making("schema: [..]{0,n}", 100,
           [](size_t n) { return Pattern(absl::StrCat("^[a-z]{0,", n, "}$")); }),
    Making("schema: a pattern n times", 16,
           [](size_t n) { return Pattern("^" + TextTimes("ab[c-e]+", n) + "$"); }),
    Counting("schema: a pattern n times, anywhere", 16,
             [](size_t n) { return Pattern(TextTimes("ab[c-e]+", n)); }),
    Counting("schema: a pattern n times, anywhere behind a text", 16,
             [](size_t n) { return Pattern("^x.*" + TextTimes("ab[c-e]+", n)); }),
    Counting("schema: a pattern n times, anywhere, of two bytes", 16,
             [](size_t n) { return Pattern(TextTimes("\u00E4[c-e]+", n)); }),
    Counting("schema: a long pattern, anywhere", 16,
             [](size_t n) { return Pattern(TextTimes("abcd", n) + "e"); }),
    Making("schema: words of a pattern", 16,
           [](size_t n) {
             return Pattern("^(" + Joined(n, "|", [](size_t i) { return absl::StrCat("w", i); }) +
                            ")$");
           }),
    Making("regex: a long text", 100, [](size_t n) { return RegexOf(TextTimes("abcd", n)); }),
    Making("regex: a pattern n times", 32,
           [](size_t n) { return RegexOf(TextTimes("ab[c-e]+", n)); }),
    Making("regex: [..]{0,n}", 1000,
           [](size_t n) { return RegexOf(absl::StrCat("[a-z]{0,", n, "}")); }),
    Making("regex: words", 32,
           [](size_t n) {
             return RegexOf(Joined(n, "|", [](size_t i) { return absl::StrCat("w", i, "x"); }));
           }),
    Making("regex: sets of characters", 32,
           [](size_t n) {
             return RegexOf("[" +
                            Joined(n, "",
                                   [](size_t i) {
                                     return absl::StrCat("\\u{", absl::Hex(0x1000 + 2 * i), "}");
                                   }) +
                            "]");
           }),
    Making("GBNF: alternatives", 128,
           [](size_t n) {
             return Gbnf("root ::= " +
                         Joined(n, " | ", [](size_t i) { return absl::StrCat("\"k", i, "\""); }));
           }),
    Making("GBNF: rules as alternatives", 50,
           [](size_t n) {
             return Gbnf(
                 "root ::= " + Joined(n, " | ", [](size_t i) { return absl::StrCat("r", i); }) +
                 "\n" + Joined(n, "\n", [](size_t i) {
                   return absl::StrCat("r", i, " ::= \"k", i, "\" [a-z]+");
                 }));
           }),
    Making("GBNF: rules that follow another", 50,
           [](size_t n) {
             return Gbnf("root ::= r0\n" + Joined(n, "\n", [&](size_t i) {
                           return absl::StrCat("r", i, " ::= \"x\" ",
                                               i + 1 < n ? absl::StrCat("r", i + 1) : "");
                         }));
           }),
    Making("GBNF: rules that may be nothing", 32,
           [](size_t n) {
             return Gbnf("root ::= r0 \"z\"\n" + Joined(n, "\n", [&](size_t i) {
                           return absl::StrCat(
                               "r", i, " ::= [a-y]* ",
                               i + 1 < n ? absl::StrCat("\",\" r", i + 1, "?") : "");
                         }));
           }),
    Making("GBNF: beginnings of %until", 16,
           [](size_t n) {
             return Gbnf(
                 "root ::= %until(" +
                 Joined(n, " | ", [](size_t i) { return absl::StrCat("\"<k", i, ">\" : \"x\""); }) +
                 ")");
           }),
    Making("GBNF: one long beginning of %until", 32,
           [](size_t n) {
             return Gbnf("root ::= %until(\"" +
                         Joined(n, " ", [](size_t i) { return absl::StrCat(i); }) + "\" : \"x\")");
           }),
    Making(
        "GBNF: a beginning of %until in itself", 32,
        [](size_t n) { return Gbnf("root ::= %until(\"" + TextTimes("ab", n) + "c\" : \"x\")"); }),
    Making("GBNF: a repeated beginning of %until", 32,
           [](size_t n) {
             return Gbnf("root ::= %until(" + TextTimes("\"ab\" [c-e]+ ", n) + "\"x\" : \"x\")");
           }),
    Making("GBNF: texts up to a beginning", 16,
           [](size_t n) {
             return Gbnf("root ::= " + Joined(n, " ", [](size_t i) {
                           return absl::StrCat("%until(\"<k", i, ">\" : )");
                         }));
           }),
    Making("GBNF: tokens", 32,
           [](size_t n) {
             return Gbnf("root ::= " + Joined(std::min<size_t>(n, 250), " | ", [](size_t i) {
                           return absl::StrCat("<[", i + 2, "]>");
                         }));
           }),
    Making("GBNF: schemas", 16,
           [](size_t n) {
             return Gbnf("root ::= " + Joined(n, " | ", [](size_t i) {
                           return absl::StrCat("%json {\"const\": ", i, "}");
                         }));
           }),
    Making("calls of n tools", 8, [](size_t n) { return Calls(n, true, false); }),
    Making("calls of n named tools", 8, [](size_t n) { return Calls(n, true, true); }),
    Making("text with calls of n tools", 8, [](size_t n) { return Calls(n, false, false); }),
    {"the text of a grammar of n tools", 32,
     [](size_t n) { return BytesOf([&] { Calls(n, true, true); }); }},

    Holding(
        "a string", 500, [](size_t) { return Schema(TypeOf("string")); },
        [](size_t n) { return "\"" + TextTimes("ab c", n) + "\""; }),
    Holding(
        "a string of a length", 500,
        [](size_t n) {
          return Schema({{"type", "string"}, {"maxLength", 4 * n}});
        },
        [](size_t n) { return "\"" + TextTimes("ab c", n) + "\""; }),
    Holding(
        "a string with a pattern", 500, [](size_t) { return Pattern("ab[c-e]+"); },
        [](size_t n) { return "\"ab" + TextTimes("c", n) + "\""; }),
    Holding(
        "a string with a pattern, met again", 500, [](size_t) { return Pattern("ab[c-e]+"); },
        [](size_t n) { return "\"" + TextTimes("abcd", n) + "\""; }),
    Holding(
        "a pattern of a length", 500,
        [](size_t n) {
          return Schema({{"type", "string"}, {"pattern", "ab[c-e]+"}, {"maxLength", 4 * n}});
        },
        [](size_t n) { return "\"" + TextTimes("abcd", n) + "\""; }),
    Holding(
        "regex: over a long text", 500, [](size_t) { return RegexOf("ab[c-e]+"); },
        [](size_t n) { return "ab" + TextTimes("cde", n); }),
    Holding(
        "regex: a pattern n times, held", 100,
        [](size_t n) { return RegexOf(TextTimes("ab[c-e]+", n)); },
        [](size_t n) { return TextTimes("abcd", n); }),
    Holding(
        "regex: any of two, n times", 100,
        [](size_t n) { return RegexOf(absl::StrCat("(ab|cd){", n, "}")); },
        [](size_t n) { return TextTimes("abcd", n / 2); }),
    Holding(
        "GBNF: a text n times", 100, [](size_t) { return Gbnf("root ::= \"ab\" root | [c-e]+"); },
        [](size_t n) { return TextTimes("ab", n) + "c"; }),
    Holding(
        "GBNF: a pattern n times", 100,
        [](size_t n) { return Gbnf(absl::StrCat("root ::= (\"ab\" [c-e]+){", n, "}")); },
        [](size_t n) { return TextTimes("abcd", n); }),
    Holding(
        "GBNF: lists of lists", 100, [](size_t) { return Gbnf("root ::= \"(\" root* \")\""); },
        [](size_t n) { return TextTimes("(()", n) + TextTimes(")", n); }),
    Holding(
        "GBNF: text up to a beginning", 500,
        [](size_t) { return Gbnf("root ::= %until(\"<call>\" : [0-9]* | )"); },
        [](size_t n) { return TextTimes("<cal", n); }),
    Holding(
        "a list of numbers", 200,
        [](size_t) {
          return Schema({{"type", "array"}, {"items", TypeOf("number")}});
        },
        [](size_t n) { return "[" + TextTimes("1.25,", n) + "0]"; }),
    Holding(
        "a list of a length", 200,
        [](size_t n) {
          return Schema({{"type", "array"}, {"items", TypeOf("integer")}, {"minItems", n + 1}});
        },
        [](size_t n) { return "[" + TextTimes("12,", n) + "0]"; }),
    Holding(
        "an object with any keys", 200,
        [](size_t) {
          return Schema({{"type", "object"}, {"additionalProperties", TypeOf("integer")}});
        },
        [](size_t n) { return "{" + TextTimes("\"k\":1,", n) + "\"z\":0}"; }),
    Holding(
        "the last of n properties", 32,
        [](size_t n) {
          return Schema({{"type", "object"},
                         {"properties", ObjectOf(n, [](size_t) { return TypeOf("integer"); })},
                         {"additionalProperties", false}});
        },
        [](size_t n) { return absl::StrCat("{\"k", n - 1, "\":1}"); }),
    Holding(
        "lists within each other", 100, [](size_t) { return Schema(true); },
        [](size_t n) { return TextTimes("[", n) + TextTimes("]", n); }),
    Holding(
        "lists of one of two kinds", 100,
        [](size_t) {
          const Json either = {{"type", "array"},
                               {"items", {{"anyOf", {Reference(0), Reference(1)}}}}};
          return Schema({{"$defs", {{"k0", either}, {"k1", either}}}, {"$ref", "#/$defs/k0"}});
        },
        [](size_t n) { return TextTimes("[", n) + TextTimes("]", n); }),
    Holding(
        "one of n texts", 100,
        [](size_t n) {
          return Schema({{"enum", ListOf(n, [](size_t i) { return absl::StrCat("s", i); })}});
        },
        [](size_t n) { return absl::StrCat("\"s", n - 1, "\""); }),
};

class GrammarGrowth : public testing::TestWithParam<GrowthKind> {};

TEST_P(GrammarGrowth, IsNoMoreThanThatOfTheInput) { ExpectGrowthOfTheInput(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Grammars, GrammarGrowth, testing::ValuesIn(kGrammarKinds), NameOfGrowth);

}  // namespace
}  // namespace ng::test
