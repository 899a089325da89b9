#include "core/model/load/row_packer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "core/base/finite.h"
#include "core/formats/ggml_blocks.h"
#include "core/formats/tensor_source.h"

namespace ng {
namespace {

// Columns [column, column + n) of a [k, n_columns] matrix, as n rows. Goes by 16 inputs, so that
// each line of a row is filled while it is in the cache; the next ones are fetched meanwhile, as
// they lie too far apart for the processor to foresee them. rows: [n, k]
void ConvertColumns(const TensorInfo& tensor, const std::byte* raw, int64_t column, int64_t k,
                    std::span<float> rows) {
  constexpr int64_t kAtATime = 16;
  const int64_t n_columns = tensor.shape.back();
  const int64_t n = static_cast<int64_t>(rows.size()) / k;
  // Whole blocks around the columns.
  const int64_t block = DTypeBlock(tensor.dtype);
  const int64_t begin = column / block * block;
  const int64_t width = (column + n + block - 1) / block * block - begin;
  const int64_t line_bytes = width / block * DTypeBytes(tensor.dtype);
  const auto line_of = [&](int64_t i) {
    return raw + (i * n_columns + begin) / block * DTypeBytes(tensor.dtype);
  };
  std::vector<float> lines(static_cast<size_t>(kAtATime * width));
  for (int64_t first = 0; first < k; first += kAtATime) {
    const int64_t count = std::min(kAtATime, k - first);
    for (int64_t i = 0; i < count; ++i) {
      if (first + i + kAtATime < k) {
        const std::byte* const next = line_of(first + i + kAtATime);
        for (int64_t at = 0; at < line_bytes; at += 64) __builtin_prefetch(next + at);
      }
      const auto at = static_cast<size_t>(i * width);
      ConvertToF32(tensor.dtype, line_of(first + i),
                   std::span(lines).subspan(at, static_cast<size_t>(width)));
    }
    for (int64_t r = 0; r < n; ++r) {
      const float* from = lines.data() + column - begin + r;
      float* const to = rows.data() + r * k + first;
      for (int64_t i = 0; i < count; ++i, from += width) to[i] = *from;
    }
  }
}

// Whether rows go in as they are stored: blocks of the matrix's grid, floats of its type.
bool AsStored(const TensorBinding& binding, const Place& place) {
  const DType dtype = binding.tensor->dtype;
  const WeightType type = place.type();
  if (binding.transposed) return false;
  if (IsBlockType(dtype)) return BlockGrid(dtype) == type;
  return (dtype == DType::kF32 && type == WeightType::kF32) ||
         (dtype == DType::kF16 && type == WeightType::kF16) ||
         (dtype == DType::kBf16 && type == WeightType::kBf16 && place.matrix->k() % 2 == 0);
}

}  // namespace

RowPacker::Verdict RowPacker::Pack(int64_t row, int64_t end, const std::byte* raw) {
  if (!AsStored(binding_, place_)) return PackValues(row, end, raw);
  return IsBlockType(binding_.tensor->dtype) ? PackBlocks(row, end, raw)
                                             : PackFloats(row, end, raw);
}

RowPacker::Verdict RowPacker::PackBlocks(int64_t row, int64_t end, const std::byte* raw) {
  const DType dtype = binding_.tensor->dtype;
  const int64_t row_bytes = k_ / DTypeBlock(dtype) * DTypeBytes(dtype);
  order_.clear();
  for (int64_t r = row; r < end; ++r) order_.emplace_back(place_.RowOf(r), r - row);
  std::ranges::sort(order_);
  Verdict verdict;
  std::array<int64_t, kBlockColumns> rows = {};
  for (auto next = order_.begin(); next != order_.end();) {
    const auto first_row = next;
    const int64_t block = first_row->first / kBlockColumns;
    size_t n_rows = 0;
    for (; next != order_.end() && next->first / kBlockColumns == block; ++next) {
      rows[n_rows++] = next->first;
    }
    const auto read = [&](int64_t first, std::span<QuantSpan> spans) {
      const size_t n = spans.size() / n_rows;
      for (size_t r = 0; r < n_rows; ++r) {
        const int64_t from = (first_row + static_cast<int64_t>(r))->second * row_bytes;
        verdict.finite &=
            ReadBlocks(dtype, raw + from + first * DTypeBytes(dtype), spans.subspan(r * n, n));
      }
    };
    place_.matrix->PackSpans(std::span(rows).first(n_rows), read);
  }
  return verdict;
}

RowPacker::Verdict RowPacker::PackFloats(int64_t row, int64_t end, const std::byte* raw) {
  const DType dtype = binding_.tensor->dtype;
  const int64_t row_bytes = k_ * DTypeBytes(dtype);
  const std::span<const std::byte> rows(raw, static_cast<size_t>((end - row) * row_bytes));
  Verdict verdict;
  verdict.finite = dtype == DType::kF32   ? AllFinite<uint32_t, 0x7F800000>(rows)
                   : dtype == DType::kF16 ? AllFinite<uint16_t, 0x7C00>(rows)
                                          : AllFinite<uint16_t, 0x7F80>(rows);
  for (int64_t run = 0; row < end; row += run, raw += run * row_bytes) {
    run = place_.RunOf(row, end);
    place_.matrix->PackStored(place_.RowOf(row), run, raw);
  }
  return verdict;
}

RowPacker::Verdict RowPacker::PackValues(int64_t row, int64_t end, const std::byte* raw) {
  const TensorInfo& tensor = *binding_.tensor;
  values_.resize(static_cast<size_t>((end - row) * k_));
  if (binding_.transposed) {
    ConvertColumns(tensor, raw, row, k_, values_);
  } else {
    ConvertToF32(tensor.dtype, raw, values_);
  }
  const float limit = PackedMatrix::MaxMagnitude(place_.type());
  uint32_t n_over = 0;  // no early exit: the loop stays in vector lanes
  for (const float value : values_) n_over += std::abs(value) <= limit ? 0U : 1U;
  Verdict verdict;
  verdict.finite = AllFinite(values_);
  verdict.fits = n_over == 0;
  const float* next = values_.data();
  for (int64_t run = 0; row < end; row += run, next += run * k_) {
    run = place_.RunOf(row, end);
    place_.matrix->PackRows(place_.RowOf(row), run, next);
  }
  return verdict;
}

}  // namespace ng
