#include "plugins/sampler/grammar/dfa.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/regex.h"

namespace ng::grammar {
namespace {

constexpr size_t kMaxDfaWork = size_t{20} << 20;  // states that one automaton may look at

absl::Status TooLarge() {
  return UsageError(absl::StrCat("takes an automaton of more than ", Dfa::kMaxStates, " states"));
}

// Drops the ways to states that never come to an end.
void DropDeadEnds(Dfa& dfa) {
  const size_t n = dfa.next.size();
  std::vector<std::vector<int32_t>> before(n);
  std::vector<uint8_t> live(n);
  std::vector<size_t> fresh;
  for (size_t state = 0; state < n; ++state) {
    int32_t last = Dfa::kNone;
    for (const int32_t to : dfa.next[state]) {
      if (to != Dfa::kNone && to != last) {
        before[static_cast<size_t>(to)].push_back(static_cast<int32_t>(state));
      }
      last = to;
    }
    if (dfa.accepts[state] == 0) continue;
    live[state] = 1;
    fresh.push_back(state);
  }
  while (!fresh.empty()) {
    const size_t state = fresh.back();
    fresh.pop_back();
    for (const int32_t from : before[state]) {
      if (std::exchange(live[static_cast<size_t>(from)], uint8_t{1}) == 0) {
        fresh.push_back(static_cast<size_t>(from));
      }
    }
  }
  for (auto& row : dfa.next) {
    for (int32_t& to : row) {
      if (to != Dfa::kNone && live[static_cast<size_t>(to)] == 0) to = Dfa::kNone;
    }
  }
}

// The states of a net that a text may be in, over and over.
class SubsetMaker {
 public:
  explicit SubsetMaker(const Net& net)
      : net_(net), out_(static_cast<size_t>(net.n_states())), seen_(out_.size()) {
    for (const Edge& edge : net.edges()) out_[static_cast<size_t>(edge.from)].push_back(&edge);
  }

  // These states and all that are reached from them for nothing, in order.
  std::vector<int32_t> Close(std::vector<int32_t> states) {
    std::erase_if(states, [&](int32_t state) {
      return std::exchange(seen_[static_cast<size_t>(state)], uint8_t{1}) != 0;
    });
    for (size_t i = 0; i < states.size(); ++i) {
      for (const Edge* edge : out_[static_cast<size_t>(states[i])]) {
        if (edge->kind != EdgeKind::kFree) continue;
        if (std::exchange(seen_[static_cast<size_t>(edge->to)], uint8_t{1}) != 0) continue;
        states.push_back(edge->to);
      }
    }
    for (const int32_t state : states) seen_[static_cast<size_t>(state)] = 0;
    work_ += states.size();
    std::ranges::sort(states);
    return states;
  }
  // Where each byte leads from these states.
  void Step(std::span<const int32_t> states, std::array<std::vector<int32_t>, 256>& to) {
    for (const int32_t state : states) {
      for (const Edge* edge : out_[static_cast<size_t>(state)]) {
        if (edge->kind != EdgeKind::kByte) continue;
        for (size_t byte = edge->low; byte <= edge->high; ++byte) to[byte].push_back(edge->to);
        work_ += 1 + static_cast<size_t>(edge->high - edge->low) / 16;
      }
    }
  }
  bool tired() const { return work_ > kMaxDfaWork; }

