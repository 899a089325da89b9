#include "core/model/ranks/whole_model.h"

#include <cstddef>

#include "core/base/hash.h"
#include "core/model/load/file_types.h"
#include "core/model/load/load_weights.h"
#include "core/model/ranks/layer_split.h"

namespace ng {
namespace {

// For each tensor of a process, the number of its hashes and these: what it tells the others.
std::vector<uint64_t> Flat(const RowHashes& hashes) {
  std::vector<uint64_t> flat;
  for (const std::vector<uint64_t>& tensor : hashes) {
    flat.push_back(tensor.size());
    flat.insert(flat.end(), tensor.begin(), tensor.end());
  }
  return flat;
}

// The hashes of all tensors, each from the first process that has it. [bindings]
absl::StatusOr<RowHashes> Share(const WholeModel& whole, const RowHashes& own, RankLink& link) {
  RowHashes all(whole.bindings.size());
  for (const LayerSplit& part : whole.parts) {
    std::vector<uint64_t> flat;
    if (part.rank == link.split().rank) flat = Flat(own);
    NG_RETURN_IF_ERROR(link.Share(&flat, part.rank));
    size_t at = 0;
    for (size_t i = 0; i < whole.bindings.size(); ++i) {
      if (!HasTensor(part, whole.spec, whole.bindings[i])) continue;
      const auto first = flat.begin() + static_cast<std::ptrdiff_t>(at + 1);
      const auto end = first + static_cast<std::ptrdiff_t>(flat[at]);
      if (all[i].empty()) all[i].assign(first, end);
      at += 1 + flat[at];
    }
  }
  return all;
}

}  // namespace

absl::StatusOr<uint64_t> HashOfAllLayers(const WholeModel& whole, const RowHashes& own,
                                         const TensorSource& source, RankLink& link) {
  NG_ASSIGN_OR_RETURN(const RowHashes rows, Share(whole, own, link));
  uint64_t hash = 0;
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < whole.bindings.size(); ++i) {
    const TensorBinding& binding = whole.bindings[i];
    if (whole.head_copy && binding.role == TensorRole::kHead) continue;
    for (const uint64_t of_rows : rows[i]) {
      hash = HashOf(std::as_bytes(std::span(&of_rows, 1)), hash);
    }
    if (!rows[i].empty()) continue;
    // What is read as a whole is hashed so, behind all that is before it.
    bytes.resize(static_cast<size_t>(binding.n_bytes()));
    NG_RETURN_IF_ERROR(source.ReadAt(*binding.tensor, binding.first_byte(), bytes));
    hash = HashOf(bytes, hash);
  }
  return hash;
}

}  // namespace ng
