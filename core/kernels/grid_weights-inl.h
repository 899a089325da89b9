// Weights on a value grid (weight_type.h) times bytes. The integer dot product of a group of inputs
// is exact; then it is scaled and added in f32. Included by kernels-inl.h, once per level.
//
// With one row the steps read the packed form directly. When several rows share the weights, these
// are first unpacked to bytes with f32 scales: the same numbers in the same order, so the same
// bits.

#include "core/kernels/dot16.h"
#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

namespace ng {

// Rounds a row to blocks of the level's Input.
template <class D>
void QuantizeRow(const float* x, int64_t k, std::byte* row) {
  using V = typename D::V;
  auto* block = reinterpret_cast<typename D::Input*>(row);
  for (int64_t i = 0; i < k; i += kQuantBlock, ++block) {
    const auto n = static_cast<int>(k - i < kQuantBlock ? k - i : kQuantBlock);
    const V a = n < 16 ? V::LoadFirst(x + i, n) : V::Load(x + i);
    const V b = n < 32 ? V::LoadFirst(x + i + 16, n < 16 ? 0 : n - 16) : V::Load(x + i + 16);
    const V zero = V::Set(0.0F);
    const float max = V::MaxMagnitude(a, V::MaxMagnitude(b, zero)).MaxMagnitudeLane();
    const bool usable = max < __builtin_huge_valf();  // no value is NaN or infinite
    block->scale = usable ? max / 127.0F : __builtin_nanf("");
    const V inverse = V::Set(usable && max > 0.0F ? 127.0F / max : 0.0F);
    const V limit = V::Set(127.0F);  // 127 / max may round up, or overflow for the smallest max
    const V qa =
        usable ? V::Max(V::Min(V::Round(V::Mul(a, inverse)), limit), V::Sub(zero, limit)) : zero;
    const V qb =
        usable ? V::Max(V::Min(V::Round(V::Mul(b, inverse)), limit), V::Sub(zero, limit)) : zero;
    D::StoreInputs(qa, 0, block);
    D::StoreInputs(qb, 16, block);
    block->sums[0] = SumOf16(block->q);
    block->sums[1] = SumOf16(block->q + 16);
  }
}

// Which Sum of the level takes weights of a type: the products of some need half of the work.
template <class D, WeightType kType>
constexpr int SumBits() {
  constexpr QuantGrid kGrid = GridOf(kType);
  return D::kInput == InputType::kInt8 || kGrid.bits() > 4 || !kGrid.values.empty() ? 8 : 4;
}

// 32 inputs of 16 columns, as a chunk of packed spans. A word is 4 inputs of each column.
template <class D, WeightType kType>
struct PackedChunk {
  using V = typename D::V;
  static constexpr QuantGrid kGrid = GridOf(kType);
  static constexpr int kZero = kGrid.zero;
  static constexpr int kGroups = static_cast<int>(kQuantBlock / kGrid.group);
  // Of what is multiplied, where it makes a difference.
  static constexpr int kBits = SumBits<D, kType>();
  static constexpr bool kHasMinimum = kGrid.has_minimum;

  const std::byte* span;
  int64_t chunk;  // its number in the span

  template <int kWord>
  NG_INLINE typename D::Bytes Word() const {
    if constexpr (kGrid.values.empty()) return Integers<kWord>();
    return D::LookUp(kGrid.values.data(), Integers<kWord>());
  }
  template <int kWord>
  NG_INLINE typename D::Bytes Integers() const {
    constexpr int kLow = kWord * kGrid.low_bits;
    const std::byte* plane = span + chunk * kGrid.bits() * 64;
    const auto low = D::template Field<kLow % 8, 0, kGrid.low_bits>(D::Load(plane + kLow / 8 * 64));
    if constexpr (kGrid.high_bits == 0) {
      return low;
    } else {
      constexpr int kHigh = kWord * kGrid.high_bits;
      plane += kGrid.low_bits * 64;
      return D::Or(low, D::template Field<kHigh % 8, kGrid.low_bits, kGrid.high_bits>(
                            D::Load(plane + kHigh / 8 * 64)));
    }
  }
  // unit * d * scale and dmin * minimum of a group.
  NG_INLINE V Scale(int group) const { return Product<0>(group); }
  NG_INLINE V Minimum(int group) const { return Product<1>(group); }

