#include "plugins/sampler/grammar/automata/dfa.h"

#include <algorithm>
#include <bitset>
#include <deque>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/automata/flat_rules.h"
#include "plugins/sampler/grammar/automata/number_table.h"
#include "plugins/sampler/grammar/automata/regex.h"

namespace ng::grammar {
namespace {

// What a state takes: 256 numbers, which are looked through again at the end.
constexpr size_t kRowSteps = 64;

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

// Makes a state of each set of states of a net that a text may be in.
//
// Where a text goes on from a set is where it goes on from the set's base, and from its own states:
// in a search for a pattern a set has the places that are found when the text's first bytes are
// left out, and one or a few more.
class SubsetMaker {
 public:
  SubsetMaker(const Net& net, Part part)
      : net_(net),
        part_(part),
        out_(static_cast<size_t>(net.n_states()), net.edges().size(),
             [&](size_t e) { return net.edges()[e].from; }),
        seen_(static_cast<size_t>(net.n_states())),
        sets_(seen_.size()) {
    std::bitset<257> begins;
    for (const Edge& edge : net.edges()) {
      if (edge.kind != EdgeKind::kByte) continue;
      begins.set(edge.low);
      begins.set(edge.high + size_t{1});
    }
    for (size_t byte = 0; byte < 256; ++byte) {
      if (byte == 0 || begins[byte]) lows_.push_back(byte);
      class_of_[byte] = lows_.size() - 1;
    }
    lows_.push_back(256);
    to_.resize(lows_.size());
  }

  absl::StatusOr<Dfa> Make() {
    Number(GrownSets::kNone, Closed({part_.in}, GrownSets::kNone));
    for (size_t set = 0; set < sets_.size(); ++set) {
      if (sets_.size() > Dfa::kMaxStates) return TooLarge();
      if (!net_.budget().Spend(kRowSteps)) return net_.budget().status();
      AddRow(static_cast<int32_t>(set));
    }
    DropDeadEnds(dfa_);
    return std::move(dfa_);
  }

 private:
  int32_t Number(int32_t base, std::vector<int32_t> own) {
    const bool ends = std::ranges::binary_search(own, part_.out) ||
                      (base != GrownSets::kNone && dfa_.accepts[static_cast<size_t>(base)] != 0);
    const auto [number, is_new] = sets_.Number(base, std::move(own));
    if (is_new) {
      dfa_.NewState();
      dfa_.accepts.back() = ends ? 1 : 0;
    }
    return number;
  }

  // These states and all that are reached from them for nothing, in order, without those of a set.
  std::vector<int32_t> Closed(std::vector<int32_t> states, int32_t without) {
    const auto is_known = [&](int32_t state) {
      if (without != GrownSets::kNone && sets_.Holds(without, state)) return true;
      return std::exchange(seen_[static_cast<size_t>(state)], uint8_t{1}) != 0;
    };
    size_t steps = 2 * states.size();
    std::erase_if(states, is_known);
    for (size_t i = 0; i < states.size(); ++i) {
      for (const size_t e : out_[states[i]]) {
        const Edge& edge = net_.edges()[e];
        ++steps;
        if (edge.kind == EdgeKind::kFree && !is_known(edge.to)) states.push_back(edge.to);
      }
    }
    for (const int32_t state : states) seen_[static_cast<size_t>(state)] = 0;
    net_.budget().Spend(steps + 4 * states.size());
    std::ranges::sort(states);
    return states;
  }

