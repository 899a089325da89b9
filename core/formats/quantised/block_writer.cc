#include "core/formats/quantised/block_writer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "core/formats/ggml_blocks.h"
#include "core/formats/quantised/factors.h"
#include "core/kernels/weight_type.h"
#include "ng/half.h"

namespace ng {
namespace {

constexpr int64_t kShortSpan = 32;
constexpr int64_t kLongSpan = 64;

// By bits, span and minima.
constexpr DType kTypes[2][2][2] = {{{DType::kW4, DType::kW4Minima},  //
                                    {DType::kW4Span64, DType::kW4Minima64}},
                                   {{DType::kW8, DType::kW8Minima},  //
                                    {DType::kW8Span64, DType::kW8Minima64}}};

// What is added to codes so that a zero that all share is the grid's own; none where there is no
// such number.
std::optional<int> ShiftOf(const MatrixForm& form, int grid_bits) {
  const bool one_zero =
      form.zeros.read == nullptr && form.biases.read == nullptr && form.biases.constant == 0.0F;
  if (!one_zero || form.zeros.constant != std::round(form.zeros.constant)) return std::nullopt;
  const int shift = (1 << (grid_bits - 1)) - static_cast<int>(form.zeros.constant);
  const int most = (1 << form.codes.bits) - 1 + shift;
  if (shift < 0 || most >= 1 << grid_bits) return std::nullopt;
  return shift;
}

int GridBits(const MatrixForm& form) { return form.codes.bits <= 4 ? 4 : 8; }

// Blocks of MXFP4: the power's byte, then the first 16 codes in the lower halves of the bytes.
void WriteMxfp4(const RowDecoder& decoder, int64_t row, const uint8_t* codes, int64_t k,
                std::byte* out) {
  for (int64_t begin = 0; begin < k; begin += kShortSpan, codes += kShortSpan) {
    const float scale = decoder.scale(row, begin / kShortSpan);
    *out++ = static_cast<std::byte>(std::bit_cast<uint32_t>(scale) >> 23U & 255U);
    for (int64_t i = 0; i < kShortSpan / 2; ++i) {
      *out++ = static_cast<std::byte>(codes[i] | codes[i + kShortSpan / 2] << 4);
    }
  }
}

// The code of a number of E4M3, which an f16 holds with the same bits, moved.
std::byte CodeOfE4m3(float number) {
  constexpr uint8_t kNoNumber = 0x7F;
  if (std::isnan(number)) return std::byte{kNoNumber};
  const uint32_t bits = F32ToF16(number / 256.0F);
  return static_cast<std::byte>((bits >> 8U & 0x80U) | (bits >> 7U & 0x7FU));
}

// Whether codes stand for these values; those of a file may be written with fewer digits.
bool IsTable(std::span<const float> values, std::span<const float> table) {
  constexpr float kDigits = 1e-6F;
  return std::ranges::equal(values, table, [](float value, float exact) {
    return std::abs(value - exact) <= kDigits * std::abs(exact);
  });
}

// A type and how many inputs share a factor in it.
struct CodeType {
  DType type;
  int64_t span;
};
// The types whose codes stand for the form's values, the best one first.
std::vector<CodeType> CodeTypesOf(const MatrixForm& form) {
  const bool only_scales = form.zeros.read == nullptr && form.zeros.constant == 0.0F &&
                           form.biases.read == nullptr && form.biases.constant == 0.0F;
  if (!only_scales) return {};
  if (form.values().data() == Float8E4m3Values().data()) {
    return {{DType::kE4m3Span128, 128}, {DType::kE4m3, kShortSpan}};
  }
  if (form.codes.bits != 4) return {};
  if (IsTable(form.values(), kNf4Values)) return {{DType::kNf4, kLongSpan}};
  if (IsTable(form.values(), kFp4Values)) return {{DType::kFp4, kLongSpan}};
  return {};
}

// Writes the integers of a span.
std::byte* WriteIntegers(const uint8_t* codes, int64_t span, int bits, std::byte* out) {
  if (bits == 8) {
    std::memcpy(out, codes, static_cast<size_t>(span));
    return out + span;
  }
  for (int64_t i = 0; i < span; i += 2) {
    *out++ = static_cast<std::byte>(codes[i] | codes[i + 1] << 4);
  }
  return out;
}

void WriteSpans(const MatrixForm& form, const RowDecoder& decoder, int64_t row, uint8_t* codes,
                std::byte* out) {
  const QuantGrid& grid = GridOf(BlockGrid(form.info.dtype));
  const int64_t k = form.n_inputs();
  if (!grid.has_minimum && !grid.has_floats()) {
    const auto shift = static_cast<uint8_t>(ShiftOf(form, GridBits(form)).value_or(0));
    for (int64_t i = 0; i < k; ++i) codes[i] = static_cast<uint8_t>(codes[i] + shift);
  }
  for (int64_t begin = 0; begin < k; begin += grid.span) {
    const int64_t group = begin / form.group;
    const float scale = grid.float_scales ? decoder.whole() : decoder.scale(row, group);
    std::memcpy(out, &scale, sizeof(scale));
    out += sizeof(scale);
    for (int64_t i = 0; grid.float_scales && i < grid.groups(); ++i) {
      *out++ = CodeOfE4m3(decoder.scale_of_whole(row, group + i));
    }
    if (grid.has_minimum) {
      const float minimum = scale * decoder.zero(row, group) - decoder.bias(row, group);
      std::memcpy(out, &minimum, sizeof(minimum));
      out += sizeof(minimum);
    }
    out = WriteIntegers(codes + begin, grid.span, GridBits(form), out);
  }
}

}  // namespace

DType GivenAs(const MatrixForm& form, int64_t n_inputs) {
  if (form.is_mxfp4) return DType::kMxfp4;
  if (!form.group_of.empty()) return DType::kComputed;
  const auto fits = [&](int64_t span) {
    return n_inputs % span == 0 && (form.group % span == 0 || form.group >= n_inputs);
  };
  if (form.is_nvfp4) return n_inputs % kLongSpan == 0 ? DType::kNvfp4 : DType::kComputed;
  if (!form.values().empty()) {
    for (const CodeType& code : CodeTypesOf(form)) {
      if (fits(code.span)) return code.type;
    }
    return DType::kComputed;
  }
  if (!fits(kShortSpan)) return DType::kComputed;
  const bool minima = !ShiftOf(form, GridBits(form)).has_value();
  return kTypes[GridBits(form) == 8][fits(kLongSpan)][minima];
}

void WriteRow(const MatrixForm& form, const RowDecoder& decoder, int64_t row, uint8_t* codes,
              std::byte* out) {
  if (form.is_mxfp4) {
    WriteMxfp4(decoder, row, codes, form.n_inputs(), out);
  } else if (IsBlockType(form.info.dtype)) {
    WriteSpans(form, decoder, row, codes, out);
  } else {
    std::vector<float> values(static_cast<size_t>(form.n_inputs()));
    decoder.ValuesOf(row, codes, values.data());
    std::memcpy(out, values.data(), values.size() * sizeof(float));
  }
}

}  // namespace ng