  template <int kPart>
  NG_INLINE V Product(int group) const {
    const std::byte* small = span + kGrid.PlaneBytes();
    const std::byte* factors = small + (kHasMinimum ? 2 : 1) * kGrid.ScaleBytes();
    const V factor = Factor<kPart>(factors + kPart * kGrid.FactorBytes());
    if constexpr (!kGrid.grouped()) return factor;
    small += kPart * kGrid.ScaleBytes() + (chunk * kGroups + group) * 16;
    return V::Mul(factor, V::LoadI8(reinterpret_cast<const int8_t*>(small)));
  }
  template <int kPart>
  static NG_INLINE V Factor(const std::byte* stored) {
    if constexpr (kGrid.power_of_two) {
      return V::Mul(D::PowersOfTwo(stored), V::Set(kGrid.unit));
    } else if constexpr (kGrid.f32_factors) {
      return V::Load(reinterpret_cast<const float*>(stored));  // their unit is 1
    } else {
      const V factor = V::LoadF16(reinterpret_cast<const uint16_t*>(stored));
      if constexpr (kPart == 1 || kGrid.unit == 1.0F) return factor;
      return V::Mul(factor, V::Set(kGrid.unit));
    }
  }
};

// The same unpacked: [8][16][4] bytes q, then [16] scales of each group, then [16] minima of each.
template <class D, int kGroupsIn, bool kWithMinimum, int kBitsIn>
struct UnpackedChunk {
  using V = typename D::V;
  static constexpr int kZero = kWithMinimum ? 0 : 1 << (kBitsIn - 1);  // the same for all grids
  static constexpr int kGroups = kGroupsIn;
  static constexpr int kBits = kBitsIn;
  static constexpr bool kHasMinimum = kWithMinimum;
  static constexpr int64_t kScales = 16 * kQuantBlock;
  static constexpr int64_t kMinima = kScales + kGroups * 64;
  static constexpr int64_t kBytes = kMinima + (kHasMinimum ? kGroups * 64 : 0);

  const std::byte* data;

  template <int kWord>
  NG_INLINE typename D::Bytes Word() const {
    return D::Load(data + kWord * 64);
  }
  NG_INLINE V Scale(int group) const { return Floats(kScales, group); }
  NG_INLINE V Minimum(int group) const { return Floats(kMinima, group); }
  NG_INLINE V Floats(int64_t at, int group) const {
    return V::Load(reinterpret_cast<const float*>(data + at) + group * 16);
  }
};

// Adds words [kWord, kEnd) of some rows and column blocks to integer sums.
template <class D, int kWord, int kEnd, class Chunk, class Sum, int kRows, int kBlocks>
NG_INLINE void AddWords(const std::byte* x, int64_t x_stride, const Chunk (&chunks)[kBlocks],
                        Sum (&sums)[kRows][kBlocks]) {
  if constexpr (kWord < kEnd) {
    typename D::Bytes words[kBlocks];
#pragma GCC unroll 16
    for (int c = 0; c < kBlocks; ++c) words[c] = chunks[c].template Word<kWord>();
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto* input = reinterpret_cast<const typename D::Input*>(x + r * x_stride);
#pragma GCC unroll 16
      for (int c = 0; c < kBlocks; ++c) sums[r][c].Add(words[c], *input, 4 * kWord);
    }
    AddWords<D, kWord + 1, kEnd>(x, x_stride, chunks, sums);
  }
}

// The sum of a group of a row's inputs.
template <class D, class Chunk>
NG_INLINE int32_t InputSum(const std::byte* x, int group) {
  const auto* input = reinterpret_cast<const typename D::Input*>(x);
  return Chunk::kGroups == 1 ? input->sums[0] + input->sums[1] : input->sums[group];
}

// Adds group kGroup of a chunk to the tile's sums.
template <class D, int kGroup, class Chunk, int kRows, int kBlocks>
NG_INLINE void AddGroup(const std::byte* x, int64_t x_stride, const Chunk (&chunks)[kBlocks],
                        typename D::V (&acc)[kRows][kBlocks]) {
  using V = typename D::V;
  constexpr int kWords = 8 / Chunk::kGroups;
  typename D::template Sum<Chunk::kBits> sums[kRows][kBlocks];
  int32_t corrections[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    corrections[r] = -Chunk::kZero * InputSum<D, Chunk>(x + r * x_stride, kGroup);
#pragma GCC unroll 16
    for (int c = 0; c < kBlocks; ++c) sums[r][c].Start(corrections[r]);
  }
  AddWords<D, kGroup * kWords, (kGroup + 1) * kWords>(x, x_stride, chunks, sums);
  V scales[kBlocks];
#pragma GCC unroll 16
  for (int c = 0; c < kBlocks; ++c) scales[c] = chunks[c].Scale(kGroup);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const auto* input = reinterpret_cast<const typename D::Input*>(x + r * x_stride);
    const V scale = V::Set(input->scale);
#pragma GCC unroll 16
    for (int c = 0; c < kBlocks; ++c) {
      acc[r][c] = V::MulAdd(V::Mul(scales[c], scale), sums[r][c].Finish(corrections[r]), acc[r][c]);
    }
    if constexpr (Chunk::kHasMinimum) {
      const int32_t sum = InputSum<D, Chunk>(x + r * x_stride, kGroup);
      const V less = V::Set(-(input->scale * static_cast<float>(sum)));
#pragma GCC unroll 16
      for (int c = 0; c < kBlocks; ++c) {
        acc[r][c] = V::MulAdd(chunks[c].Minimum(kGroup), less, acc[r][c]);
      }
    }
  }
}

