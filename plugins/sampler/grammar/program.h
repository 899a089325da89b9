// A finished grammar, as Machine runs it: what cannot come to an end is gone, edges lie together by
// the state that they leave, and bytes that no edge tells apart are one class.
//
// Made once, in create; afterwards only read.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_PROGRAM_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_PROGRAM_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "plugins/sampler/grammar/net.h"

namespace ng::grammar {

class Program {
 public:
  struct Reads {
    uint8_t low = 0;  // classes, both ends included
    uint8_t high = 0;
    int32_t to = 0;
  };
  struct Calls {
    int32_t entry = 0;  // of the rule
    int32_t to = 0;
  };

  // Errors: UsageError when the grammar is too large, matches no text at all, or has a rule that
  // begins with itself.
  static absl::StatusOr<Program> Make(const Net& net, int32_t root);

  int32_t entry() const { return entry_; }
  int n_classes() const { return n_classes_; }
  uint8_t ClassOf(uint8_t byte) const { return class_of_[byte]; }

  std::span<const Reads> reads(int32_t state) const { return Row(reads_, reads_at_, state); }
  std::span<const int32_t> free(int32_t state) const { return Row(free_, free_at_, state); }
  std::span<const Calls> calls(int32_t state) const { return Row(calls_, calls_at_, state); }
  // Whether the state is the exit of its rule.
  bool IsExit(int32_t state) const { return exit_[static_cast<size_t>(state)] != 0; }
  // Whether nothing can be done in the state but to leave the rule.
  bool OnlyExit(int32_t state) const { return exit_[static_cast<size_t>(state)] == 2; }
  int32_t Alias(int32_t state) const { return alias_[static_cast<size_t>(state)]; }

 private:
  template <class T>
  static std::span<const T> Row(const std::vector<T>& all, const std::vector<int32_t>& at,
                                int32_t state) {
    const auto row = static_cast<size_t>(state);
    return std::span(all).subspan(static_cast<size_t>(at[row]),
                                  static_cast<size_t>(at[row + 1] - at[row]));
  }
  void SetClasses(std::span<const Edge> edges);
  void SetRows(std::span<const Edge> edges, const Net& net);

  int32_t entry_ = 0;
  int n_classes_ = 0;
  std::array<uint8_t, 256> class_of_ = {};
  std::vector<Reads> reads_;
  std::vector<int32_t> free_;
  std::vector<Calls> calls_;
  std::vector<int32_t> reads_at_, free_at_, calls_at_;  // [n_states + 1]
  std::vector<uint8_t> exit_;                           // [n_states]
  std::vector<int32_t> alias_;                          // [n_states]
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_PROGRAM_H_
