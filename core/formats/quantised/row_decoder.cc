#include "core/formats/quantised/row_decoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

constexpr int kWordBytes = 4;

absl::StatusOr<std::vector<float>> ReadFactors(const Factors& factors, const TensorSource& source) {
  if (factors.read == nullptr) return std::vector<float>();
  return factors.read(source);
}

void CodesOfRow(const Codes& codes, const std::byte* row, int64_t k, uint8_t* out) {
  if (codes.bits == 8) {
    std::memcpy(out, row, static_cast<size_t>(k));
  } else if (codes.bits == 4 && k % 2 == 0) {
    const int first = codes.upper_first ? 4 : 0;
    for (int64_t i = 0; i < k; i += 2) {
      const auto two = std::to_integer<uint8_t>(row[i / 2]);
      out[i] = two >> first & 15;
      out[i + 1] = two >> (4 - first) & 15;
    }
  } else if (codes.per_word > 0) {
    for (int64_t i = 0; i < k; ++i) {
      const std::byte* const word = row + i / codes.per_word * kWordBytes;
      out[i] = BitsAt(word, i % codes.per_word * codes.bits, codes.bits);
    }
  } else {
    for (int64_t i = 0; i < k; ++i) out[i] = BitsAt(row, i * codes.bits, codes.bits);
  }
}

// The stream of bits of a column of words. words: [words of inputs, n_rows]
void CodesOfColumn(const Codes& codes, const std::byte* words, int64_t n_rows, int64_t row,
                   std::span<uint8_t> out) {
  const auto word_at = [&](int64_t word) {
    uint32_t bits;
    std::memcpy(&bits, words + (word * n_rows + row) * kWordBytes, sizeof(bits));
    return uint64_t{bits};
  };
  const uint32_t mask = (1U << codes.bits) - 1;
  int64_t word = -1;
  uint64_t stream = 0;
  for (int64_t i = 0; i < std::ssize(out); ++i) {
    const int64_t bit = i * codes.bits;
    if (bit / 32 != word) stream = word_at(word = bit / 32);
    if (bit % 32 + codes.bits > 32) stream |= word_at(word + 1) << 32U;
    out[static_cast<size_t>(i)] = static_cast<uint8_t>(stream >> (bit % 32) & mask);
  }
}

// words: [inputs, n_rows / 8]
void CodesOfEights(const std::byte* words, int64_t n_rows, int64_t row, std::span<uint8_t> out) {
  int place = 0;
  while (kEightsOrder[place] != row % 8) ++place;
  const int64_t stride = n_rows / 8 * kWordBytes;
  const std::byte* at = words + row / 8 * kWordBytes;
  for (uint8_t& code : out) {
    code = BitsAt(at, 4 * place, 4);
    at += stride;
  }
}

void CodesOfPlanes(const Codes& codes, const std::byte* elements, int64_t first,
                   std::span<uint8_t> out) {
  const uint32_t mask = (1U << codes.bits) - 1;
  for (uint8_t& code : out) {
    const auto plane = static_cast<int>(first / codes.plane_elements);
    uint32_t element = 0;
    std::memcpy(&element, elements + first % codes.plane_elements * codes.element_bytes,
                static_cast<size_t>(codes.element_bytes));
    code = static_cast<uint8_t>(element >> (codes.first_shift + plane * codes.next_shift) & mask);
    ++first;
  }
}

}  // namespace

absl::StatusOr<RowDecoder> RowDecoder::Load(const MatrixForm& form, const TensorSource& source) {
  RowDecoder decoder(form);
  NG_ASSIGN_OR_RETURN(decoder.scales_, ReadFactors(form.scales, source));
  NG_ASSIGN_OR_RETURN(decoder.whole_, ReadFactors(form.whole, source));
  NG_ASSIGN_OR_RETURN(decoder.zeros_, ReadFactors(form.zeros, source));
  NG_ASSIGN_OR_RETURN(decoder.biases_, ReadFactors(form.biases, source));
  if (form.codes.order != CodeOrder::kRows) {
    decoder.codes_.resize(static_cast<size_t>(form.codes.tensor->n_bytes));
    NG_RETURN_IF_ERROR(source.Read(*form.codes.tensor, decoder.codes_));
  }
  return decoder;
}

int64_t RowDecoder::Bytes(const MatrixForm& form) {
  const int64_t n =
      form.n_factors(form.scales) + form.n_factors(form.zeros) + form.n_factors(form.biases);
  const bool whole = form.codes.order != CodeOrder::kRows;
  return n * int64_t{sizeof(float)} + (whole ? form.codes.tensor->n_bytes : 0);
}

absl::StatusOr<RowDecoder::Rows> RowDecoder::Read(const TensorSource& source, int64_t first,
                                                  int64_t n) const {
  Rows rows{first, n};
  if (form_->codes.order != CodeOrder::kRows) return rows;
  rows.stored.resize(static_cast<size_t>(n * RowBytes()));
  NG_RETURN_IF_ERROR(source.ReadAt(*form_->codes.tensor, first * RowBytes(), rows.stored));
  return rows;
}

void RowDecoder::CodesOf(const Rows& rows, int64_t row, uint8_t* codes) const {
  const Codes& form = form_->codes;
  const int64_t k = form_->n_inputs();
  const std::span<uint8_t> out(codes, static_cast<size_t>(k));
  switch (form.order) {
    case CodeOrder::kRows:
      CodesOfRow(form, rows.stored.data() + (row - rows.first) * RowBytes(), k, codes);
      break;
    case CodeOrder::kColumns:
      CodesOfColumn(form, codes_.data(), form_->n_rows(), row, out);
      break;
    case CodeOrder::kEights:
      CodesOfEights(codes_.data(), form_->n_rows(), row, out);
      break;
    case CodeOrder::kPlanes:
      CodesOfPlanes(form, codes_.data(), row * k, out);
      break;
  }
  if (!form.is_signed) return;
  const auto half = static_cast<uint8_t>(1U << (form.bits - 1));
  for (uint8_t& code : out) code ^= half;
}

void RowDecoder::ValuesOf(int64_t row, const uint8_t* codes, float* values) const {
  const int64_t k = form_->n_inputs();
  const std::span<const float> table = form_->values();
  const auto value_of = [&](uint8_t code) {
    return table.empty() ? static_cast<float>(code) : table[code];
  };
  if (!form_->group_of.empty()) {
    for (int64_t i = 0; i < k; ++i) {
      const int32_t group = form_->group_of[static_cast<size_t>(i)];
      values[i] = (value_of(codes[i]) - zero(row, group)) * scale(row, group) + bias(row, group);
    }
    return;
  }
  for (int64_t begin = 0, group = 0; begin < k; begin += form_->group, ++group) {
    const float of_scale = scale(row, group);
    const float of_zero = zero(row, group);
    const float of_bias = bias(row, group);
    const int64_t end = std::min(k, begin + form_->group);
    for (int64_t i = begin; i < end; ++i) {
      values[i] = (value_of(codes[i]) - of_zero) * of_scale + of_bias;
    }
  }
}

}  // namespace ng
