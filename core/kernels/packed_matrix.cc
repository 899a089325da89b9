#include "core/kernels/packed_matrix.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include "core/kernels/quantize.h"
#include "core/kernels/span_layout.h"
#include "core/kernels/words.h"
#include "ng/half.h"
#include "ng/pages.h"
#include "ng/vec16.h"

namespace ng {
namespace {

constexpr int64_t kAlignment = 64;

// How many inputs of each of 16 rows are read before they are packed.
constexpr int64_t kInputsAtATime = 256;

// The element of one type, and its place in a block of columns.
struct F32Layout {
  using Element = float;
  static float Widen(Element element) { return element; }
  static int64_t Offset(int64_t k, int64_t column) { return k * kBlockColumns + column; }
};

struct F16Layout {
  using Element = uint16_t;
  static float Widen(Element element) { return F16ToF32(element); }
  static int64_t Offset(int64_t k, int64_t column) { return k * kBlockColumns + column; }
};

struct Bf16Layout {
  using Element = uint16_t;
  static float Widen(Element element) { return Bf16ToF32(element); }
  static int64_t Offset(int64_t k, int64_t column) {
    return k / 2 * (2 * kBlockColumns) + 2 * column + k % 2;
  }
};

// Packs rows of f32 as columns [column, column + n_rows) of one block.
void PackF32(const float* rows, int64_t column, int64_t n_rows, int64_t k, std::byte* block) {
  CopyBlock<uint32_t>(reinterpret_cast<const std::byte*>(rows), column, n_rows, k * 4, block);
}

// The same, rounded to bf16 in vector lanes, as many inputs at a time as fit the first-level cache.
void PackBf16(const float* rows, int64_t column, int64_t n_rows, int64_t k, std::byte* block) {
  std::array<uint16_t, kBlockColumns * kInputsAtATime> rounded;
  for (int64_t begin = 0; begin < k; begin += kInputsAtATime) {
    const int64_t n = std::min(kInputsAtATime, k - begin);
    const int64_t n_padded = n + n % 2;
    for (int64_t r = 0; r < n_rows; ++r) {
      const float* const from = rows + r * k + begin;
      uint16_t* const to = rounded.data() + r * n_padded;
      for (int64_t i = 0; i < n; ++i) to[i] = F32ToBf16(from[i]);
      if (n < n_padded) to[n] = 0;
    }
    CopyBlock<uint32_t>(reinterpret_cast<const std::byte*>(rounded.data()), column, n_rows,
                        n_padded * 2, block + Bf16Layout::Offset(begin, 0) * 2);
  }
}

// The same for f16, in squares of 16 x 16: each source line is read once, and each target line is
// filled while it is in the cache.
void PackF16(const float* rows, int64_t column, int64_t n_rows, int64_t k, std::byte* block) {
  auto* out = reinterpret_cast<uint16_t*>(block);
  for (int64_t begin = 0; begin < k; begin += 16) {
    const int64_t end = std::min(k, begin + 16);
    for (int64_t r = 0; r < n_rows; ++r) {
      for (int64_t i = begin; i < end; ++i) {
        out[F16Layout::Offset(i, column + r)] = F32ToF16(rows[r * k + i]);
      }
    }
  }
}

template <class Layout>
void UnpackColumn(const std::byte* block, int64_t column, int64_t k, float* out) {
  const auto* in = reinterpret_cast<const typename Layout::Element*>(block);
  for (int64_t i = 0; i < k; ++i) out[i] = Layout::Widen(in[Layout::Offset(i, column)]);
}

// Packs one span of each row. The span of all 16 columns is built in a small buffer, then streamed
// to its place. spans: [rows.size()], `stride` apart
template <WeightType kType>
void PutSpan(std::span<const int64_t> rows, const QuantSpan* spans, int64_t stride, std::byte* to) {
  const auto of_row = [&](size_t r) { return spans + static_cast<int64_t>(r) * stride; };
  if (rows.size() != static_cast<size_t>(kBlockColumns)) {
    for (size_t r = 0; r < rows.size(); ++r) {
      SpanLayout<kType>::template Put<uint32_t>({of_row(r)}, rows[r] % kBlockColumns, to);
    }
    return;
  }
  constexpr int64_t kBytes = GridOf(kType).SpanBytes();
  static_assert(kBytes % sizeof(__m128i) == 0);
  alignas(kAlignment) std::array<std::byte, kBytes> tile;
  for (size_t r = 0; r < rows.size(); r += 4) {
    SpanLayout<kType>::template Put<FourWords>(
        {of_row(r), of_row(r + 1), of_row(r + 2), of_row(r + 3)}, static_cast<int64_t>(r),
        tile.data());
  }
  StreamOut(tile, to);
}

// Packs all spans of the columns, which are the rows, in order. What is read at a time fits the
// first-level cache.
template <WeightType kType>
void PutSpans(std::span<const int64_t> rows, int64_t k, PackedMatrix::SpanReader read,
              std::byte* block) {
  constexpr QuantGrid kGrid = GridOf(kType);
  constexpr int64_t kAtATime = std::max<int64_t>(1, kInputsAtATime / kGrid.span);
  std::array<QuantSpan, kBlockColumns * kAtATime> spans;
  const int64_t n_spans = k / kGrid.span;
  for (int64_t first = 0; first < n_spans; first += kAtATime) {
    const int64_t n = std::min(kAtATime, n_spans - first);
    read(first, std::span(spans).first(rows.size() * static_cast<size_t>(n)));
    for (int64_t i = 0; i < n; ++i, block += kGrid.SpanBytes()) {
      PutSpan<kType>(rows, &spans[static_cast<size_t>(i)], n, block);
    }
  }
  _mm_sfence();
}

// Packs rows of f32 as the nearest blocks of int8 or int4.
template <WeightType kType>
void PackGridBlock(const float* rows, int64_t column, int64_t n_rows, int64_t k, std::byte* block) {
  constexpr auto kQuantize = kType == WeightType::kInt8 ? QuantizeInt8 : QuantizeInt4;
  using Layout = SpanLayout<kType>;
  for (int64_t i = 0; i < k; i += kQuantBlock, block += GridOf(kType).SpanBytes()) {
    for (int64_t r = 0; r < n_rows; r += 4) {
      float x[4][kQuantBlock] = {};
      const int64_t n = std::min<int64_t>(4, n_rows - r);
      for (int64_t lane = 0; lane < n; ++lane) {
        std::copy_n(rows + (r + lane) * k + i, std::min(kQuantBlock, k - i), x[lane]);
      }
      const FourSpans spans = kQuantize({x[0], x[1], x[2], x[3]});
      if (n == 4) {
        Layout::template Put<FourWords>({&spans[0], &spans[1], &spans[2], &spans[3]}, column + r,
                                        block);
        continue;
      }
      for (int64_t lane = 0; lane < n; ++lane) {
        Layout::template Put<uint32_t>({&spans[static_cast<size_t>(lane)]}, column + r + lane,
                                       block);
      }
    }
  }
}

template <WeightType kType>
void UnpackGridColumn(const std::byte* block, int64_t column, int64_t k, float* out) {
  constexpr QuantGrid kGrid = GridOf(kType);
  for (int64_t i = 0; i < k; i += kGrid.span, block += kGrid.SpanBytes()) {
    float values[kGrid.span];
    SpanValues(kGrid, SpanLayout<kType>::Get(block, column), values);
    std::copy_n(values, std::min(kGrid.span, k - i), out + i);
  }
}

// The functions of PackedMatrix for one type.
using Packing = void (*)(const float* rows, int64_t column, int64_t n_rows, int64_t k,
                         std::byte* block);
struct Codec {
  Packing pack;
  void (*unpack)(const std::byte* block, int64_t column, int64_t k, float* out);
  void (*put)(std::span<const int64_t> rows, int64_t k, PackedMatrix::SpanReader read,
              std::byte* block);
  float max_magnitude;
};

constexpr float kMaxF32 = std::numeric_limits<float>::max();
constexpr float kMaxF16 = 65504.0F;

template <class Layout>
constexpr Codec FloatCodec(Packing pack, float max_magnitude) {
  return {pack, UnpackColumn<Layout>, nullptr, max_magnitude};
}

template <WeightType kType>
constexpr Codec GridCodec(float max_magnitude) {
  return {PackGridBlock<kType>, UnpackGridColumn<kType>, PutSpans<kType>, max_magnitude};
}

// A type to which f32 values are never rounded.
template <WeightType kType>
constexpr Codec GridCodec() {
  return {nullptr, UnpackGridColumn<kType>, PutSpans<kType>, 0.0F};
}

constexpr Codec kCodecs[kWeightTypes] = {
    FloatCodec<F32Layout>(PackF32, kMaxF32),
    FloatCodec<Bf16Layout>(PackBf16, 0x1.fep127F),
    FloatCodec<F16Layout>(PackF16, kMaxF16),
    GridCodec<WeightType::kInt8>(kMaxF16 * 127),
    GridCodec<WeightType::kInt4>(kMaxF16 * 8),
    GridCodec<WeightType::kQ41>(),
    GridCodec<WeightType::kQ50>(),
    GridCodec<WeightType::kQ51>(),
    GridCodec<WeightType::kQ2K>(),
    GridCodec<WeightType::kQ3K>(),
    GridCodec<WeightType::kQ4K>(),
    GridCodec<WeightType::kQ5K>(),
    GridCodec<WeightType::kQ6K>(),
    GridCodec<WeightType::kIq4Nl>(),
    GridCodec<WeightType::kIq4Xs>(),
    GridCodec<WeightType::kIq3Xxs>(),
    GridCodec<WeightType::kIq3S>(),
    GridCodec<WeightType::kIq2>(),
    GridCodec<WeightType::kIq1>(),
    GridCodec<WeightType::kTernary>(),
    GridCodec<WeightType::kMxfp4>(),
    GridCodec<WeightType::kW4>(),
    GridCodec<WeightType::kW4Minima>(),
    GridCodec<WeightType::kW8>(),
    GridCodec<WeightType::kW8Minima>(),
    GridCodec<WeightType::kW4Span64>(),
    GridCodec<WeightType::kW4Minima64>(),
    GridCodec<WeightType::kW8Span64>(),
    GridCodec<WeightType::kW8Minima64>(),
    GridCodec<WeightType::kE4m3>(),
    GridCodec<WeightType::kE4m3Span128>(),
    GridCodec<WeightType::kNf4>(),
    GridCodec<WeightType::kFp4>(),
    GridCodec<WeightType::kNvfp4>(),
};

const Codec& CodecOf(WeightType type) { return kCodecs[static_cast<int>(type)]; }

}  // namespace

int64_t PackedMatrix::PackedBytes(WeightType type, int64_t n, int64_t k) {
  assert(n >= 1 && k >= 1);
  const WeightBand band = {type, (n - 1) / kBlockColumns + 1};
  return PackedBytes(std::span(&band, 1), k);
}

int64_t PackedMatrix::PackedBytes(std::span<const WeightBand> bands, int64_t k) {
  constexpr int64_t kTooMany = std::numeric_limits<int64_t>::max();
  if (k > int64_t{1} << 56) return kTooMany;
  int64_t total = 0;
  for (const WeightBand& band : bands) {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(band.n_blocks, PackedBlockBytes(band.type, k), &bytes) ||
        __builtin_add_overflow(total, bytes, &total) || total > kTooMany - kAlignment) {
      return kTooMany;
    }
    total = (total + kAlignment - 1) & -kAlignment;
  }
  return total;
}