  // Where each byte leads from a set.
  void AddRow(int32_t set) {
    const int32_t base = sets_[set].base;  // a new state leads nowhere
    auto row = dfa_.next[static_cast<size_t>(base == GrownSets::kNone ? set : base)];
    std::vector<int32_t> last_to;
    int32_t last_below = Dfa::kNone;
    int32_t next = Dfa::kNone;
    for (const size_t each : Step(set)) {
      const int32_t below = row[lows_[each]];
      std::vector<int32_t> to = std::exchange(to_[each], {});
      if (to != last_to || below != last_below) next = Next(set, below, to);
      std::fill(row.begin() + static_cast<ptrdiff_t>(lows_[each]),
                row.begin() + static_cast<ptrdiff_t>(lows_[each + 1]), next);
      last_to = std::move(to);
      last_below = below;
    }
    dfa_.next[static_cast<size_t>(set)] = row;
  }
  // Puts into `to_` where a set's own states lead, by classes of bytes, which it returns.
  std::vector<size_t> Step(int32_t set) {
    std::vector<size_t> classes;
    for (const int32_t state : sets_[set].own) {
      for (const size_t e : out_[state]) {
        const Edge& edge = net_.edges()[e];
        if (edge.kind != EdgeKind::kByte) continue;
        for (size_t each = class_of_[edge.low]; each <= class_of_[edge.high]; ++each) {
          if (to_[each].empty()) classes.push_back(each);
          to_[each].push_back(edge.to);
        }
        net_.budget().Spend(2 + class_of_[edge.high] - class_of_[edge.low]);
      }
    }
    std::ranges::sort(classes);
    return classes;
  }
  // The set of these states beside those of a set that is there.
  int32_t Next(int32_t from, int32_t below, std::vector<int32_t> to) {
    std::vector<int32_t> states = Closed(std::move(to), below);
    // A larger one that it may have grown out of: where a search begins anew.
    for (const int32_t base : {from, last_base_, int32_t{0}}) {
      const GrownSets::Set& set = sets_[base];
      if (set.base != below || !std::ranges::includes(states, set.own)) continue;
      std::vector<int32_t> own;
      std::ranges::set_difference(states, set.own, std::back_inserter(own));
      last_base_ = base;
      return Number(base, std::move(own));
    }
    return Number(below, std::move(states));
  }

