// A regular expression over bytes as a deterministic automaton. The whole text must match. It knows
// literals, ., [...], [^...], \d \w \s \n \t, any other character behind a backslash as itself,
// ( | ), * + ? {m} {m,} {m,n}.
#ifndef NG_PARTS_SAMPLER_REGEX_BYTE_DFA_H_
#define NG_PARTS_SAMPLER_REGEX_BYTE_DFA_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ng/status.h"

namespace ng_parts {

class ByteDfa {
 public:
  static constexpr int32_t kDead = -1;  // no text that begins like this matches
  static constexpr int32_t kStart = 0;

  // Errors: UsageError saying what is wrong with the pattern and where.
  static absl::StatusOr<ByteDfa> Build(std::string_view pattern, int64_t max_states);

  int64_t size() const { return std::ssize(states_); }
  // The state behind these bytes.
  int32_t Walk(int32_t state, std::string_view bytes) const;
  // Whether the text so far matches; whether it does and no longer one can.
  bool Accepts(int32_t state) const { return states_[state].accepts; }
  bool Ends(int32_t state) const;

 private:
  struct State {
    std::array<int32_t, 256> next;
    bool accepts = false;
  };
  void DropDeadEnds();

  std::vector<State> states_;
};

}  // namespace ng_parts

#endif  // NG_PARTS_SAMPLER_REGEX_BYTE_DFA_H_
