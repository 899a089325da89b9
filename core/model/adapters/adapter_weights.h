// The values of a run's adapters, laid out for the model's packed matrices (kernels/low_rank.h).
//
// Several adapters add up, in the order in which they are given: their ranks lie side by side.
#ifndef NG_CORE_MODEL_ADAPTERS_ADAPTER_WEIGHTS_H_
#define NG_CORE_MODEL_ADAPTERS_ADAPTER_WEIGHTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/kernels/low_rank.h"
#include "core/model/adapters/adapter_file.h"
#include "core/model/weights/weights.h"
#include "ng/executor.h"
#include "ng/status.h"

namespace ng {

// What adapters add to the rows of the embedding.
struct EmbeddingPairs {
  int64_t n_ranks = 0;
  std::vector<float> a;  // [vocab_size, n_ranks]
  std::vector<float> b;  // [n_ranks, width]

  // row: [width]; sums over rising ranks.
  void AddTo(int32_t token, std::span<float> row) const;
};

// Const methods may be called from any thread.
class AdapterWeights {
 public:
  using Matrices = absl::flat_hash_map<const std::byte*, LowRank>;  // by PackedMatrix::data

  AdapterWeights(Matrices matrices, EmbeddingPairs embedding, uint64_t hash)
      : matrices_(std::move(matrices)), embedding_(std::move(embedding)), hash_(hash) {}

  // What is added to a matrix; null: nothing.
  const LowRank* Of(const PackedMatrix& matrix) const {
    const auto found = matrices_.find(matrix.data());
    return found == matrices_.end() ? nullptr : &found->second;
  }
  const EmbeddingPairs& embedding() const { return embedding_; }
  // A hash of every value and scale together with that of the model's weights.
  uint64_t HashWith(uint64_t model_hash) const;

 private:
  Matrices matrices_;
  EmbeddingPairs embedding_;
  uint64_t hash_ = 0;
};

// An adapter, and by how much it counts: 1 as it was trained.
struct ScaledAdapter {
  AdapterFile file;
  double scale = 1.0;
};

using Adapters = std::span<const ScaledAdapter* const>;

// Memory of what LoadAdapters keeps, at most.
int64_t AdapterBytes(Adapters adapters, const ModelFile& model);

// Reads all pairs. `weights` are those of the model, read; of what another rank computes nothing is
// kept. Errors: ModelFileError naming the adapter's tensor that cannot be read or is not finite;
// LimitError.
absl::StatusOr<AdapterWeights> LoadAdapters(Adapters adapters, const ModelFile& model,
                                            ModelWeights& weights, Executor& executor);

}  // namespace ng

#endif  // NG_CORE_MODEL_ADAPTERS_ADAPTER_WEIGHTS_H_