  const Net& net_;
  const Part part_;
  const Lists out_;
  std::vector<uint8_t> seen_;  // [n_states], all 0 between calls
  GrownSets sets_;             // the states of the Dfa
  Dfa dfa_;
  int32_t last_base_ = 0;
  std::array<size_t, 256> class_of_ = {};  // of bytes that all edges treat alike
  std::vector<size_t> lows_;               // the first byte of each, and 256
  std::vector<std::vector<int32_t>> to_;   // [n_classes], empty between calls
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
  return SubsetMaker(net, part).Make();
}

absl::StatusOr<Dfa> Combine(const Dfa& a, const Dfa& b, Both how, Budget& budget) {
  Dfa dfa;
  NumberTable known;
  std::vector<std::pair<int32_t, int32_t>> pairs;  // what the states are
  const auto accepts = [](const Dfa& of, int32_t state) {
    return state != Dfa::kNone && of.accepts[static_cast<size_t>(state)] != 0;
  };
  const auto number = [&](int32_t x, int32_t y) {
    const bool dead = how == Both::kAnd      ? x == Dfa::kNone || y == Dfa::kNone
                      : how == Both::kAndNot ? x == Dfa::kNone
                                             : x == Dfa::kNone && y == Dfa::kNone;
    budget.Spend(2);
    if (dead) return Dfa::kNone;
    const uint64_t hash = Mix(static_cast<uint64_t>(x) << 32 | static_cast<uint32_t>(y));
    const int32_t found = known.Find(
        hash, [&](int32_t other) { return pairs[static_cast<size_t>(other)] == std::pair(x, y); });
    if (found >= 0) return found;
    pairs.emplace_back(x, y);
    const int32_t state = dfa.NewState();
    known.Insert(hash, state);
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
    if (!budget.Spend(kRowSteps)) return budget.status();
    const auto [x, y] = pairs[state];
    std::pair<int32_t, int32_t> last = {Dfa::kNone, Dfa::kNone};
    int32_t next = Dfa::kNone;
    for (size_t byte = 0; byte < 256; ++byte) {
      const int32_t to_x = x == Dfa::kNone ? x : a.next[static_cast<size_t>(x)][byte];
      const int32_t to_y = y == Dfa::kNone ? y : b.next[static_cast<size_t>(y)][byte];
      const std::pair to(to_x, to_y);
      if (to != last) next = number(to_x, to_y);
      last = to;
      dfa.next[state][byte] = next;
    }
  }
  DropDeadEnds(dfa);
  return dfa;
}

absl::StatusOr<Dfa> InAll(std::vector<Dfa> all, Budget& budget) {
  while (all.size() > 1) {
    std::vector<Dfa> pairs;
    for (size_t i = 0; i + 1 < all.size(); i += 2) {
      NG_ASSIGN_OR_RETURN(pairs.emplace_back(), Combine(all[i], all[i + 1], Both::kAnd, budget));
    }
    if (all.size() % 2 == 1) pairs.push_back(std::move(all.back()));
    all = std::move(pairs);
  }
  return std::move(all.front());
}

const Dfa& AnyText() {
  static const Dfa* const dfa = [] {
    Budget budget;
    Net net(budget);
    const Net::Mark begin = net.Here();
    const Part any = net.Code(Complement({}));
    return new Dfa(*Determinize(net, net.Repeat(begin, any, {})));
  }();
  return *dfa;
}

absl::StatusOr<Dfa> TheTexts(std::span<const std::string> texts) {
  Dfa dfa;
  dfa.NewState();
  for (const std::string& text : texts) {
    int32_t state = 0;
    for (const char c : text) {
      const auto byte = static_cast<uint8_t>(c);
      int32_t next = dfa.next[static_cast<size_t>(state)][byte];
      if (next == Dfa::kNone) {
        next = dfa.NewState();
        dfa.next[static_cast<size_t>(state)][byte] = next;
      }
      state = next;
    }
    dfa.accepts[static_cast<size_t>(state)] = 1;
    if (dfa.next.size() > Dfa::kMaxStates) return TooLarge();
  }
  return dfa;
}

absl::StatusOr<Dfa> Found(std::string_view pattern, Budget& budget) {
  Net net(budget, /*counting=*/false);
  NG_ASSIGN_OR_RETURN(const Part part, AddTexts(pattern, /*anywhere=*/true, net));
  return Determinize(net, part);
}

absl::StatusOr<Dfa> Matching(std::string_view pattern, Budget& budget) {
  Net net(budget, /*counting=*/false);
  NG_ASSIGN_OR_RETURN(const Part part, AddRegex(pattern, net));
  return Determinize(net, part);
}

absl::StatusOr<Dfa> OfLength(Count count, Budget& budget) {
  Net net(budget, /*counting=*/false);
  const Net::Mark begin = net.Here();
  const Part any = net.Code(Complement({}));
  return Determinize(net, net.Repeat(begin, any, count));
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

bool BeginsCode(int byte) { return (byte & 0xC0) != 0x80; }

// How many code points follow from each state.
struct Lengths {
  std::vector<int64_t> least;  // -1: it comes to no end
  std::vector<int64_t> most;   // -1: there is no bound
};

Lengths LengthsOf(const Dfa& dfa) {
  struct Way {
    size_t from = 0;
    int codes = 0;
  };
  const size_t n = dfa.next.size();
  std::vector<std::vector<Way>> into(n);
  std::vector<size_t> ways(n);  // on from each state
  for (size_t state = 0; state < n; ++state) {
    std::pair<int32_t, bool> last = {Dfa::kNone, false};
    for (int byte = 0; byte < 256; ++byte) {
      const std::pair next(dfa.next[state][static_cast<size_t>(byte)], BeginsCode(byte));
      if (next.first == Dfa::kNone || next == last) continue;
      last = next;
      into[static_cast<size_t>(next.first)].push_back({state, next.second ? 1 : 0});
      ++ways[state];
    }
  }
  Lengths lengths{std::vector<int64_t>(n, -1), std::vector<int64_t>(n, -1)};
  std::deque<size_t> near;  // the nearest to an end first
  std::vector<size_t> known;
  for (size_t state = 0; state < n; ++state) {
    if (ways[state] == 0) known.push_back(state);
    if (dfa.accepts[state] == 0) continue;
    near.push_back(state);
    lengths.least[state] = 0;
  }
  while (!near.empty()) {
    const size_t state = near.front();
    near.pop_front();
    for (const Way& way : into[state]) {
      int64_t& least = lengths.least[way.from];
      const int64_t length = lengths.least[state] + way.codes;
      if (least >= 0 && least <= length) continue;
      least = length;
      way.codes == 0 ? near.push_front(way.from) : near.push_back(way.from);
    }
  }
  // States from which each way on is known; what is left over leads into a circle.
  std::vector<int64_t> longest(n);
  while (!known.empty()) {
    const size_t state = known.back();
    known.pop_back();
    lengths.most[state] = longest[state];
    for (const Way& way : into[state]) {
      longest[way.from] = std::max(longest[way.from], longest[state] + way.codes);
      if (--ways[way.from] == 0) known.push_back(way.from);
    }
  }
  return lengths;
}

void AddStringByte(const Edge& edge, char quote, Net& net) {
  const std::string shorts = quote + std::string("\\\b\f\n\r\t");
  const std::string names = quote + std::string("\\bfnrt");
  int32_t escape = -1;  // behind a backslash
  std::array<int32_t, 2> tens = {-1, -1};
  const auto begin = [&] {
    if (escape >= 0) return escape;
    escape = net.NewState();
    net.Byte(edge.from, escape, '\\', '\\');
    return escape;
  };
  const auto unicode = [&](int byte) {
    int32_t& behind = tens[static_cast<size_t>(byte / 16)];
    if (behind < 0) {
      const Part digits = net.Text("u00");
      net.Free(begin(), digits.in);
      behind = net.NewState();
      net.Byte(digits.out, behind, '0' + byte / 16, '0' + byte / 16);
    }
    const int digit = byte % 16 < 10 ? '0' + byte % 16 : 'a' + byte % 16 - 10;
    net.Byte(behind, edge.to, digit, digit);
  };
  const auto escaped = [&](int byte) {
    return byte < 0x20 || shorts.find(static_cast<char>(byte)) != shorts.npos;
  };
  for (int low = edge.low; low <= edge.high; ++low) {
    if (escaped(low)) {
      const size_t name = shorts.find(static_cast<char>(low));
      if (name == shorts.npos) {
        unicode(low);
      } else {
        net.Byte(begin(), edge.to, names[name], names[name]);
      }
      continue;
    }
    int high = low;
    while (high < edge.high && !escaped(high + 1)) ++high;
    net.Byte(edge.from, edge.to, low, high);
    low = high;
  }
}

}  // namespace

Part AddCounted(const Dfa& dfa, Count count, Net& net) {
  const auto [least, most] = LengthsOf(dfa);
  const int32_t rule = net.NewRule("a text of some length", count);
  const size_t n = dfa.next.size();
  const int32_t base = net.NewStates(static_cast<int64_t>(n));
  const int32_t out = net.NewState();
  const int32_t in = net.NewState();
  // The first state once more, at the end: there nothing has been counted.
  for (size_t i = 0; i <= n; ++i) {
    const size_t state = i % n;
    const int32_t from = i == n ? in : base + static_cast<int32_t>(i);
    if (dfa.accepts[state] != 0 && (i < n || count.least == 0)) net.Free(from, out);
    std::map<int32_t, int32_t> counted;  // by what a byte that begins a code point leads to
    for (int low = 0; low < 256;) {
      const int32_t to = dfa.next[state][static_cast<size_t>(low)];
      int high = low;
      while (high < 255 && dfa.next[state][static_cast<size_t>(high) + 1] == to &&
             BeginsCode(low) == BeginsCode(high + 1)) {
        ++high;
      }
      if (to != Dfa::kNone && BeginsCode(low)) {
        const auto [place, is_new] = counted.emplace(to, 0);
        const auto target = static_cast<size_t>(to);
        if (is_new) place->second = net.NewState();
        if (is_new && (count.most < 0 || count.most > least[target])) {
          Count window;
          if (count.most >= 0 && least[target] > 0) window.most = count.most - least[target];
          if (most[target] >= 0) window.least = std::max<int64_t>(0, count.least - most[target]);
          net.CountOne(from, place->second, rule, window);
        }
        net.Byte(place->second, base + to, low, high);
      } else if (to != Dfa::kNone) {
        net.Byte(from, base + to, low, high);
      }
      low = high + 1;
    }
  }
  net.SetRule(rule, {in, out});
  return net.Calling(rule);
}

Part AddAsString(const Net& texts, Part part, char quote, Net& net) {
  return net.Append(texts, part, [&](const Edge& edge) { AddStringByte(edge, quote, net); });
}

}  // namespace ng::grammar
