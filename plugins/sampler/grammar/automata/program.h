// A finished grammar, as Machine runs it: what cannot come to an end is gone, each rule is made
// deterministic where that does not make it much larger, edges lie together by the state that they
// leave, and bytes that no edge tells apart are one class. Each token that an edge reads as a whole
// is a class of its own, and the others that have no text are one more.
//
// Made once, in create; afterwards only read.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_PROGRAM_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_PROGRAM_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plugins/sampler/grammar/automata/net.h"

namespace ng::grammar {

struct FlatRules;

class Program {
 public:
  struct Reads {
    uint16_t low = 0;  // classes, both ends included
    uint16_t high = 0;
    int32_t to = 0;
  };
  struct Calls {
    int32_t rule = 0;
    int32_t to = 0;
  };
  struct CalledRule {
    int32_t entry = 0;
    // A rule that begins with another one has the smaller rank.
    int32_t rank = 0;
    bool counts = false;
    Count count = {};
    int64_t slack = 0;
  };
  struct Counts {
    int32_t to = 0;
    Count window = {};
  };

  // Errors: UsageError when the grammar is too large, matches no text at all, or has a rule that
  // begins with itself.
  static absl::StatusOr<Program> Make(const Net& net, int32_t root);

  int32_t root() const { return root_; }
  // What of the schemas of tools is not kept, for people; a line each.
  const std::vector<std::string>& notes() const { return notes_; }
  void set_notes(std::vector<std::string> notes) { notes_ = std::move(notes); }
  // Whether the empty text is one of the grammar's.
  bool may_be_empty() const { return may_be_empty_; }
  int n_classes() const { return n_classes_; }
  uint8_t ClassOf(uint8_t byte) const { return class_of_[byte]; }
  // [n] Rising: the tokens that have a class of their own.
  std::span<const int32_t> tokens() const { return tokens_; }
  // Whether an edge reads the others, too.
  bool reads_others() const { return reads_others_; }
  // The class of tokens()[i], and of the others where i = tokens().size().
  uint16_t ClassOfToken(size_t i) const {
    return static_cast<uint16_t>(static_cast<size_t>(n_classes_) - tokens_.size() - 1 + i);
  }

  std::span<const Reads> reads(int32_t state) const { return Row(reads_, reads_at_, state); }
  std::span<const int32_t> free(int32_t state) const { return Row(free_, free_at_, state); }
  std::span<const Calls> calls(int32_t state) const { return Row(calls_, calls_at_, state); }
  // Where a state leads when its rule counts one more.
  std::span<const Counts> counts(int32_t state) const { return Row(counts_, counts_at_, state); }
  const CalledRule& rule(int32_t rule) const { return rules_[static_cast<size_t>(rule)]; }
  // Whether the state is the exit of its rule.
  bool IsExit(int32_t state) const { return exit_[static_cast<size_t>(state)] != 0; }
  // Whether nothing can be done in the state but to leave the rule, which does not count.
  bool OnlyExit(int32_t state) const { return exit_[static_cast<size_t>(state)] == kOnlyExit; }

 private:
  template <class T>
  static std::span<const T> Row(const std::vector<T>& all, const std::vector<int32_t>& at,
                                int32_t state) {
    const auto row = static_cast<size_t>(state);
    return std::span(all).subspan(static_cast<size_t>(at[row]),
                                  static_cast<size_t>(at[row + 1] - at[row]));
  }
  // kExitOfCount: the count must be looked at. kOnlyExit: of a rule that does not count.
  enum Exit : uint8_t { kNoExit, kExit, kExitOfCount, kOnlyExit };
  void SetClasses(const FlatRules& flat);
  void SetRows(const FlatRules& flat);

  std::vector<std::string> notes_;
  int32_t root_ = 0;
  bool may_be_empty_ = false;
  int n_classes_ = 0;
  std::array<uint8_t, 256> class_of_ = {};
  std::vector<int32_t> tokens_;
  bool reads_others_ = false;
  std::vector<CalledRule> rules_;
  std::vector<Reads> reads_;
  std::vector<int32_t> free_;
  std::vector<Calls> calls_;
  std::vector<Counts> counts_;
  std::vector<int32_t> reads_at_, free_at_, calls_at_, counts_at_;  // [n_states + 1]
  std::vector<uint8_t> exit_;                                       // [n_states]
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_PROGRAM_H_