template <class D, class Chunk, int kRows, int kBlocks>
NG_INLINE void AddChunk(const std::byte* x, int64_t x_stride, const Chunk (&chunks)[kBlocks],
                        typename D::V (&acc)[kRows][kBlocks]) {
  AddGroup<D, 0>(x, x_stride, chunks, acc);
  if constexpr (Chunk::kGroups == 2) AddGroup<D, 1>(x, x_stride, chunks, acc);
}

// One step is a span; one part of the step is a chunk.
template <class D, WeightType kHeldAs>
struct GridWeights {
  using Lanes = typename D::V;
  static constexpr WeightType kType = kHeldAs;
  static constexpr QuantGrid kGrid = GridOf(kType);
  static constexpr InputType kInput = D::kInput;
  static constexpr int64_t kStep = kGrid.span;
  static constexpr int kParts = static_cast<int>(kStep / kQuantBlock);
  static constexpr int64_t kInputBytes = kParts * int64_t{sizeof(typename D::Input)};
  static constexpr int64_t kWeightBytes = kGrid.SpanBytes();
  static constexpr bool kPaddedInput = true;
  static constexpr auto kPrepare = QuantizeRow<D>;

  template <int kRows, int kBlocks>
  static NG_INLINE void Step(int part, const std::byte* x, int64_t x_stride, const std::byte* w,
                             int64_t block_stride, Lanes (&acc)[kRows][kBlocks]) {
    PackedChunk<D, kType> chunks[kBlocks];
#pragma GCC unroll 16
    for (int c = 0; c < kBlocks; ++c) {
      chunks[c].span = w + c * block_stride;
      chunks[c].chunk = part;
    }
    AddChunk<D>(x + part * int64_t{sizeof(typename D::Input)}, x_stride, chunks, acc);
  }
};

// One step is a chunk.
template <class D, class Chunk>
struct UnpackedWeights {
  using Lanes = typename D::V;
  static constexpr int64_t kStep = kQuantBlock;
  static constexpr int kParts = 1;
  static constexpr int64_t kInputBytes = sizeof(typename D::Input);
  static constexpr int64_t kWeightBytes = Chunk::kBytes;
  static constexpr bool kPaddedInput = true;

  template <int kRows, int kBlocks>
  static NG_INLINE void Step(int /*part*/, const std::byte* x, int64_t x_stride, const std::byte* w,
                             int64_t block_stride, Lanes (&acc)[kRows][kBlocks]) {
    Chunk chunks[kBlocks];
#pragma GCC unroll 16
    for (int c = 0; c < kBlocks; ++c) chunks[c].data = w + c * block_stride;
    AddChunk<D>(x, x_stride, chunks, acc);
  }
};

template <class D, int kWord, int kOffset, class Packed>
NG_INLINE void UnpackWords(const Packed& packed, std::byte* out) {
  if constexpr (kWord < 8) {
    D::Store(D::template Plus<kOffset>(packed.template Word<kWord>()), out + kWord * 64);
    UnpackWords<D, kWord + 1, kOffset>(packed, out);
  }
}

// Unpacks the first n chunks of one column block.
template <class D, WeightType kType>
struct Unpacker {
  using Packed = PackedChunk<D, kType>;
  using Chunk = UnpackedChunk<D, Packed::kGroups, Packed::kHasMinimum, Packed::kBits>;

  static NG_INLINE void Run(const std::byte* spans, int64_t n, std::byte* out) {
    constexpr QuantGrid kGrid = GridOf(kType);
    constexpr int64_t kChunks = kGrid.span / kQuantBlock;  // chunks in a span
    for (int64_t i = 0; i < n; ++i, out += Chunk::kBytes) {
      Packed packed;
      packed.span = spans + i / kChunks * kGrid.SpanBytes();
      packed.chunk = i % kChunks;
      UnpackWords<D, 0, Chunk::kZero - Packed::kZero>(packed, out);
#pragma GCC unroll 2
      for (int group = 0; group < Packed::kGroups; ++group) {
        auto* scales = reinterpret_cast<float*>(out + Chunk::kScales);
        packed.Scale(group).Store(scales + group * 16);
        if constexpr (Chunk::kHasMinimum) {
          auto* minima = reinterpret_cast<float*>(out + Chunk::kMinima);
          packed.Minimum(group).Store(minima + group * 16);
        }
      }
    }
  }
};

}  // namespace ng