float PackedMatrix::MaxMagnitude(WeightType type) { return CodecOf(type).max_magnitude; }

absl::StatusOr<PackedMatrix> PackedMatrix::Allocate(WeightType type, int64_t n, int64_t k) {
  NG_ASSIGN_OR_RETURN(WeightMemory memory, WeightMemory::Reserve(PackedBytes(type, n, k)));
  return memory.Allocate(type, n, k);
}

const PackedMatrix::Band& PackedMatrix::BandOf(int64_t row) const {
  assert(row >= 0 && row < n_);
  const auto after = std::ranges::upper_bound(bands_, row / kBlockColumns, {}, &Band::block_begin);
  return *(after - 1);
}

void PackedMatrix::PackRows(int64_t row, int64_t n_rows, const float* rows) {
  assert(row >= 0 && n_rows >= 0 && n_rows <= n_ - row);
  while (n_rows > 0) {
    const Band& band = BandOf(row);
    const int64_t column = row % kBlockColumns;
    const int64_t count = std::min(n_rows, kBlockColumns - column);
    CodecOf(band.type).pack(rows, column, count, k_, BlockOf(band, row));
    row += count;
    n_rows -= count;
    rows += count * k_;
  }
}

void PackedMatrix::PackStored(int64_t row, int64_t n_rows, const std::byte* rows) {
  assert(row >= 0 && n_rows >= 0 && n_rows <= n_ - row);
  const Band& band = BandOf(row);
  assert(!IsGrid(band.type) && (band.type != WeightType::kBf16 || k_ % 2 == 0));
  const int64_t row_bytes = k_ * (band.type == WeightType::kF32 ? 4 : 2);
  const auto copy = band.type == WeightType::kF16 ? CopyBlock<uint16_t> : CopyBlock<uint32_t>;
  while (n_rows > 0) {
    const int64_t column = row % kBlockColumns;
    const int64_t count = std::min(n_rows, kBlockColumns - column);
    copy(rows, column, count, row_bytes, BlockOf(band, row));
    row += count;
    n_rows -= count;
    rows += count * row_bytes;
  }
}

