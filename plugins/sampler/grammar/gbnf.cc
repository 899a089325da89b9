// GBNF: rules `name ::= ...` of literals "...", classes [...], any character ., rules by name,
// groups ( ), counts * + ? {m} {m,} {m,n}, alternatives | and comments #. And beyond that:
//
//   <[12]>              the token 12, as a whole: its text in other tokens is not meant
//   %json {...}         JSON that this schema allows
//   %arguments {...}    those of a call of a tool (calls/tool_arguments.h)
//   %until(A : B | ^ C : D | )
//                       any text up to and with the first A, then B. ^: C counts only at the text's
//                       beginning. With an empty alternative the text may end before one comes. A
//                       and C name no rules. Bytes of such a text need not be UTF-8, and it may
//                       hold any token that is none of the A
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ng/utf8.h"
#include "plugins/sampler/grammar/automata/inline_rules.h"
#include "plugins/sampler/grammar/automata/text_reader.h"
#include "plugins/sampler/grammar/automata/until.h"
#include "plugins/sampler/grammar/calls/tool_arguments.h"
#include "plugins/sampler/grammar/compile.h"
#include "plugins/sampler/grammar/option_text.h"

namespace ng::grammar {
namespace {

constexpr std::string_view kNameSigns =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

// The object of JSON that a text begins with, as far as brackets show its end; empty: none.
std::string_view ObjectAtBegin(std::string_view text) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '{') ++depth;
    if (depth == 0) return {};
    if (c == '}' && --depth == 0) return text.substr(0, i + 1);
  }
  return {};
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, const SchemaSpelling& spelling, Net& net)
      : text_(text), spelling_(spelling), net_(net) {
    spelling_.sets = &sets_;
  }
  GbnfParser(const GbnfParser&) = delete;
  GbnfParser& operator=(const GbnfParser&) = delete;

  // The rules; the number of the rule root.
  absl::StatusOr<int32_t> Rules() {
    for (Blanks(true); !text_.AtEnd(); Blanks(true)) OneRule();
    NG_RETURN_IF_ERROR(text_.status());
    NG_RETURN_IF_ERROR(json_status_);
    NG_RETURN_IF_ERROR(AllAreDefined());
    const auto root = rules_.find("root");
    if (root == rules_.end()) return UsageError("has no rule root");
    return root->second;
  }
  // A new rule: these items, and then `root`.
  absl::StatusOr<int32_t> Before(std::string_view items, int32_t root) {
    text_ = TextReader(items);
    Blanks(true);
    const Part part = Choice(0);
    Blanks(true);
    if (!text_.AtEnd()) text_.Fail("has something that begins nothing");
    NG_RETURN_IF_ERROR(Annotate(text_.status(), kBeforeOption));
    NG_RETURN_IF_ERROR(Annotate(json_status_, kBeforeOption));
    NG_RETURN_IF_ERROR(Annotate(AllAreDefined(), kBeforeOption));
    const int32_t whole = net_.NewRule("before");
    net_.SetRule(whole, net_.Then(part, net_.Calling(root)));
    return whole;
  }
  // Behind all that: a text before a beginning may hold each token that the grammar names.
  void AddFreeTokens() {
    for (const FreeTokens& free : free_tokens_) {
      for (const int32_t state : free.states) {
        for (const int32_t id : tokens_) {
          if (std::ranges::binary_search(free.but, std::pair(state, id))) continue;
          net_.Token(state, free.restart, id);
        }
      }
    }
  }
  // Whether there are rules of schemas among those of the grammar.
  bool has_json() const { return has_json_; }
  std::vector<std::string> TakeNotes() { return std::move(notes_); }

 private:
  absl::Status AllAreDefined() const {
    for (const auto& [name, rule] : rules_) {
      if (net_.rules()[static_cast<size_t>(rule)].part.in >= 0) continue;
      return UsageError(absl::StrCat("names the rule '", name, "', which is not defined"));
    }
    return absl::OkStatus();
  }

  // Within brackets a rule goes on over lines, and so it does behind ::= and |.
  void Blanks(bool lines) {
    while (!text_.AtEnd()) {
      if (text_.Sees("#")) {
        while (!text_.AtEnd() && !text_.SeesAny("\r\n")) text_.Skip(1);
      } else if (text_.SeesAny(lines ? " \t\r\n" : " \t")) {
        text_.Skip(1);
      } else {
        return;
      }
    }
  }

  std::string Name() {
    std::string name;
    for (; text_.SeesAny(kNameSigns); text_.Skip(1)) name += text_.rest()[0];
    if (name.empty()) text_.Fail("lacks the name of a rule");
    return name;
  }
  int32_t RuleOf(const std::string& name) {
    const auto [place, is_new] = rules_.emplace(name, 0);
    constexpr size_t kMaxRules = 5000;
    if (rules_.size() > kMaxRules) text_.Fail("has more than 5000 rules");
    if (is_new) place->second = net_.NewRule(name);
    return place->second;
  }

  void OneRule() {
    const std::string name = Name();
    Blanks(false);
    if (!text_.Take("::=")) text_.Fail("lacks ::=");
    Blanks(true);
    const Part part = Choice(0);
    if (!text_.AtEnd() && !text_.SeesAny("\r\n")) text_.Fail("has something that begins nothing");
    if (!text_.ok()) return;
    const int32_t rule = RuleOf(name);
    if (net_.rules()[static_cast<size_t>(rule)].part.in >= 0) {
      text_.Fail(absl::StrCat("defines the rule '", name, "' twice"));
    }
    net_.SetRule(rule, part);
  }

  Part Choice(int depth) {
    constexpr int kMaxDepth = 200;
    if (depth > kMaxDepth) text_.Fail("has more than 200 groups within each other");
    std::vector<Part> parts;
    do {
      Blanks(true);
      parts.push_back(Sequence(depth));
      // An alternative may begin a line of its own.
      const TextReader here = text_;
      Blanks(true);
      if (!text_.Sees("|") && depth == 0) text_ = here;
    } while (text_.Take("|"));
    return parts.size() == 1 ? parts[0] : net_.Either(parts);
  }

  Part Sequence(int depth) {
    std::optional<Part> whole;
    while (text_.SeesAny("\"[.(<%") || text_.SeesAny(kNameSigns)) {
      const Part next = Repeated(depth);
      whole = whole ? net_.Then(*whole, next) : next;
      Blanks(depth > 0);
    }
    return whole ? *whole : net_.Nothing();
  }

  Part Repeated(int depth) {
    const Net::Mark begin = net_.Here();
    const Part once = Item(depth);
    int64_t least = text_.Sees("+") ? 1 : 0;
    int64_t most = text_.Sees("?") ? 1 : -1;
    if (text_.SeesAny("*+?")) {
      text_.Skip(1);
    } else if (text_.Take("{")) {
      least = most = text_.Count();
      if (text_.Take(",")) most = text_.Sees("}") ? -1 : text_.Count();
      if (!text_.Take("}")) text_.Fail("has a count that is none of {m}, {m,}, {m,n}");
      if (most >= 0 && most < least) text_.Fail("has a count {m,n} with n below m");
    } else {
      return once;
    }
    if (text_.SeesAny("*+?{")) text_.Fail("has a second count");
    return text_.ok() ? net_.Repeat(begin, once, {least, most}) : once;
  }

  Part Item(int depth) {
    if (text_.Take("(")) {
      const Part inside = Choice(depth + 1);
      if (!text_.Take(")")) text_.Fail("has '(' without ')'");
      return inside;
    }
    if (text_.Take(".")) return net_.Code(Complement({}));
    if (text_.Take("[")) return net_.Code(Class());
    if (text_.Take("\"")) return Literal();
    if (text_.Take("<")) return Token();
    if (text_.Take("%until(")) return Until(depth);
    if (text_.Take("%json")) return JsonItem(/*arguments=*/false);
    if (text_.Take("%arguments")) return JsonItem(/*arguments=*/true);
    if (text_.Sees("%")) text_.Fail("has an item that is none of %until( %json %arguments");
    return net_.Calling(RuleOf(Name()));
  }

  Part Token() {
    if (!text_.Take("[")) text_.Fail("has '<' without '[' and the number of a token");
    const int64_t id = text_.Count();
    if (!text_.Take("]>")) text_.Fail("has a token that is no <[number]>");
    constexpr size_t kMaxTokens = 2000;
    if (id > std::numeric_limits<int32_t>::max()) text_.Fail("has a token that is none");
    if (tokens_.size() >= kMaxTokens) text_.Fail("names more than 2000 tokens");
    const Part part = net_.Never();
    if (!text_.ok()) return part;
    tokens_.insert(static_cast<int32_t>(id));
    net_.Token(part.in, part.out, static_cast<int32_t>(id));
    return part;
  }

  Part JsonItem(bool arguments) {
    Blanks(true);
    const std::string_view object = ObjectAtBegin(text_.rest());
    if (object.empty()) text_.Fail("lacks an object of JSON");
    if (!text_.ok() || !json_status_.ok()) return net_.Never();
    text_.Skip(object.size());
    has_json_ = true;
    const absl::StatusOr<Part> part = arguments ? AddArguments(object, spelling_, net_, &notes_)
                                                : AddSchema(object, spelling_, net_);
    if (part.ok()) return *part;
    json_status_ = part.status();
    return net_.Never();
  }

  Part Until(int depth) {
    std::vector<Beginning> beginnings;
    const Net::Mark all = net_.Here();
    const Part whole = net_.Never();
    int32_t end = -1;
    do {
      Blanks(true);
      if (text_.Sees("|") || text_.Sees(")")) {
        end = whole.out;
        continue;
      }
      const bool at_start = text_.Take("^");
      Blanks(true);
      const Net::Mark mark = net_.Here();
      const Part begin = Sequence(depth + 1);
      if (!text_.Take(":")) text_.Fail("has a beginning in %until( ) without ':'");
      if (!text_.ok()) return whole;
      if (!net_.IsPlain(mark, begin)) text_.Fail("has a beginning that names a rule, or is empty");
      Blanks(true);
      const Part rest = Sequence(depth + 1);
      net_.Free(rest.out, whole.out);
      beginnings.push_back({begin, at_start, rest.in});
      Blanks(true);
    } while (text_.Take("|"));
    if (!text_.Take(")")) text_.Fail("has '%until(' without ')'");
    if (!text_.ok()) return whole;
    net_.Free(whole.in, AddUntil(beginnings, all, end, net_, &free_tokens_.emplace_back()));
    return whole;
  }

  Part Literal() {
    std::string literal;
    while (!text_.AtEnd() && !text_.Sees("\"")) {
      const uint32_t code = Character();
      if (Normal({{code, code}}).empty()) text_.Fail("has a character that no text holds");
      AppendUtf8(code, &literal);
    }
    if (!text_.Take("\"")) text_.Fail("has a literal without its closing \"");
    return net_.Text(literal);
  }

  std::vector<CodeRange> Class() {
    std::vector<CodeRange> ranges;
    const bool negated = text_.Take("^");
    while (!text_.AtEnd() && !text_.Sees("]")) {
      const uint32_t low = Character();
      uint32_t high = low;
      if (text_.Sees("-") && !text_.Sees("-]")) {
        text_.Skip(1);
        high = text_.AtEnd() ? 0 : Character();
        if (high < low) text_.Fail("has a wrong range in [...]");
      }
      ranges.push_back({low, high});
    }
    if (!text_.Take("]")) text_.Fail("has '[' without ']'");
    ranges = Normal(std::move(ranges));
    return negated ? Complement(ranges) : ranges;
  }

  uint32_t Character() {
    if (!text_.Take("\\")) return text_.Character();
    constexpr std::string_view kNames = "nrt\"\\[]-^";
    constexpr std::string_view kMeant = "\n\r\t\"\\[]-^";
    if (text_.Take("x")) return text_.Hex(2);
    if (text_.Take("u")) return text_.Hex(4);
    if (text_.Take("U")) return text_.Hex(8);
    const size_t i = text_.AtEnd() ? kNames.npos : kNames.find(text_.rest()[0]);
    if (i == kNames.npos) {
      text_.Fail(
          "has an escape that is none of \\n \\r \\t \\\" \\\\ \\[ \\] \\- \\^ \\xHH \\uHHHH");
      return 0;
    }
    text_.Skip(1);
    return static_cast<uint8_t>(kMeant[i]);
  }

  TextReader text_;
  SharedSets sets_;
  SchemaSpelling spelling_;
  Net& net_;
  std::set<int32_t> tokens_;
  std::vector<FreeTokens> free_tokens_;
  bool has_json_ = false;
  absl::Status json_status_;
  std::vector<std::string> notes_;
  std::map<std::string, int32_t> rules_;
};

}  // namespace

