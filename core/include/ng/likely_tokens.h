// What a row of logits says of the tokens. Any thread.
#ifndef NG_LIKELY_TOKENS_H_
#define NG_LIKELY_TOKENS_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace ng {

// The `n` most probable tokens as {id, probability}, falling, equal ones by rising id; all where
// there are no more. The softmax is taken in double. REQUIRES: all logits finite, n >= 0.
std::vector<std::pair<int32_t, float>> LikelyTokens(std::span<const float> logits,  // [vocab_size]
                                                    int64_t n);

// How many tokens come before `token` in this order. REQUIRES: 0 <= token < vocab_size.
int64_t RankOf(std::span<const float> logits, int32_t token);  // [vocab_size]

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_LIKELY_TOKENS_H_