void PackedMatrix::PackSpans(std::span<const int64_t> rows, SpanReader read) {
  const Band& band = BandOf(rows.front());
  assert(k_ % GridOf(band.type).span == 0);
  assert(std::ranges::is_sorted(rows));
  CodecOf(band.type).put(rows, k_, read, BlockOf(band, rows.front()));
}

PackedMatrix PackedMatrix::Outputs(int64_t begin, int64_t end) const {
  assert(bands_.size() == 1 && begin % kBlockColumns == 0 && begin < end && end <= n_);
  PackedMatrix part = *this;
  part.n_ = end - begin;
  part.bytes_ = PackedBytes(bands_[0].type, part.n_, k_);
  std::byte* const data = BlockOf(bands_[0], begin);
  part.data_ = {data_, data};
  part.bands_ = {{bands_[0].type, 0, (part.n_ - 1) / kBlockColumns + 1, data}};
  return part;
}

void PackedMatrix::CopyRow(int64_t row, float* out) const {
  const Band& band = BandOf(row);
  CodecOf(band.type).unpack(BlockOf(band, row), row % kBlockColumns, k_, out);
}

std::byte* PackedMatrix::BlockOf(const Band& band, int64_t row) const {
  return band.data + (row / kBlockColumns - band.block_begin) * PackedBlockBytes(band.type, k_);
}