absl::StatusOr<int32_t> AddBefore(std::string_view before, int32_t root, Net& net) {
  if (before.empty()) return root;
  GbnfParser parser("", {}, net);
  NG_ASSIGN_OR_RETURN(const int32_t whole, parser.Before(before, root));
  parser.AddFreeTokens();
  return whole;
}

absl::StatusOr<Program> CompileGbnf(std::string_view text, const CompileSettings& settings) {
  Budget budget(settings.stop);
  Net net(budget);
  GbnfParser parser(text, settings.spelling, net);
  NG_ASSIGN_OR_RETURN(int32_t root, parser.Rules());
  if (!settings.before.empty()) {
    NG_ASSIGN_OR_RETURN(root, parser.Before(settings.before, root));
  }
  parser.AddFreeTokens();
  // Rules of schemas are of a size already.
  if (!parser.has_json()) root = InlineRules(net, root);
  NG_ASSIGN_OR_RETURN(Program program, Program::Make(net, root));
  program.set_notes(parser.TakeNotes());
  return program;
}

absl::StatusOr<Program> CompileGbnfOption(std::string_view value, const CompileSettings& settings) {
  const bool is_text = value.find("::=") != value.npos;
  if (is_text) return CompileGbnf(value, settings);
  NG_ASSIGN_OR_RETURN(const std::string text, ReadOptionFile(value));
  absl::StatusOr<Program> program = CompileGbnf(text, settings);
  return program.ok() ? std::move(program)
                      : Annotate(program.status(), absl::StrCat("'", std::string(value), "' "));
}

}  // namespace ng::grammar
