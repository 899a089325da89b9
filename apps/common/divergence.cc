#include "apps/common/divergence.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace ng {

double LogTotal(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double total = 0.0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - max);
  return max + std::log(total);
}

double KlDivergence(std::span<const float> p, double p_log_total, std::span<const float> q,
                    double q_log_total) {
  double sum = 0.0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double log_p = static_cast<double>(p[i]) - p_log_total;
    sum += std::exp(log_p) * (log_p - (static_cast<double>(q[i]) - q_log_total));
  }
  return std::max(0.0, sum);
}

}  // namespace ng
