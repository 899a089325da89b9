// From the rows of a stored tensor to their place in a packed matrix.
#ifndef NG_CORE_MODEL_LOAD_ROW_PACKER_H_
#define NG_CORE_MODEL_LOAD_ROW_PACKER_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/kernels/packed_matrix.h"
#include "core/model/files/model_file.h"
#include "core/model/weights/place.h"

namespace ng {

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

#endif  // NG_CORE_MODEL_LOAD_ROW_PACKER_H_
