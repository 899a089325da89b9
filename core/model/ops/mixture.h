// Mixture: the rows of a step through their experts, so that each expert that is used is read once
// for all of its rows.
//
// Called by the decoder. An output has the same bits whatever other rows are in the step, because
// each product has and a row's experts are added in the order of its own scores.
#ifndef NG_CORE_MODEL_OPS_MIXTURE_H_
#define NG_CORE_MODEL_OPS_MIXTURE_H_

#include <cstdint>
#include <functional>

#include "core/kernels/kernel_table.h"
#include "core/model/adapters/low_rank_inputs.h"
#include "core/model/ranks/rank_link.h"
#include "core/model/spec/model_spec.h"
#include "core/model/step/step_sizes.h"
#include "core/model/weights/rank_split.h"
#include "core/model/weights/weights.h"
#include "ng/executor.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

namespace ng {

// Everything is borrowed.
struct MixtureCall {
  const KernelTable& kernels;
  Executor& executor;
  const MixtureSpec& spec;
  const BlockWeights& w;
  const RankParts::Mixture& part;  // what of it this rank computes
  LowRankInputs& low_rank;         // what adapters add
  RowSets sets;                    // of the rows
  RankLink* link = nullptr;        // null: all
  // Is shown the router's logits, [n_rows, n_experts], before they are scores; empty: nobody is.
  std::function<absl::Status(const TensorView<float, 2>& logits)> look = {};
};

// out: [n_rows, width], of the rows in buffers.normed, and where norms are apart in
// buffers.router_rows and buffers.shared_rows. Allocates nothing.
// REQUIRES: the buffers have grown for so many rows, at most kMixtureRows.
absl::Status RunMixture(const MixtureCall& call, int64_t n_rows, MixtureBuffers& buffers,
                        float* out);

}  // namespace ng

#endif  // NG_CORE_MODEL_OPS_MIXTURE_H_
