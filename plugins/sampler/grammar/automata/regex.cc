#include "plugins/sampler/grammar/automata/regex.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/automata/flat_rules.h"
#include "plugins/sampler/grammar/automata/text_reader.h"

namespace ng::grammar {
namespace {

using Ranges = std::vector<CodeRange>;

const Ranges kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
const Ranges kDigits = {{'0', '9'}};
const Ranges kWordSigns = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Ranges kBlanks = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                        {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

class RegexParser {
 public:
  RegexParser(std::string_view pattern, Net& net) : text_(pattern), net_(net) {}

  absl::StatusOr<Part> Whole() {
    const Part whole = Choice(0);
    if (!text_.AtEnd()) text_.Fail("has ')' without '('");
    NG_RETURN_IF_ERROR(text_.status());
    return whole;
  }

 private:
  Part Choice(int depth) {
    constexpr int kMaxDepth = 200;
    if (depth > kMaxDepth) text_.Fail("has more than 200 groups within each other");
    std::vector<Part> parts;
    do {
      parts.push_back(Sequence(depth));
    } while (text_.Take("|"));
    return parts.size() == 1 ? parts[0] : net_.Either(parts);
  }

  Part Sequence(int depth) {
    std::optional<Part> whole;
    while (!text_.AtEnd() && !text_.SeesAny("|)")) {
      const Part next = Repeated(depth);
      whole = whole ? net_.Then(*whole, next) : next;
    }
    return whole ? *whole : net_.Nothing();
  }

  Part Repeated(int depth) {
    const Net::Mark begin = net_.Here();
    const bool repeatable = !text_.SeesAny("^$");
    const Part once = Atom(depth);
    Count count;
    if (!ReadCount(count)) return once;
    if (!repeatable) text_.Fail("repeats ^ or $");
    text_.Take("?");  // lazy: which texts match is the same
    if (text_.SeesAny("*+?")) text_.Fail("has a second count");
    return net_.Repeat(begin, once, count);
  }

  bool ReadCount(Count& count) {
    count.least = text_.Sees("+") ? 1 : 0;
    count.most = text_.Sees("?") ? 1 : -1;
    if (text_.SeesAny("*+?")) {
      text_.Skip(1);
      return true;
    }
    if (!text_.Take("{")) return false;
    count.least = count.most = text_.Count();
    if (text_.Take(",")) count.most = text_.Sees("}") ? -1 : text_.Count();
    if (!text_.Take("}")) text_.Fail("has a count that is none of {m}, {m,}, {m,n}");
    if (count.most >= 0 && count.most < count.least) {
      text_.Fail("has a count {m,n} with n below m");
    }
    return text_.ok();
  }

  Part Atom(int depth) {
    if (text_.Take("(")) return Group(depth);
    if (text_.SeesAny("*+?{")) text_.Fail("has nothing to repeat");
    if (text_.AtEnd()) return net_.Nothing();
    if (text_.Sees("^") || text_.Sees("$")) {
      const Part part = net_.Never();
      net_.Zero(part.in, part.out, text_.Sees("^") ? EdgeKind::kBegin : EdgeKind::kEnd);
      text_.Skip(1);
      return part;
    }
    if (text_.Take(".")) return net_.Code(Complement(kLineEnds));
    if (text_.Take("[")) return net_.Code(Class());
    return net_.Code(Normal(Sign(/*in_class=*/false)));
  }

  Part Group(int depth) {
    if (text_.Take("?<") && !text_.SeesAny("=!")) {
      while (!text_.AtEnd() && !text_.Take(">")) text_.Skip(1);
    } else if (!text_.Take("?:") && text_.Sees("?")) {
      text_.Fail("looks ahead or behind, which is not regular, or has an unknown group");
    }
    const Part inside = Choice(depth + 1);
    if (!text_.Take(")")) text_.Fail("has '(' without ')'");
    return inside;
  }

  // Behind a '['.
  Ranges Class() {
    Ranges ranges;
    const bool negated = text_.Take("^");
    while (!text_.AtEnd() && !text_.Sees("]")) {
      Ranges low = Sign(/*in_class=*/true);
      const bool is_range = text_.Sees("-") && !text_.Sees("-]");
      if (is_range) {
        text_.Skip(1);
        if (text_.AtEnd()) break;
        const Ranges high = Sign(/*in_class=*/true);
        const bool single = IsOne(low) && IsOne(high);
        if (!single || low[0].low > high[0].high) {
          text_.Fail("has a wrong range in [...]");
          break;
        }
        low[0].high = high[0].high;
      }
      ranges.insert(ranges.end(), low.begin(), low.end());
    }
    if (!text_.Take("]")) text_.Fail("has '[' without ']'");
    ranges = Normal(std::move(ranges));
    return negated ? Complement(ranges) : ranges;
  }
  static bool IsOne(const Ranges& ranges) {
    return ranges.size() == 1 && ranges[0].low == ranges[0].high;
  }

  Ranges Sign(bool in_class) {
    if (!text_.Take("\\")) {
      const uint32_t code = text_.Character();
      return {{code, code}};
    }
    if (text_.AtEnd()) {
      text_.Fail("ends in a backslash");
      return {};
    }
    const char kind = text_.rest()[0];
    switch (kind) {
      case 'd':
      case 'D':
      case 'w':
      case 'W':
      case 's':
      case 'S': {
        text_.Skip(1);
        const Ranges& named = kind == 'd' || kind == 'D'   ? kDigits
                              : kind == 'w' || kind == 'W' ? kWordSigns
                                                           : kBlanks;
        return kind >= 'a' ? named : Complement(named);
      }
      case 'b':
        if (!in_class) break;
        text_.Skip(1);
        return {{'\b', '\b'}};
      default:
        if (const std::optional<uint32_t> code = Escaped(kind)) return {{*code, *code}};
        break;
    }
    text_.Fail("has an escape that is not known or not regular");
    return {};
  }

  // The character behind a backslash.
  std::optional<uint32_t> Escaped(char kind) {
    constexpr std::string_view kNames = "nrtvf0";
    constexpr std::string_view kMeant("\n\r\t\v\f\0", 6);
    if (const size_t i = kNames.find(kind); i != kNames.npos) {
      text_.Skip(1);
      if (kind == '0' && text_.SeesAny("0123456789")) return std::nullopt;
      return static_cast<uint32_t>(kMeant[i]);
    }
    if (kind == 'x' || kind == 'u') {
      text_.Skip(1);
      if (kind == 'x') return text_.Hex(2);
      return Unicode();
    }
    if (kind == 'c') {
      text_.Skip(1);
      const auto letter = text_.AtEnd() ? '\0' : text_.rest()[0];
      const bool known = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
      if (!known) return std::nullopt;
      text_.Skip(1);
      return static_cast<uint32_t>(letter) % 32;
    }
    const bool is_word = (kind >= '0' && kind <= '9') || (kind >= 'a' && kind <= 'z') ||
                         (kind >= 'A' && kind <= 'Z') || kind == '_';
    if (is_word) return std::nullopt;
    return text_.Character();
  }

  // Behind a \u.
  uint32_t Unicode() {
    if (text_.Take("{")) {
      uint32_t code = 0;
      while (text_.ok() && !text_.Take("}")) {
        code = code * 16 + text_.Hex(1);
        if (code > kLastCode) text_.Fail("has a character beyond U+10FFFF");
      }
      return code;
    }
    const uint32_t code = text_.Hex(4);
    const bool high = code >= 0xD800 && code < 0xDC00;
    if (!high || !text_.Take("\\u")) return code;
    return 0x10000 + ((code - 0xD800) << 10) + ((text_.Hex(4) - 0xDC00) & 0x3FF);
  }

  TextReader text_;
  Net& net_;
};

}  // namespace

absl::StatusOr<Part> AddRegex(std::string_view pattern, Net& net) {
  return RegexParser(pattern, net).Whole();
}

namespace {

bool IsAnchor(const Edge& edge) {
  return edge.kind == EdgeKind::kBegin || edge.kind == EdgeKind::kEnd;
}

// The net without edges kBegin and kEnd: `part`, which is the whole text, with what they say. Each
// of its states is there three times: before anything was read, behind that, and where no more may
// be read. False where one is within a rule that counts.
bool ResolveAnchors(Net& net, Part& part) {
  if (std::ranges::none_of(net.edges(), IsAnchor) || !net.status().ok()) return true;
  const int32_t n = net.n_states();
  const Lists out(static_cast<size_t>(n), net.edges().size(),
                  [&](size_t e) { return net.edges()[e].from; });
  std::vector<uint8_t> outside(static_cast<size_t>(n));  // of all rules
  std::vector<int32_t> fresh = {part.in};
  outside[static_cast<size_t>(part.in)] = 1;
  while (!fresh.empty()) {
    const int32_t state = fresh.back();
    fresh.pop_back();
    for (const size_t e : out[state]) {
      const int32_t to = net.edges()[e].to;
      if (std::exchange(outside[static_cast<size_t>(to)], uint8_t{1}) == 0) fresh.push_back(to);
    }
  }
  const auto is_outside = [&](int32_t state) { return outside[static_cast<size_t>(state)] != 0; };
  const std::vector<uint8_t> may_end = MayEnd(net);
  Net layers(net.budget());
  const int32_t first = layers.NewStates(3 * int64_t{n});
  for (const Rule& rule : net.rules()) {
    layers.SetRule(rule.counts ? layers.NewRule(rule.name, rule.count) : layers.NewRule(rule.name),
                   rule.part);
  }
  for (const Edge& edge : net.edges()) {
    if (!is_outside(edge.from)) {
      if (IsAnchor(edge)) return false;
      layers.Add(edge);
      continue;
    }
    const bool calls = edge.calls();
    const bool may_be_empty =
        calls &&
        may_end[static_cast<size_t>(net.rules()[static_cast<size_t>(edge.rule)].part.in)] != 0;
    for (int32_t layer = 0; layer < 3; ++layer) {
      Edge one = edge;
      one.from = layer * n + edge.from;
      if ((edge.kind == EdgeKind::kByte || calls) && layer < 2) {
        one.to = n + edge.to;
        if (calls) one.kind = EdgeKind::kRead;
        layers.Add(one);
      }
      if (edge.kind == EdgeKind::kFree || (edge.kind == EdgeKind::kBegin && layer == 0) ||
          may_be_empty) {
        layers.Free(one.from, layer * n + edge.to);
      } else if (edge.kind == EdgeKind::kEnd) {
        layers.Free(one.from, 2 * n + edge.to);
      }
    }
  }
  const int32_t end = layers.NewState();
  for (int32_t layer = 0; layer < 3; ++layer) layers.Free(first + layer * n + part.out, end);
  net = std::move(layers);
  part.out = end;
  return true;
}

absl::StatusOr<Part> AddFound(std::string_view pattern, bool anywhere, Net& net) {
  const auto anything = [&net] {
    const Net::Mark begin = net.Here();
    const Part any = net.Code(Complement({}));
    return net.Repeat(begin, any, {});
  };
  if (!anywhere) return AddRegex(pattern, net);
  const Part before = anything();
  NG_ASSIGN_OR_RETURN(const Part found, AddRegex(pattern, net));
  return net.Then(net.Then(before, found), anything());
}

}  // namespace

absl::StatusOr<Part> AddTexts(std::string_view pattern, bool anywhere, Net& net) {
  NG_ASSIGN_OR_RETURN(Part part, AddFound(pattern, anywhere, net));
  if (ResolveAnchors(net, part)) return part;
  net = Net(net.budget(), /*counting=*/false);
  NG_ASSIGN_OR_RETURN(part, AddFound(pattern, anywhere, net));
  ResolveAnchors(net, part);
  return part;
}

}  // namespace ng::grammar
