// SuffixIndex: the tokens of a sequence, and where the last ones of them have been before.
//
// For each length from min to max it knows what followed the latest earlier place of every run of
// so many tokens. A token is added, and the longest suffix found, in time that grows with max
// alone. A runs's place is found by its hash and then compared token by token.
#ifndef NG_PLUGINS_DRAFTER_NGRAM_SUFFIX_INDEX_H_
#define NG_PLUGINS_DRAFTER_NGRAM_SUFFIX_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ng {

class SuffixIndex {
 public:
  // Reserves room for max_tokens tokens. REQUIRES: 1 <= min <= max, max_tokens >= 1.
  SuffixIndex(int64_t min, int64_t max, int64_t max_tokens);
  static int64_t Bytes(int64_t min, int64_t max, int64_t max_tokens);

  void Clear();
  // Does nothing once there are max_tokens of them.
  void Add(int32_t token);

  // Where what followed the longest suffix begins that was there before, the latest of such places;
  // -1: no suffix of min tokens was there.
  int64_t FindContinuation() const;
  // The tokens.
  std::span<const int32_t> tokens() const { return tokens_; }

 private:
  // The place in table_ of the run of `length` tokens before `end`, or the free one where it
  // belongs.
  size_t PlaceOf(int64_t end, int64_t length, uint64_t hash) const;
  bool SameRun(int64_t end, int64_t other_end, int64_t length) const;

  const int64_t min_;
  const int64_t max_;
  const int64_t max_tokens_;
  std::vector<int32_t> tokens_;
  // The place behind a run, and its length; a power of two of them, at most half of them taken.
  struct Entry {
    int32_t end = 0;  // 0: free
    int32_t length = 0;
  };
  std::vector<Entry> table_;
};

}  // namespace ng

#endif  // NG_PLUGINS_DRAFTER_NGRAM_SUFFIX_INDEX_H_
