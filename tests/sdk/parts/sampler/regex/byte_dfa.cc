#include "regex/byte_dfa.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <set>
#include <string>

namespace ng_parts {
namespace {

using Bytes = std::bitset<256>;

// A node goes on by one of its bytes, or for nothing.
struct Node {
  Bytes bytes;
  int to = -1;
  std::vector<int> free;
};

// Reads the pattern into an automaton that may be in several nodes at a time.
class Parser {
 public:
  struct Part {
    int in, out;
  };

  explicit Parser(std::string_view text) : text_(text) {}
  Part Whole() {
    const Part whole = Choice();
    if (at_ < text_.size()) Fail("')' without '('");
    return whole;
  }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::string& error() const { return error_; }

 private:
  void Fail(const char* what) {
    if (error_.empty()) error_ = std::string(what) + " at character " + std::to_string(at_);
    at_ = text_.size();  // nothing more is read
  }
  bool Sees(std::string_view any) const {
    return at_ < text_.size() && any.find(text_[at_]) != any.npos;
  }
  bool Take(char c) {
    const bool there = Sees({&c, 1});
    at_ += there ? 1 : 0;
    return there;
  }
  int New() {
    constexpr size_t kMost = 100000;
    if (nodes_.size() >= kMost) Fail("too large a pattern");
    nodes_.emplace_back();
    return static_cast<int>(nodes_.size()) - 1;
  }
  void Join(int from, int to) { nodes_[from].free.push_back(to); }

  Part Choice() {
    const Part whole = {New(), New()};
    do {
      const Part one = Sequence();
      Join(whole.in, one.in);
      Join(one.out, whole.out);
    } while (Take('|'));
    return whole;
  }

  Part Sequence() {
    Part whole;
    whole.in = whole.out = New();
    while (at_ < text_.size() && !Sees("|)")) {
      const Part next = Repeated();
      Join(whole.out, next.in);
      whole.out = next.out;
    }
    return whole;
  }

  // Each copy of what is repeated is read anew from the text.
  Part Repeated() {
    const size_t begin = at_;
    const Part once = Atom();
    int least = 1;
    int most = 1;  // -1: any number
    if (!ReadCount(&least, &most)) return once;
    const size_t end = at_;
    const Part whole = {New(), New()};
    int last = whole.in;
    const auto copy = [&] {
      at_ = begin;
      const Part part = Atom();
      Join(last, part.in);
      last = part.out;
      return part;
    };
    for (int i = 0; i < least && error_.empty(); ++i) copy();
    Join(last, whole.out);
    for (int i = least; i < most && error_.empty(); ++i) {
      copy();
      Join(last, whole.out);
    }
    if (most < 0) {
      const Part again = copy();
      Join(again.out, again.in);
      Join(again.out, whole.out);
    }
    at_ = end;
    if (Sees("*+?{")) Fail("a second count");
    return whole;
  }

  bool ReadCount(int* least, int* most) {
    constexpr int kMost = 1000;
    if (!Sees("*+?{")) return false;
    const char c = text_[at_++];
    *least = c == '+' ? 1 : 0;
    *most = c == '?' ? 1 : -1;
    if (c != '{') return true;
    *least = *most = ReadInt();
    if (Take(',')) *most = Sees("}") ? -1 : ReadInt();
    if (!Take('}') || std::max(*least, *most) > kMost || (*most >= 0 && *most < *least)) {
      Fail("a count that is none of {m}, {m,}, {m,n} up to 1000");
    }
    return true;
  }
  int ReadInt() {
    int n = 0;
    if (!Sees("0123456789")) Fail("a number is missing");
    while (Sees("0123456789") && n < 100000) n = n * 10 + (text_[at_++] - '0');
    return n;
  }

  Part Atom() {
    if (Take('(')) {
      const Part inside = Choice();
      if (!Take(')')) Fail("'(' without ')'");
      return inside;
    }
    if (Sees("*+?{")) Fail("nothing to repeat");
    const Part part = {New(), New()};
    Bytes bytes;
    if (Take('[')) {
      bytes = Class();
    } else if (Take('.')) {
      bytes.set().reset('\n');
    } else {
      bytes = Character();
    }
    nodes_[part.in].bytes = bytes;
    nodes_[part.in].to = part.out;
    return part;
  }

