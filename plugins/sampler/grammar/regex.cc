#include "plugins/sampler/grammar/regex.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/compile.h"
#include "plugins/sampler/grammar/text_reader.h"

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
    Part whole = net_.Nothing();
    while (!text_.AtEnd() && !text_.SeesAny("|)")) whole = net_.Then(whole, Repeated(depth));
    return whole;
  }

  Part Repeated(int depth) {
    const Net::Mark begin = net_.Here();
    const bool repeatable = !text_.SeesAny("^$");
    const Part once = Atom(depth);
    int64_t least = 0;
    int64_t most = 0;
    if (!ReadCount(&least, &most)) return once;
    if (!repeatable) text_.Fail("repeats ^ or $");
    text_.Take("?");  // lazy: which texts match is the same
    if (text_.SeesAny("*+?")) text_.Fail("has a second count");
    return net_.Repeat(begin, once, least, most);
  }

  bool ReadCount(int64_t* least, int64_t* most) {
    *least = text_.Sees("+") ? 1 : 0;
    *most = text_.Sees("?") ? 1 : -1;
    if (text_.SeesAny("*+?")) {
      text_.Skip(1);
      return true;
    }
    if (!text_.Take("{")) return false;
    *least = *most = text_.Count();
    if (text_.Take(",")) *most = text_.Sees("}") ? -1 : text_.Count();
    if (!text_.Take("}")) text_.Fail("has a count that is none of {m}, {m,}, {m,n}");
    if (*most >= 0 && *most < *least) text_.Fail("has a count {m,n} with n below m");
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

// A state three times: before anything was read, behind that, and where no more may be read.
Part ResolveAnchors(Net& net, Part part) {
  const bool anchored = std::ranges::any_of(net.edges(), [](const Edge& edge) {
    return edge.kind == EdgeKind::kBegin || edge.kind == EdgeKind::kEnd;
  });
  if (!anchored || !net.status().ok()) return part;
  const auto n = static_cast<int32_t>(net.n_states());
  Net layers(net.reach());
  for (int32_t i = 0; i < 3 * n; ++i) layers.NewState();
  for (const Edge& edge : net.edges()) {
    for (int32_t layer = 0; layer < 3; ++layer) {
      const int32_t from = layer * n + edge.from;
      if (edge.kind == EdgeKind::kByte && layer < 2) {
        layers.Byte(from, n + edge.to, edge.low, edge.high);
      } else if (edge.kind == EdgeKind::kFree || (edge.kind == EdgeKind::kBegin && layer == 0)) {
        layers.Free(from, layer * n + edge.to);
      } else if (edge.kind == EdgeKind::kEnd) {
        layers.Free(from, 2 * n + edge.to);
      }
    }
  }
  const int32_t out = layers.NewState();
  for (int32_t layer = 0; layer < 3; ++layer) layers.Free(layer * n + part.out, out);
  layers.ShareAlias(net.alias(), 3);
  net = std::move(layers);
  return {part.in, out};
}

absl::StatusOr<Program> CompileRegex(std::string_view pattern, int64_t reach) {
  Net net(reach);
  NG_ASSIGN_OR_RETURN(Part part, AddRegex(pattern, net));
  part = ResolveAnchors(net, part);
  const int32_t root = net.NewRule("regex");
  net.SetRule(root, part);
  return Program::Make(net, root);
}

}  // namespace ng::grammar
