// GBNF: rules `name ::= ...` of literals "...", classes [...], any character ., rules by name,
// groups ( ), counts * + ? {m} {m,} {m,n}, alternatives | and comments #.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ng/utf8.h"
#include "plugins/sampler/grammar/automata/inline_rules.h"
#include "plugins/sampler/grammar/automata/text_reader.h"
#include "plugins/sampler/grammar/compile.h"
#include "plugins/sampler/grammar/option_text.h"

namespace ng::grammar {
namespace {

constexpr std::string_view kNameSigns =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

class GbnfParser {
 public:
  GbnfParser(std::string_view text, Net& net) : text_(text), net_(net) {}

  // The number of the rule root.
  absl::StatusOr<int32_t> Whole() {
    for (Blanks(true); !text_.AtEnd(); Blanks(true)) OneRule();
    NG_RETURN_IF_ERROR(text_.status());
    for (const auto& [name, rule] : rules_) {
      if (net_.rules()[static_cast<size_t>(rule)].part.in >= 0) continue;
      return UsageError(absl::StrCat("names the rule '", name, "', which is not defined"));
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) return UsageError("has no rule root");
    return root->second;
  }

 private:
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
    while (text_.SeesAny("\"[.(") || text_.SeesAny(kNameSigns)) {
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
    return net_.Calling(RuleOf(Name()));
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
  Net& net_;
  std::map<std::string, int32_t> rules_;
};

}  // namespace

absl::StatusOr<Program> CompileGbnf(std::string_view text, const std::atomic<bool>* stop) {
  Budget budget(stop);
  Net net(budget);
  NG_ASSIGN_OR_RETURN(const int32_t root, GbnfParser(text, net).Whole());
  return Program::Make(net, InlineRules(net, root));
}

absl::StatusOr<Program> CompileGbnfOption(std::string_view value, const std::atomic<bool>* stop) {
  const bool is_text = value.find("::=") != value.npos;
  if (is_text) return CompileGbnf(value, stop);
  NG_ASSIGN_OR_RETURN(const std::string text, ReadOptionFile(value));
  absl::StatusOr<Program> program = CompileGbnf(text, stop);
  return program.ok() ? std::move(program)
                      : Annotate(program.status(), absl::StrCat("'", std::string(value), "' "));
}

}  // namespace ng::grammar