 private:
  const Net& net_;
  std::vector<std::vector<const Edge*>> out_;
  std::vector<uint8_t> seen_;
  size_t work_ = 0;
};

}  // namespace

int32_t Dfa::NewState() {
  next.emplace_back().fill(kNone);
  accepts.push_back(0);
  return static_cast<int32_t>(next.size()) - 1;
}

bool Dfa::Matches(std::string_view text) const {
  int32_t state = 0;
  for (const char c : text) {
    state = next[static_cast<size_t>(state)][static_cast<uint8_t>(c)];
    if (state == kNone) return false;
  }
  return accepts[static_cast<size_t>(state)] != 0;
}

bool Dfa::Empty() const {
  return std::ranges::none_of(accepts, [](uint8_t accepted) { return accepted != 0; });
}

absl::StatusOr<Dfa> Determinize(const Net& net, Part part) {
  NG_RETURN_IF_ERROR(net.status());
  SubsetMaker maker(net);
  Dfa dfa;
  std::map<std::vector<int32_t>, int32_t> known;
  std::vector<const std::vector<int32_t>*> members;
  const auto number = [&](std::vector<int32_t> states) {
    const auto [place, is_new] = known.emplace(std::move(states), dfa.next.size());
    if (!is_new) return place->second;
    members.push_back(&place->first);
    const int32_t state = dfa.NewState();
    dfa.accepts.back() = std::ranges::binary_search(place->first, part.out) ? 1 : 0;
    return state;
  };
  number(maker.Close({part.in}));
  for (size_t state = 0; state < members.size(); ++state) {
    if (members.size() > Dfa::kMaxStates || maker.tired()) return TooLarge();
    std::array<std::vector<int32_t>, 256> to;
    maker.Step(*members[state], to);
    for (size_t byte = 0; byte < 256; ++byte) {
      if (to[byte].empty()) continue;
      const bool like_last = byte > 0 && to[byte] == to[byte - 1];
      const int32_t next = like_last ? dfa.next[state][byte - 1] : number(maker.Close(to[byte]));
      dfa.next[state][byte] = next;
    }
  }
  DropDeadEnds(dfa);
  return dfa;
}

absl::StatusOr<Dfa> Combine(const Dfa& a, const Dfa& b, Both how) {
  Dfa dfa;
  std::map<std::pair<int32_t, int32_t>, int32_t> known;
  std::vector<std::pair<int32_t, int32_t>> pairs;
  const auto accepts = [](const Dfa& of, int32_t state) {
    return state != Dfa::kNone && of.accepts[static_cast<size_t>(state)] != 0;
  };
  const auto number = [&](int32_t x, int32_t y) {
    const bool dead = how == Both::kAnd      ? x == Dfa::kNone || y == Dfa::kNone
                      : how == Both::kAndNot ? x == Dfa::kNone
                                             : x == Dfa::kNone && y == Dfa::kNone;
    if (dead) return Dfa::kNone;
    const auto [place, is_new] = known.emplace(std::pair(x, y), dfa.next.size());
    if (!is_new) return place->second;
    pairs.emplace_back(x, y);
    const int32_t state = dfa.NewState();
    const bool in_a = accepts(a, x);
    const bool in_b = accepts(b, y);
    const bool in_both = how == Both::kAnd      ? in_a && in_b
                         : how == Both::kAndNot ? in_a && !in_b
                                                : in_a || in_b;
    dfa.accepts.back() = in_both ? 1 : 0;
    return state;
  };
  number(0, 0);
  for (size_t state = 0; state < pairs.size(); ++state) {
    if (pairs.size() > Dfa::kMaxStates) return TooLarge();
    const auto [x, y] = pairs[state];
    for (size_t byte = 0; byte < 256; ++byte) {
      const int32_t to_x = x == Dfa::kNone ? x : a.next[static_cast<size_t>(x)][byte];
      const int32_t to_y = y == Dfa::kNone ? y : b.next[static_cast<size_t>(y)][byte];
      const int32_t next = number(to_x, to_y);
      dfa.next[state][byte] = next;
    }
  }
  DropDeadEnds(dfa);
  return dfa;
}

const Dfa& AnyText() {
  static const Dfa* const dfa = [] {
    Net net(1);
    const Net::Mark begin = net.Here();
    const Part any = net.Code(Complement({}));
    return new Dfa(*Determinize(net, net.Repeat(begin, any, 0, -1)));
  }();
  return *dfa;
}

absl::StatusOr<Dfa> TheTexts(std::span<const std::string> texts) {
  Net net(1);
  std::vector<Part> parts;
  for (const std::string& text : texts) parts.push_back(net.Text(text));
  return Determinize(net, net.Either(parts));
}

absl::StatusOr<Dfa> Found(std::string_view pattern) {
  Net net(1);
  const auto anything = [&net] {
    const Net::Mark begin = net.Here();
    const Part any = net.Code(Complement({}));
    return net.Repeat(begin, any, 0, -1);
  };
  const Part before = anything();
  NG_ASSIGN_OR_RETURN(const Part found, AddRegex(pattern, net));
  Part whole = net.Then(net.Then(before, found), anything());
  whole = ResolveAnchors(net, whole);
  return Determinize(net, whole);
}

absl::StatusOr<Dfa> Matching(std::string_view pattern) {
  Net net(1);
  NG_ASSIGN_OR_RETURN(const Part part, AddRegex(pattern, net));
  return Determinize(net, part);
}

absl::StatusOr<Dfa> OfLength(int64_t least, int64_t most) {
  Net net(1);
  const Net::Mark begin = net.Here();
  const Part any = net.Code(Complement({}));
  return Determinize(net, net.Repeat(begin, any, least, most));
}

Part AddDfa(const Dfa& dfa, Net& net) {
  const int32_t base = net.NewStates(static_cast<int64_t>(dfa.next.size()));
  const int32_t out = net.NewState();
  for (size_t state = 0; state < dfa.next.size(); ++state) {
    const auto from = base + static_cast<int32_t>(state);
    if (dfa.accepts[state] != 0) net.Free(from, out);
    for (int low = 0; low < 256;) {
      const int32_t to = dfa.next[state][static_cast<size_t>(low)];
      int high = low;
      while (high < 255 && dfa.next[state][static_cast<size_t>(high) + 1] == to) ++high;
      if (to != Dfa::kNone) net.Byte(from, base + to, low, high);
      low = high + 1;
    }
  }
  return {base, out};
}

namespace {

// The bytes that JSON spells with an escape, from one state of a Dfa.
void AddEscapes(const std::array<int32_t, 256>& next, int32_t from, int32_t base, Net& net) {
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
  constexpr std::string_view kNames = "\"\\bfnrt";
  int32_t escape = -1;  // behind a backslash
  int32_t tens[2] = {-1, -1};
  const auto state = [&net](int32_t* at) { return *at >= 0 ? *at : *at = net.NewState(); };
  const auto begin = [&] {
    if (escape < 0) net.Byte(from, state(&escape), '\\', '\\');
    return escape;
  };
  for (int byte = 0; byte < 128; ++byte) {
    const int32_t to = next[static_cast<size_t>(byte)];
    const size_t name = kShort.find(static_cast<char>(byte));
    if (to == Dfa::kNone || (byte >= 0x20 && name == kShort.npos)) continue;
    if (name != kShort.npos) {
      net.Byte(begin(), base + to, kNames[name], kNames[name]);
      continue;
    }
    const int high = byte / 16;
    if (tens[high] < 0) {
      const Part digits = net.Text("u00");
      net.Free(begin(), digits.in);
      net.Byte(digits.out, state(&tens[high]), '0' + high, '0' + high);
    }
    const int low = byte % 16;
    const int digit = low < 10 ? '0' + low : 'a' + low - 10;
    net.Byte(tens[high], base + to, digit, digit);
  }
}

}  // namespace

Part AddAsJsonString(const Dfa& dfa, Net& net) {
  const int32_t base = net.NewStates(static_cast<int64_t>(dfa.next.size()));
  const int32_t out = net.NewState();
  for (size_t state = 0; state < dfa.next.size(); ++state) {
    const auto from = base + static_cast<int32_t>(state);
    if (dfa.accepts[state] != 0) net.Free(from, out);
    const std::array<int32_t, 256>& next = dfa.next[state];
    const auto plain = [](int byte) { return byte >= 0x20 && byte != '"' && byte != '\\'; };
    for (int low = 0; low < 256;) {
      const int32_t to = next[static_cast<size_t>(low)];
      int high = low;
      while (high < 255 && next[static_cast<size_t>(high) + 1] == to &&
             plain(low) == plain(high + 1)) {
        ++high;
      }
      if (to != Dfa::kNone && plain(low)) net.Byte(from, base + to, low, high);
      low = high + 1;
    }
    AddEscapes(next, from, base, net);
  }
  return {base, out};
}

}  // namespace ng::grammar
