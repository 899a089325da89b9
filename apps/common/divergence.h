// How far two distributions over the vocabulary are from each other.
#ifndef NG_APPS_COMMON_DIVERGENCE_H_
#define NG_APPS_COMMON_DIVERGENCE_H_

#include <span>

namespace ng {

// The natural logarithm of the sum of exp(logit), in double. REQUIRES: at least one; all are
// finite.
double LogTotal(std::span<const float> logits);  // [vocab_size]

// KL(P || Q) of the softmax of two rows, in nats, from their LogTotals. Never below 0: where
// rounding would give less, it is 0.
double KlDivergence(std::span<const float> p, double p_log_total, std::span<const float> q,
                    double q_log_total);  // [vocab_size]

}  // namespace ng

#endif  // NG_APPS_COMMON_DIVERGENCE_H_
