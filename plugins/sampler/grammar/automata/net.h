// A grammar over bytes, while a front end builds it.
//
// A grammar is a set of rules, each an automaton between an entry and an exit. An edge reads a byte
// of a range, reads nothing, or calls a rule and goes on when that rule has come to its exit. All
// three front ends (regex, GBNF, JSON schema) build one of these; Program is what runs.
//
// A rule may count: it begins at 0, an edge kCount adds one, and it is left where the count is
// within its bounds. So a part that is repeated often is there once.
//
// The number of states and edges is bounded. Beyond the bound everything that is added is dropped,
// and `status` says so; a front end may look at it once, at its end.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_NET_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_NET_H_

#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/status.h"
#include "plugins/sampler/grammar/automata/budget.h"

namespace ng::grammar {

// Code points, both ends included.
struct CodeRange {
  uint32_t low = 0;
  uint32_t high = 0;
};
inline constexpr uint32_t kLastCode = 0x10FFFF;

// Sorts, joins what touches, and drops surrogates, which no UTF-8 text holds.
std::vector<CodeRange> Normal(std::vector<CodeRange> ranges);
// All code points that are not in the ranges. REQUIRES: Normal(ranges).
std::vector<CodeRange> Complement(const std::vector<CodeRange>& ranges);

enum class EdgeKind : uint8_t {
  kByte,   // reads a byte in [low, high]
  kToken,  // reads a token as a whole: `rule` is its id, or kOtherToken
  kFree,   // reads nothing
  kBegin,  // reads nothing, at the beginning of the text only
  kEnd,    // reads nothing, at the end of the text only
  kCall,   // goes through `rule`
  kRead,   // the same, but only where the rule reads something
  kCount,  // reads nothing; adds one to the count of its rule, which must then be within a window
};

// Any token without a text of which the grammar has no edge of its own.
inline constexpr int32_t kOtherToken = -1;

struct Edge {
  int32_t from = 0;
  int32_t to = 0;
  EdgeKind kind = EdgeKind::kFree;
  uint8_t low = 0;
  uint8_t high = 0;
  int32_t rule = -1;  // or, of kCount, the window, and of kToken the token

  bool calls() const { return kind == EdgeKind::kCall || kind == EdgeKind::kRead; }
  bool reads() const { return kind == EdgeKind::kByte || kind == EdgeKind::kToken; }
};

// Two states with what lies between them.
struct Part {
  int32_t in = 0;
  int32_t out = 0;
};

// How often something may be there.
struct Count {
  static constexpr int64_t kLargest = int64_t{1} << 31;
  int64_t least = 0;
  int64_t most = -1;  // -1: any number

  bool any() const { return least == 0 && most < 0; }
};

struct Rule {
  std::string name;
  Part part = {-1, -1};
  bool counts = false;
  Count count = {};
  int64_t slack = 0;         // how far windows of its edges are within its bounds, at most
  std::string meaning = {};  // rules with one meaning are one (Net::Append); empty: it has none
};

class Net {
 public:
  // Where a part begins; what is added from here on can be repeated.
  struct Mark {
    size_t state = 0;
    size_t edge = 0;
    size_t rule = 0;
    bool operator==(const Mark&) const = default;
  };

  // Without `counting`, what is repeated is there as often as that: no rule is made.
  explicit Net(Budget& budget, bool counting = true) : budget_(&budget), counting_(counting) {}

  int32_t NewState();
  // The first of `n` that follow one another; 0 where they are too many.
  int32_t NewStates(int64_t n);
  void Add(const Edge& edge);
  void Byte(int32_t from, int32_t to, int low, int high);
  void Token(int32_t from, int32_t to, int32_t id) { Add({from, to, EdgeKind::kToken, 0, 0, id}); }
  void Free(int32_t from, int32_t to) { Add({from, to, EdgeKind::kFree, 0, 0, -1}); }
  void Zero(int32_t from, int32_t to, EdgeKind kind) { Add({from, to, kind, 0, 0, -1}); }
  void Call(int32_t from, int32_t to, int32_t rule) {
    Add({from, to, EdgeKind::kCall, 0, 0, rule});
  }

  // An edge kCount of a rule that counts. What it gives is within the rule's bound and the window,
  // which says from where the rule can still be left as its bounds say.
  void CountOne(int32_t from, int32_t to, int32_t rule, Count window = {});

