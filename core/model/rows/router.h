// Which experts a row goes to.
#ifndef NG_CORE_MODEL_ROWS_ROUTER_H_
#define NG_CORE_MODEL_ROWS_ROUTER_H_

#include <cstdint>
#include <span>

#include "core/model/spec/model_spec.h"

namespace ng {

// The experts of one row and their weights, from the best score down. [worker]
// selection_bias, expert_scales: [n_experts] or empty. scores: [n_experts], the logits; become the
// scores. compared: [n_experts], of no meaning before and after. chosen, weights: [n_used].
// Whatever the logits are, the experts are in [0, n_experts); a NaN among them makes weights NaN.
struct RouterRow {
  std::span<const float> selection_bias;
  std::span<float> scores;
  std::span<float> compared;
  std::span<int32_t> chosen;
  std::span<float> weights;
  std::span<const float> expert_scales = {};
};
void Route(const RouterSpec& router, const RouterRow& row);

float Sigmoid(float x);

}  // namespace ng

#endif  // NG_CORE_MODEL_ROWS_ROUTER_H_