  // Behind a '['.
  Bytes Class() {
    Bytes bytes;
    const bool negated = Take('^');
    do {
      const Bytes low = Character();
      bytes |= low;
      if (!Sees("-") || at_ + 1 >= text_.size() || text_[at_ + 1] == ']') continue;
      ++at_;
      const Bytes high = Character();
      if (low.count() != 1 || high.count() != 1 || low._Find_first() > high._Find_first()) {
        Fail("a wrong range");
      }
      for (size_t b = low._Find_first(); b < high._Find_first(); ++b) bytes.set(b);
      bytes |= high;
    } while (at_ < text_.size() && !Sees("]"));
    if (!Take(']')) Fail("'[' without ']'");
    return negated ? ~bytes : bytes;
  }

  Bytes Character() {
    Bytes bytes;
    const bool escaped = Take('\\');
    if (at_ >= text_.size()) {
      Fail("a character is missing");
      return bytes;
    }
    const char c = text_[at_++];
    const auto add = [&](char low, char high) {
      for (int b = static_cast<uint8_t>(low); b <= static_cast<uint8_t>(high); ++b) bytes.set(b);
    };
    if (escaped && (c == 'd' || c == 'w')) add('0', '9');
    if (escaped && c == 'w') add('a', 'z'), add('A', 'Z'), add('_', '_');
    if (escaped && c == 's') add('\t', '\r'), add(' ', ' ');
    if (escaped && c == 'n') add('\n', '\n');
    if (escaped && c == 't') add('\t', '\t');
    if (bytes.none()) add(c, c);
    return bytes;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string error_;
  std::vector<Node> nodes_;
};

// These nodes and all that are reached from them for nothing.
std::set<int> Closure(const std::vector<Node>& nodes, std::set<int> reached) {
  std::vector<int> fresh(reached.begin(), reached.end());
  while (!fresh.empty()) {
    const int node = fresh.back();
    fresh.pop_back();
    for (const int next : nodes[node].free) {
      if (reached.insert(next).second) fresh.push_back(next);
    }
  }
  return reached;
}

}  // namespace

absl::StatusOr<ByteDfa> ByteDfa::Build(std::string_view pattern, int64_t max_states) {
  Parser parser(pattern);
  const Parser::Part whole = parser.Whole();
  if (!parser.error().empty()) return ng::UsageError(parser.error());
  const std::vector<Node>& nodes = parser.nodes();
  ByteDfa dfa;
  std::map<std::set<int>, int32_t> known;
  std::vector<std::set<int>> members;
  const auto state_of = [&](std::set<int> set) -> int32_t {
    if (set.empty()) return kDead;
    const auto [place, is_new] = known.emplace(std::move(set), dfa.size());
    if (is_new) {
      members.push_back(place->first);
      dfa.states_.emplace_back().accepts = place->first.contains(whole.out);
    }
    return place->second;
  };
  state_of(Closure(nodes, {whole.in}));
  for (int64_t state = 0; state < dfa.size(); ++state) {
    if (dfa.size() > max_states) return ng::UsageError("the pattern takes too many states");
    const std::set<int> from = members[state];
    for (size_t byte = 0; byte < 256; ++byte) {
      std::set<int> to;
      for (const int node : from) {
        if (nodes[node].bytes[byte]) to.insert(nodes[node].to);
      }
      const int32_t next = state_of(Closure(nodes, std::move(to)));
      dfa.states_[state].next[byte] = next;
    }
  }
  dfa.DropDeadEnds();
  return dfa;
}

// What cannot come to a match is dead.
void ByteDfa::DropDeadEnds() {
  std::vector<bool> live(states_.size());
  for (bool more = true; more;) {
    more = false;
    for (size_t s = 0; s < states_.size(); ++s) {
      const bool now = states_[s].accepts || std::ranges::any_of(states_[s].next, [&](int32_t to) {
                         return to != kDead && live[to];
                       });
      more |= now && !live[s];
      live[s] = now;
    }
  }
  for (State& state : states_) {
    for (int32_t& to : state.next) {
      if (to != kDead && !live[to]) to = kDead;
    }
  }
}

int32_t ByteDfa::Walk(int32_t state, std::string_view bytes) const {
  for (size_t i = 0; i < bytes.size() && state != kDead; ++i) {
    state = states_[state].next[static_cast<uint8_t>(bytes[i])];
  }
  return state;
}

bool ByteDfa::Ends(int32_t state) const {
  return Accepts(state) &&
         std::ranges::all_of(states_[state].next, [](int32_t to) { return to == kDead; });
}

}  // namespace ng_parts
