#include "apps/python/arrays.h"

#include <algorithm>
#include <utility>

namespace ng::python {

Floats CopyOf(std::span<const float> values, std::vector<py::ssize_t> shape) {
  Floats array(std::move(shape));
  std::ranges::copy(values, array.mutable_data());
  return array;
}

Ids CopyOf(std::span<const int32_t> values) {
  Ids array(static_cast<py::ssize_t>(values.size()));
  std::ranges::copy(values, array.mutable_data());
  return array;
}

std::vector<py::ssize_t> ShapeOfRows(int64_t n_rows, int64_t n_heads, int64_t width) {
  if (n_heads > 0) return {n_rows, n_heads, width};
  return {n_rows, width};
}

std::vector<std::vector<int32_t>> VectorsOf(const std::vector<Ids>& arrays) {
  std::vector<std::vector<int32_t>> vectors;
  for (const Ids& array : arrays) vectors.push_back(VectorOf(array));
  return vectors;
}

}  // namespace ng::python
