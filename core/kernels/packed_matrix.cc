#include "core/kernels/packed_matrix.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <string>

#include "core/kernels/quantize.h"
#include "ng/half.h"

namespace ng {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kAlignment = 64;

// One type's element, and where it lies in its block of columns.
struct F32Layout {
  using Element = float;
  static Element Round(float value) { return value; }
  static float Widen(Element element) { return element; }
  static int64_t Offset(int64_t k, int64_t column) { return k * kBlockColumns + column; }
};

struct F16Layout {
  using Element = uint16_t;
  static Element Round(float value) { return F32ToF16(value); }
  static float Widen(Element element) { return F16ToF32(element); }
  static int64_t Offset(int64_t k, int64_t column) { return k * kBlockColumns + column; }
};

struct Bf16Layout {
  using Element = uint16_t;
  static Element Round(float value) { return F32ToBf16(value); }
  static float Widen(Element element) { return Bf16ToF32(element); }
  static int64_t Offset(int64_t k, int64_t column) {
    return k / 2 * (2 * kBlockColumns) + 2 * column + k % 2;
  }
};

// Columns [column, column + n_rows) of one block. In squares of 16 x 16: each source line is read
// once and each target line filled while it is near.
template <class Layout>
void PackBlock(const float* rows, int64_t column, int64_t n_rows, int64_t k, std::byte* block) {
  auto* out = reinterpret_cast<typename Layout::Element*>(block);
  for (int64_t begin = 0; begin < k; begin += 16) {
    const int64_t end = std::min(k, begin + 16);
    for (int64_t r = 0; r < n_rows; ++r) {
      for (int64_t i = begin; i < end; ++i) {
        out[Layout::Offset(i, column + r)] = Layout::Round(rows[r * k + i]);
      }
    }
  }
}

template <class Layout>
void UnpackColumn(const std::byte* block, int64_t column, int64_t k, float* out) {
  const auto* in = reinterpret_cast<const typename Layout::Element*>(block);
  for (int64_t i = 0; i < k; ++i) out[i] = Layout::Widen(in[Layout::Offset(i, column)]);
}

// Where the parts of one quantised block lie: 32 inputs of 16 columns.
constexpr int64_t QuantBytes(int bits) { return kBlockColumns * kQuantBlock * bits / 8; }

template <int kBits>
void PutQuants(const Quants& quants, int64_t column, std::byte* block) {
  auto* bytes = reinterpret_cast<uint8_t*>(block);
  for (int64_t i = 0; i < kQuantBlock; ++i) {
    const uint8_t q = quants.q[i];
    if constexpr (kBits == 8) {
      bytes[i / 4 * 64 + column * 4 + i % 4] = q;
    } else {
      uint8_t& byte = bytes[i / 8 * 64 + column * 4 + i % 4];
      byte = static_cast<uint8_t>(i % 8 < 4 ? (byte & 0xF0) | q : (byte & 0x0F) | (q << 4));
    }
  }
  std::memcpy(block + QuantBytes(kBits) + column * 2, &quants.scale, sizeof(quants.scale));
}

template <int kBits>
Quants GetQuants(const std::byte* block, int64_t column) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(block);
  Quants quants;
  for (int64_t i = 0; i < kQuantBlock; ++i) {
    if constexpr (kBits == 8) {
      quants.q[i] = bytes[i / 4 * 64 + column * 4 + i % 4];
    } else {
      const uint8_t byte = bytes[i / 8 * 64 + column * 4 + i % 4];
      quants.q[i] = i % 8 < 4 ? byte & 0x0F : byte >> 4;
    }
  }
  std::memcpy(&quants.scale, block + QuantBytes(kBits) + column * 2, sizeof(quants.scale));
  return quants;
}

template <int kBits>
void PackQuantBlock(const float* rows, int64_t column, int64_t n_rows, int64_t k,
                    std::byte* block) {
  for (int64_t i = 0; i < k; i += kQuantBlock, block += QuantBytes(kBits) + kBlockColumns * 2) {
    for (int64_t r = 0; r < n_rows; ++r) {
      float x[kQuantBlock] = {};
      std::copy_n(rows + r * k + i, std::min(kQuantBlock, k - i), x);
      PutQuants<kBits>(kBits == 8 ? QuantizeInt8(x) : QuantizeInt4(x), column + r, block);
    }
  }
}

template <int kBits>
void UnpackQuantColumn(const std::byte* block, int64_t column, int64_t k, float* out) {
  constexpr int kZero = kBits == 8 ? 128 : 8;
  for (int64_t i = 0; i < k; i += kQuantBlock, block += QuantBytes(kBits) + kBlockColumns * 2) {
    const Quants quants = GetQuants<kBits>(block, column);
    const float scale = F16ToF32(quants.scale);
    for (int64_t j = 0; j < std::min(kQuantBlock, k - i); ++j) {
      out[i + j] = scale * static_cast<float>(quants.q[j] - kZero);
    }
  }
}

// What PackedMatrix does with a type.
struct Codec {
  void (*pack)(const float* rows, int64_t column, int64_t n_rows, int64_t k, std::byte* block);
  void (*unpack)(const std::byte* block, int64_t column, int64_t k, float* out);
  float max_magnitude;
};

