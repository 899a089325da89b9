#include "core/model/row_packer.h"

#include <cmath>
#include <span>

#include "core/formats/ggml_blocks.h"
#include "core/formats/tensor_source.h"

namespace ng {
namespace {

// Columns [column, column + n) of a [k, n_columns] matrix, as n rows. rows: [n, k]
void ConvertColumns(const TensorInfo& tensor, const std::byte* raw, int64_t column,
                    std::span<float> rows) {
  const int64_t n_columns = tensor.shape.back();
  const int64_t k = *(tensor.shape.end() - 2);
  const int64_t n = static_cast<int64_t>(rows.size()) / k;
  std::vector<float> line(static_cast<size_t>(n));
  for (int64_t i = 0; i < k; ++i) {
    const int64_t first = i * n_columns + column;
    ConvertToF32(tensor.dtype, raw + first * DTypeBytes(tensor.dtype), line);
    for (int64_t r = 0; r < n; ++r) {
      rows[static_cast<size_t>(r * k + i)] = line[static_cast<size_t>(r)];
    }
  }
}

}  // namespace

RowPacker::Verdict RowPacker::Pack(int64_t row, int64_t end) {
  // The matrix holds blocks as they are if it is of their grid.
  const DType dtype = binding_.tensor->dtype;
  const bool as_it_is = IsBlockType(dtype) && BlockGrid(dtype) == place_.type();
  return as_it_is ? PackBlocks(row, end) : PackValues(row, end);
}

RowPacker::Verdict RowPacker::PackBlocks(int64_t row, int64_t end) {
  const DType dtype = binding_.tensor->dtype;
  spans_.resize(static_cast<size_t>(k_ / DTypeBlock(dtype)));
  const int64_t block_bytes = DTypeBytes(dtype);
  const std::byte* block = raw_ + row * static_cast<int64_t>(spans_.size()) * block_bytes;
  Verdict verdict;
  for (; row < end; ++row) {
    for (QuantSpan& span : spans_) {
      ReadBlock(dtype, block, &span);
      verdict.finite = verdict.finite && IsFinite(dtype, span);
      block += block_bytes;
    }
    place_.matrix->PackSpans(place_.RowOf(row), 1, spans_.data());
  }
  return verdict;
}

RowPacker::Verdict RowPacker::PackValues(int64_t row, int64_t end) {
  const TensorInfo& tensor = *binding_.tensor;
  values_.resize(static_cast<size_t>((end - row) * k_));
  if (binding_.transposed) {
    ConvertColumns(tensor, raw_, row, values_);
  } else {
    const int64_t first = row * k_ / DTypeBlock(tensor.dtype) * DTypeBytes(tensor.dtype);
    ConvertToF32(tensor.dtype, raw_ + first, values_);
  }
  const float limit = PackedMatrix::MaxMagnitude(place_.type());
  Verdict verdict;
  for (const float value : values_) {
    verdict.finite = verdict.finite && std::isfinite(value);
    verdict.fits = verdict.fits && std::abs(value) <= limit;
  }
  const float* next = values_.data();
  for (int64_t run = 0; row < end; row += run, next += run * k_) {
    run = place_.RunOf(row, end);
    place_.matrix->PackRows(place_.RowOf(row), run, next);
  }
  return verdict;
}

}  // namespace ng
