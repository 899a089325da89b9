#include "core/model/adapters/merge_adapters.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "core/model/load/weight_memory.h"

namespace ng {
namespace {

// Whether rows of f32 can be rounded to the type (PackedMatrix::PackRows).
bool CanPack(WeightType type) {
  return !IsGrid(type) || type == WeightType::kInt8 || type == WeightType::kInt4;
}

// Changes every row of a matrix, by blocks of columns, each packed by one worker.
absl::Status ChangeRows(PackedMatrix& matrix, Executor& executor,
                        absl::FunctionRef<void(int64_t row, std::span<float> values)> change) {
  for (const PackedMatrix::Band& band : matrix.bands()) {
    if (CanPack(band.type)) continue;
    return UsageError(absl::StrCat("an adapter is not merged into weights that are held as ",
                                   std::string(WeightTypeName(band.type)),
                                   "; --model.weights=int8 or bf16 holds them as it can be"));
  }
  const int64_t n_blocks = (matrix.n() + kBlockColumns - 1) / kBlockColumns;
  return ParallelFor(executor, n_blocks, [&](int64_t begin, int64_t end, int /*worker*/) {
    std::vector<float> rows(static_cast<size_t>(kBlockColumns * matrix.k()));
    for (int64_t first = begin * kBlockColumns; first < end * kBlockColumns;
         first += kBlockColumns) {
      const int64_t n = std::min(kBlockColumns, matrix.n() - first);
      for (int64_t i = 0; i < n; ++i) {
        const std::span row = std::span(rows).subspan(static_cast<size_t>(i * matrix.k()),
                                                      static_cast<size_t>(matrix.k()));
        matrix.CopyRow(first + i, row.data());
        change(first + i, row);
      }
      matrix.PackRows(first, n, rows.data());
    }
  });
}

absl::Status Merge(const LowRank& added, PackedMatrix& matrix, Executor& executor) {
  std::vector<float> a(static_cast<size_t>(added.n_ranks() * matrix.k()));
  for (int64_t rank = 0; rank < added.n_ranks(); ++rank) {
    added.a.CopyRow(rank, a.data() + rank * matrix.k());
  }
  return ChangeRows(matrix, executor, [&](int64_t c, std::span<float> row) {
    const LowRank::Block& block = added.blocks[static_cast<size_t>(c / kBlockColumns)];
    if (!added.factors.empty()) {
      for (float& value : row) value *= added.factors[static_cast<size_t>(c)];
    }
    for (int64_t r = 0; r < block.n; ++r) {
      const float b =
          added.b[static_cast<size_t>(block.at + r * kBlockColumns + c % kBlockColumns)];
      const float* const of_rank = a.data() + (block.first + r) * matrix.k();
      for (size_t i = 0; i < row.size(); ++i) row[i] += b * of_rank[i];
    }
  });
}

}  // namespace

absl::Status MergeAdapters(const AdapterWeights& adapters, const ModelFile& model,
                           ModelWeights& weights, Executor& executor) {
  const EmbeddingPairs& embedding = adapters.embedding();
  if (embedding.n_ranks > 0) {
    if (model.spec.head.tied) {
      return UsageError(absl::StrCat(
          model.source->path(),
          ": the head is tied to the embedding, which an adapter adds to without it; leave the "
          "adapter out here, and give it to the run"));
    }
    NG_RETURN_IF_ERROR(
        ChangeRows(weights.embedding, executor, [&](int64_t token, std::span<float> row) {
          embedding.AddTo(static_cast<int32_t>(token), row);
        }));
  }
  std::set<const PackedMatrix*> merged;
  for (const TensorBinding& binding : model.bindings) {
    const Place place = PlaceOf(binding, model.spec, weights);
    const LowRank* const added = place.matrix == nullptr ? nullptr : adapters.Of(*place.matrix);
    if (added == nullptr || !merged.insert(place.matrix).second) continue;
    NG_RETURN_IF_ERROR(Merge(*added, *place.matrix, executor));
  }
  return absl::OkStatus();
}

}  // namespace ng
