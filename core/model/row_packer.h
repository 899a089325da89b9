// From the rows of a stored tensor to their place in a packed matrix.
#ifndef NG_CORE_MODEL_ROW_PACKER_H_
#define NG_CORE_MODEL_ROW_PACKER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/kernels/packed_matrix.h"
#include "core/model/model_file.h"

namespace ng {

// Where a tensor goes: into the rows from `first` on of a matrix, or of a vector of `size` values;
// when interleaved, 16 rows at a time into every second 16.
struct Place {
  PackedMatrix* matrix = nullptr;
  std::vector<float>* vector = nullptr;
  int64_t first = 0;
  int64_t size = 0;
  bool interleaved = false;
  int64_t paired = 0;  // head_dim, where RoleName's pairs of rows come apart

  int64_t RowOf(int64_t row) const {
    if (interleaved) return first + row / kBlockColumns * kBlockColumns + row;
    if (paired == 0) return first + row;
    const int64_t in_head = row % paired;
    return first + row - in_head + in_head % 2 * (paired / 2) + in_head / 2;
  }
  // What its matrix holds it as.
  WeightType type() const { return matrix->type(first); }
  // How many of the rows [row, end) lie side by side.
  int64_t RunOf(int64_t row, int64_t end) const {
    if (interleaved) return std::min(end - row, kBlockColumns - row % kBlockColumns);
    return paired == 0 ? end - row : 1;
  }
};

// Packs rows of one tensor into their matrix. One for each worker.
class RowPacker {
 public:
  // Both are borrowed.
  RowPacker(const TensorBinding& binding, const Place& place)
      : binding_(binding), place_(place), k_(place.matrix->k()) {}

  // Rows [row, end) from their bytes, of a transposed tensor from all its bytes. Of the values that
  // went in: all were finite, none above the type's limit.
  struct Verdict {
    bool finite = true;
    bool fits = true;
  };
  Verdict Pack(int64_t row, int64_t end, const std::byte* raw);

 private:
  Verdict PackBlocks(int64_t row, int64_t end, const std::byte* raw);
  Verdict PackFloats(int64_t row, int64_t end, const std::byte* raw);
  Verdict PackValues(int64_t row, int64_t end, const std::byte* raw);

  const TensorBinding& binding_;
  const Place& place_;
  int64_t k_;
  std::vector<float> values_;                       // [rows, k]
  std::vector<std::pair<int64_t, int64_t>> order_;  // rows of the matrix, of the tensor
};

}  // namespace ng

#endif  // NG_CORE_MODEL_ROW_PACKER_H_