constexpr float kMaxF32 = std::numeric_limits<float>::max();
constexpr float kMaxF16 = 65504.0F;

constexpr Codec kCodecs[kWeightTypes] = {
    {PackBlock<F32Layout>, UnpackColumn<F32Layout>, kMaxF32},
    {PackBlock<Bf16Layout>, UnpackColumn<Bf16Layout>, 0x1.fep127F},
    {PackBlock<F16Layout>, UnpackColumn<F16Layout>, kMaxF16},
    {PackQuantBlock<8>, UnpackQuantColumn<8>, kMaxF16 * 127},
    {PackQuantBlock<4>, UnpackQuantColumn<4>, kMaxF16 * 8},
};

const Codec& CodecOf(WeightType type) { return kCodecs[static_cast<int>(type)]; }

}  // namespace

int64_t PackedMatrix::PackedBytes(WeightType type, int64_t n, int64_t k) {
  assert(n >= 1 && k >= 1);
  constexpr int64_t kTooMany = std::numeric_limits<int64_t>::max();
  if (k > int64_t{1} << 56) return kTooMany;
  const int64_t n_blocks = (n - 1) / kBlockColumns + 1;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(n_blocks, PackedBlockBytes(type, k), &bytes)) return kTooMany;
  return bytes > kTooMany - kAlignment ? kTooMany : (bytes + kAlignment - 1) & -kAlignment;
}

float PackedMatrix::MaxMagnitude(WeightType type) { return CodecOf(type).max_magnitude; }

absl::StatusOr<PackedMatrix> PackedMatrix::Allocate(WeightType type, int64_t n, int64_t k) {
  NG_ASSIGN_OR_RETURN(WeightMemory memory, WeightMemory::Reserve(PackedBytes(type, n, k)));
  return memory.Allocate(type, n, k);
}

absl::StatusOr<WeightMemory> WeightMemory::Reserve(int64_t bytes) {
  // Mapped with room to begin at a huge page.
  const auto room = static_cast<size_t>(bytes) + (bytes >= kHugePage ? kHugePage : 0);
  void* mapped =
      mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (mapped == MAP_FAILED) {
    return LimitError("the weights need " + std::to_string(bytes) + " bytes, more than can be had");
  }
  WeightMemory memory;
  const std::shared_ptr<std::byte> whole(static_cast<std::byte*>(mapped),
                                         [room](std::byte* p) { munmap(p, room); });
  std::byte* begin = whole.get();
  if (bytes >= kHugePage) {
    const auto past = reinterpret_cast<uintptr_t>(begin) % kHugePage;
    if (past != 0) begin += kHugePage - past;
    madvise(begin, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // a hint
  }
  memory.data_ = {whole, begin};
  memory.size_ = bytes;
  return memory;
}

absl::StatusOr<PackedMatrix> WeightMemory::Allocate(WeightType type, int64_t n, int64_t k) {
  const int64_t bytes = PackedMatrix::PackedBytes(type, n, k);
  if (bytes > size_ - used_) {
    return LimitError("a weight matrix of " + std::to_string(n) + " x " + std::to_string(k) +
                      " needs " + std::to_string(bytes) + " bytes, " +
                      std::to_string(size_ - used_) + " are left of " + std::to_string(size_));
  }
  PackedMatrix matrix;
  matrix.type_ = type;
  matrix.n_ = n;
  matrix.k_ = k;
  matrix.data_ = {data_, data_.get() + used_};
  used_ += bytes;
  return matrix;
}

void PackedMatrix::PackRows(int64_t row, int64_t n_rows, const float* rows) {
  assert(row >= 0 && n_rows >= 0 && n_rows <= n_ - row);
  while (n_rows > 0) {
    const int64_t column = row % kBlockColumns;
    const int64_t count = std::min(n_rows, kBlockColumns - column);
    CodecOf(type_).pack(rows, column, count, k_,
                        data_.get() + row / kBlockColumns * PackedBlockBytes(type_, k_));
    row += count;
    n_rows -= count;
    rows += count * k_;
  }
}

void PackedMatrix::PackQuants(int64_t row, int64_t n_rows, const Quants* blocks) {
  assert(type_ == WeightType::kInt8 || type_ == WeightType::kInt4);
  assert(row >= 0 && n_rows >= 0 && n_rows <= n_ - row && k_ % kQuantBlock == 0);
  const int64_t n_blocks = k_ / kQuantBlock;
  const auto put = type_ == WeightType::kInt8 ? PutQuants<8> : PutQuants<4>;
  for (int64_t r = row; r < row + n_rows; ++r) {
    std::byte* block = data_.get() + r / kBlockColumns * PackedBlockBytes(type_, k_);
    for (int64_t i = 0; i < n_blocks; ++i, block += PackedBlockBytes(type_, kQuantBlock)) {
      put(*blocks++, r % kBlockColumns, block);
    }
  }
}

void PackedMatrix::CopyRow(int64_t row, float* out) const {
  assert(row >= 0 && row < n_);
  CodecOf(type_).unpack(data_.get() + row / kBlockColumns * PackedBlockBytes(type_, k_),
                        row % kBlockColumns, k_, out);
}

}  // namespace ng