  Part Nothing();
  Part Never();  // no way through it
  Part Text(std::string_view text);
  // One of these texts. Beginnings that they have in common are there once.
  Part Texts(std::vector<std::string> texts);
  // One code point of these, as UTF-8. REQUIRES: Normal(ranges).
  Part Code(const std::vector<CodeRange>& ranges);
  Part Calling(int32_t rule);
  Part Then(Part first, Part second);
  // Each part stands for itself: none may be used twice.
  Part Either(const std::vector<Part>& parts);
  // `once`, which is all that was added since `begin`, so many times.
  Part Repeat(Mark begin, Part once, Count count);

  int32_t NewRule(std::string name);
  // A rule that counts, by its edges kCount.
  int32_t NewRule(std::string name, Count count);
  void SetRule(int32_t rule, Part part) { rules_[static_cast<size_t>(rule)].part = part; }
  void SetMeaning(int32_t rule, std::string meaning) {
    rules_[static_cast<size_t>(rule)].meaning = std::move(meaning);
  }

  Mark Here() const { return {static_cast<size_t>(n_states_), edges_.size(), rules_.size()}; }
  const std::vector<Edge>& edges() const { return edges_; }
  const std::vector<Rule>& rules() const { return rules_; }
  int32_t n_states() const { return n_states_; }
  // [windows so far] Of edges kCount.
  const std::vector<Count>& windows() const { return windows_; }
  // Whether a part, which is all that was added since `begin`, calls no rule and reads something.
  bool IsPlain(Mark begin, Part part) const;
  // Whether a rule counts.
  bool counts() const;
  // Adds the states, edges and rules of another net; its part in this one. `add(edge)` adds an edge
  // that reads a byte.
  template <class AddByte>
  Part Append(const Net& other, Part part, const AddByte& add);
  // The same as it is, but for rules with a meaning: of those with one meaning that nets appended
  // so have, all calls are of the first.
  Part Append(const Net& other, Part part);
  Budget& budget() const { return *budget_; }
  // Errors: UsageError when the grammar is larger than the bound.
  absl::Status status() const;

  static constexpr size_t kMaxSize = 400000;  // states and edges

 private:
  // A part that was repeated, so that the repetition of that can be one.
  struct Repeated {
    Part whole = {-1, -1};
    Mark begin, end;  // of `once`
    Part once;
    Count count;
  };

  // `numbers`: of the other's rules in this net.
  template <class AddByte>
  Part AppendWith(const Net& other, Part part, const std::vector<int32_t>& numbers,
                  const AddByte& add);
  bool MayBeEmpty(Mark begin, Part part) const;
  Part Copies(Mark begin, Part once, Count count);
  Part Counted(Mark begin, Part once, Count count);

  Budget* budget_;
  bool counting_;
  bool too_large_ = false;
  int32_t n_states_ = 0;
  std::vector<Edge> edges_;
  std::vector<Rule> rules_;
  std::vector<Count> windows_ = {{}};
  std::map<std::string, int32_t> meanings_;  // the rules that have them
  Repeated last_;
};

template <class AddByte>
Part Net::Append(const Net& other, Part part, const AddByte& add) {
  std::vector<int32_t> numbers(other.rules().size());
  std::iota(numbers.begin(), numbers.end(), static_cast<int32_t>(rules_.size()));
  return AppendWith(other, part, numbers, add);
}

template <class AddByte>
Part Net::AppendWith(const Net& other, Part part, const std::vector<int32_t>& numbers,
                     const AddByte& add) {
  const int32_t base = NewStates(other.n_states());
  const auto base_window = static_cast<int32_t>(windows_.size());
  if (too_large_) return {base, base};
  for (Rule rule : other.rules()) {
    rule.part.in += base;
    rule.part.out += base;
    rules_.push_back(std::move(rule));
  }
  windows_.insert(windows_.end(), other.windows().begin(), other.windows().end());
  for (Edge edge : other.edges()) {
    edge.from += base;
    edge.to += base;
    if (edge.calls()) edge.rule = numbers[static_cast<size_t>(edge.rule)];
    if (edge.kind == EdgeKind::kCount) edge.rule += base_window;
    if (edge.kind == EdgeKind::kByte) {
      add(edge);
    } else {
      Add(edge);
    }
  }
  return {base + part.in, base + part.out};
}

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_NET_H_