absl::StatusOr<WeightMemory> WeightMemory::Reserve(int64_t bytes) {
  WeightMemory memory;
  memory.data_ = MapPages(bytes);
  if (memory.data_ == nullptr) {
    return LimitError("the weights need " + std::to_string(bytes) + " bytes, more than can be had");
  }
  memory.size_ = bytes;
  return memory;
}

WeightMemory WeightMemory::Of(std::shared_ptr<std::byte> data, int64_t bytes) {
  WeightMemory memory;
  memory.data_ = std::move(data);
  memory.size_ = bytes;
  return memory;
}

absl::StatusOr<PackedMatrix> WeightMemory::Allocate(WeightType type, int64_t n, int64_t k) {
  const WeightBand band = {type, (n - 1) / kBlockColumns + 1};
  return Allocate(std::span(&band, 1), n, k);
}

absl::StatusOr<PackedMatrix> WeightMemory::Allocate(std::span<const WeightBand> bands, int64_t n,
                                                    int64_t k) {
  const int64_t bytes = PackedMatrix::PackedBytes(bands, k);
  if (bytes > size_ - used_) {
    return LimitError("a weight matrix of " + std::to_string(n) + " x " + std::to_string(k) +
                      " needs " + std::to_string(bytes) + " bytes, " +
                      std::to_string(size_ - used_) + " are left of " + std::to_string(size_));
  }
  PackedMatrix matrix;
  matrix.n_ = n;
  matrix.k_ = k;
  matrix.bytes_ = bytes;
  matrix.data_ = {data_, data_.get() + used_};
  int64_t block = 0;
  for (const WeightBand& band : bands) {
    matrix.bands_.push_back({band.type, block, block + band.n_blocks, data_.get() + used_});
    block += band.n_blocks;
    used_ += PackedMatrix::PackedBytes(std::span(&band, 1), k);
  }
  return matrix;
}

}  // namespace ng
