// Numbers between the engine and NumPy. The GIL must be held.
#ifndef NG_APPS_PYTHON_ARRAYS_H_
#define NG_APPS_PYTHON_ARRAYS_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <span>
#include <vector>

#include "ng/point.h"

namespace ng::python {

namespace py = pybind11;

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Ids = py::array_t<int32_t, py::array::c_style | py::array::forcecast>;

// A copy with this shape. REQUIRES: as many values.
Floats CopyOf(std::span<const float> values, std::vector<py::ssize_t> shape);
Ids CopyOf(std::span<const int32_t> values);
// [n_rows, width], or [n_rows, n_heads, width] where a row has heads.
std::vector<py::ssize_t> ShapeOfRows(int64_t n_rows, int64_t n_heads, int64_t width);

inline std::span<const float> SpanOf(const Floats& array) {
  return {array.data(), static_cast<size_t>(array.size())};
}
inline std::span<const int32_t> SpanOf(const Ids& array) {
  return {array.data(), static_cast<size_t>(array.size())};
}
inline std::vector<int32_t> VectorOf(const Ids& array) {
  return {array.data(), array.data() + array.size()};
}
std::vector<std::vector<int32_t>> VectorsOf(const std::vector<Ids>& arrays);

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_ARRAYS_H_
