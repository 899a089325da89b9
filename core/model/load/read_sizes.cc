#include "core/model/load/read_sizes.h"

#include <algorithm>
#include <vector>

#include "core/base/checked.h"
#include "core/model/weights/tensor_roles.h"

namespace ng {

int64_t RowsOf(const TensorBinding& binding) {
  if (binding.rows.of > 0 && !binding.transposed) return binding.rows.n;
  const std::vector<int64_t>& shape = binding.tensor->shape;
  if (binding.transposed) return shape.back();
  return shape.size() < 2 ? 1 : *(shape.end() - 2);  // one row may be stored as a vector
}

int64_t BytesReadAtATime(const TensorBinding& binding, int threads) {
  if (!IsMatrix(binding.role) || binding.transposed) return binding.n_bytes();
  const int64_t n_rows = RowsOf(binding);
  return binding.n_bytes() / n_rows * std::min(n_rows, kRowsPackedAtATime) * threads;
}

int64_t LoadScratchBytes(const ModelFile& file, int threads) {
  int64_t raw = 0;        // kept from tensor to tensor
  int64_t converted = 0;  // given back after each
  int64_t reading = 0;    // by the source
  for (const TensorBinding& binding : file.bindings) {
    raw = std::max(raw, BytesReadAtATime(binding, threads));
    reading = std::max(reading, file.source->ReadingBytes(*binding.tensor));
    int64_t values = binding.n_elements();
    if (IsMatrix(binding.role)) {
      values = std::min(values, values / RowsOf(binding) * kRowsPackedAtATime * threads);
    }
    converted = std::max(converted, SaturatingMul(values, sizeof(float)));
  }
  return SaturatingAdd(SaturatingAdd(raw, converted), reading);
}

}  // namespace ng
