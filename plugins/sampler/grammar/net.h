// A grammar over bytes, while a front end builds it.
//
// A grammar is a set of rules, each an automaton between an entry and an exit. An edge reads a byte
// of a range, reads nothing, or calls a rule and goes on when that rule has come to its exit. All
// three front ends (regex, GBNF, JSON schema) build one of these; Program is what runs.
//
// The number of states and edges is bounded. Beyond the bound everything that is added is dropped,
// and `status` says so; a front end may look at it once, at its end.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_NET_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_NET_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/status.h"

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
  kFree,   // reads nothing
  kBegin,  // reads nothing, at the beginning of the text only
  kEnd,    // reads nothing, at the end of the text only
  kCall,   // goes through `rule`
};

struct Edge {
  int32_t from = 0;
  int32_t to = 0;
  EdgeKind kind = EdgeKind::kFree;
  uint8_t low = 0;
  uint8_t high = 0;
  int32_t rule = -1;
};

// Two states with what lies between them.
struct Part {
  int32_t in = 0;
  int32_t out = 0;
};

struct Rule {
  std::string name;
  Part part = {-1, -1};
};

class Net {
 public:
  // Where a part begins; what is added from here on can be repeated.
  struct Mark {
    size_t state = 0;
    size_t edge = 0;
  };

  // `reach` is the length of the longest token: states that differ only in what is more than so
  // many bytes away have the same mask.
  explicit Net(int64_t reach, size_t max_size = kMaxSize) : reach_(reach), max_size_(max_size) {}

  int32_t NewState();
  // The first of `n` that follow one another; 0 where they are too many.
  int32_t NewStates(int64_t n);
  void SetAlias(int32_t state, int32_t alias) { alias_[static_cast<size_t>(state)] = alias; }
  void Add(const Edge& edge);
  void Byte(int32_t from, int32_t to, int low, int high);
  void Free(int32_t from, int32_t to) { Add({from, to, EdgeKind::kFree, 0, 0, -1}); }
  void Zero(int32_t from, int32_t to, EdgeKind kind) { Add({from, to, kind, 0, 0, -1}); }
  void Call(int32_t from, int32_t to, int32_t rule) {
    Add({from, to, EdgeKind::kCall, 0, 0, rule});
  }

  Part Nothing();
  Part Never();  // no way through it
  Part Text(std::string_view text);
  // One code point of these, as UTF-8. REQUIRES: Normal(ranges).
  Part Code(const std::vector<CodeRange>& ranges);
  Part Calling(int32_t rule);
  Part Then(Part first, Part second);
  // Each part stands for itself: none may be used twice.
  Part Either(const std::vector<Part>& parts);
  // `once`, which is all that was added since `begin`, from `least` to `most` times; -1: any
  // number.
  Part Repeat(Mark begin, Part once, int64_t least, int64_t most);

  int32_t NewRule(std::string name);
  void SetRule(int32_t rule, Part part) { rules_[static_cast<size_t>(rule)].part = part; }

  // For a net that has `times` states for each state of another one, layer by layer.
  void ShareAlias(const std::vector<int32_t>& of, int32_t times);

  Mark Here() const { return {alias_.size(), edges_.size()}; }
  const std::vector<Edge>& edges() const { return edges_; }
  const std::vector<Rule>& rules() const { return rules_; }
  // [n_states] The state whose mask this one has; itself in most cases.
  const std::vector<int32_t>& alias() const { return alias_; }
  int64_t n_states() const { return static_cast<int64_t>(alias_.size()); }
  int64_t reach() const { return reach_; }
  // Errors: UsageError when the grammar is larger than the bound.
  absl::Status status() const;

  static constexpr size_t kMaxSize = 400000;  // states and edges

 private:
  bool MayBeEmpty(Mark begin, Part part) const;
  void ShareMasks(Mark begin, size_t size, int64_t least, int64_t copies);

  int64_t reach_;
  size_t max_size_;
  bool too_large_ = false;
  std::vector<int32_t> alias_;
  std::vector<Edge> edges_;
  std::vector<Rule> rules_;
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_NET_H_
