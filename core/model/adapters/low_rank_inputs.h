// The inputs of a step's products, with what adapters add to these.
#ifndef NG_CORE_MODEL_ADAPTERS_LOW_RANK_INPUTS_H_
#define NG_CORE_MODEL_ADAPTERS_LOW_RANK_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/kernels/matmul.h"
#include "core/model/adapters/adapter_weights.h"
#include "ng/executor.h"
#include "ng/status.h"

namespace ng {

// Which adapters each row of a step is computed with: a place in the run's list of sets. Empty: the
// first of them, whatever the row.
using RowSets = std::span<const int32_t>;

// Its buffers only grow. [step]
class LowRankInputs {
 public:
  // All borrowed. `sets`: the run's adapters, and those with which some requests are computed; may
  // be empty.
  LowRankInputs(const KernelTable& kernels, Executor& executor,
                std::span<const AdapterWeights> sets)
      : kernels_(kernels), executor_(executor), sets_(sets) {}

  // Whether anything is added to the outputs of a matrix.
  bool AddsTo(const PackedMatrix& w) const;
  // To the row of a token.
  void AddToEmbedding(int32_t set, int32_t token, std::span<float> row) const;

  // Inputs of products that are computed together, so many at most; those before are no longer
  // valid.
  void Begin(size_t n_inputs);
  // Makes `input`, rows that a product with w reads, bring what is added to the product. `x`: the
  // same rows as floats; `of_rows`: [x.n_rows] or empty. Errors: those of the executor.
  absl::Status Add(const PackedMatrix& w, const MatmulInput& x, RowSets of_rows,
                   MatmulInput* input);

 private:
  struct Entry {
    std::vector<LowRankRows> rows;
    std::vector<float> inner;  // of one row of `rows` after the other
  };

  const KernelTable& kernels_;
  Executor& executor_;
  std::span<const AdapterWeights> sets_;
  std::vector<Entry> entries_;
  size_t n_used_ = 0;
};

}  // namespace ng

#endif  // NG_CORE_MODEL_ADAPTERS_LOW_RANK_INPUTS_H_
