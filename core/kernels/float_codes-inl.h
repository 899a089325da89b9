// Weights whose codes stand for floats (weight_type.h, from kE4m3 on). Included once per
// level.
//
// The products of 32 or 64 inputs (QuantGrid::summed) are summed in f32 over rising k, from 0, and
// the sum times the span's factor is added to the output. Few rows read the codes as they lie and
// widen them in registers. For more rows a run of some column blocks is widened once, to what the
// kernels of plain floats read: the same values in the same order, so the same bits.
//
// A class Codes says what a line of 64 bytes is (codes16.h):
// - its weights once widened (Unpacked), whose kInput and kPrepare are those of the codes too;
// - how many lines 16 inputs are (kLines), and how many bytes of an input row (kInputBytes);
// - what a weight of 1 is of the grid's (kUnit);
// - Add: adds the products of 16 inputs to a sum; Unpack: writes their weights.
// Where there are scales, they are those of these 16 inputs.

#include "core/kernels/codes16.h"
#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"
// These use what is above.
#include "core/kernels/grid_weights-inl.h"
#include "core/kernels/matmul-inl.h"
#include "core/kernels/matmul_weights-inl.h"

namespace ng {

// 16 inputs of a column block.
struct CodesOf16 {
  const std::byte* lines;
  const std::byte* scales;  // [16], or nothing
  const float* table;       // [16], of 4 bits
};

// Some rows at 16 inputs.
struct RowsOfInputs {
  const std::byte* x;
  int64_t stride;  // bytes
};

template <class V, int kRows>
NG_INLINE void AddInput(const RowsOfInputs& x, int input, V weights, V (&sums)[kRows]) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const auto* row = reinterpret_cast<const float*>(x.x + r * x.stride);
    sums[r] = V::MulAdd(V::Set(row[input]), weights, sums[r]);
  }
}

// E4M3.
template <class C>
struct ByteCodes {
  using V = typename C::V;
  using Unpacked = F32Weights<V>;
  static constexpr int kLines = 4;
  static constexpr int64_t kInputBytes = 16 * sizeof(float);
  static constexpr float kUnit = 1.0F;

  template <int kRows>
  static NG_INLINE void Add(const CodesOf16& codes, const RowsOfInputs& x, V (&sums)[kRows]) {
#pragma GCC unroll 4
    for (int i = 0; i < kLines; ++i) {
      const typename C::Bytes line{codes.lines + i * 64};
      AddInput(x, 4 * i, line.template Input<0>(), sums);
      AddInput(x, 4 * i + 1, line.template Input<1>(), sums);
      AddInput(x, 4 * i + 2, line.template Input<2>(), sums);
      AddInput(x, 4 * i + 3, line.template Input<3>(), sums);
    }
  }
  static NG_INLINE void Unpack(const CodesOf16& codes, std::byte* out) {
    auto* weights = reinterpret_cast<float*>(out);
    for (int i = 0; i < kLines; ++i, weights += 64) {
      const typename C::Bytes line{codes.lines + i * 64};
      line.template Input<0>().Store(weights);
      line.template Input<1>().Store(weights + 16);
      line.template Input<2>().Store(weights + 32);
      line.template Input<3>().Store(weights + 48);
    }
  }
};

// Codes of 4 bits. A class Nibbles says what is loaded once for 16 inputs (Start), what the weights
// of the next inputs are (Step, of kSteps), and how those are added and stored.
template <class Nibbles>
struct NibbleCodes {
  using V = typename Nibbles::V;
  using Unpacked = typename Nibbles::Unpacked;
  static constexpr int kLines = 2;
  static constexpr int64_t kInputBytes = 16 / Unpacked::kStep * Unpacked::kInputBytes;
  static constexpr float kUnit = Nibbles::kUnit;

  template <int kStep, class Start, int kRows>
  static NG_INLINE void AddFrom(const CodesOf16& codes, Start start, const RowsOfInputs& x,
                                V (&sums)[kRows]) {
    if constexpr (kStep < Nibbles::kSteps) {
      Nibbles::Add(x, kStep, Nibbles::template Step<kStep>(codes, start), sums);
      AddFrom<kStep + 1>(codes, start, x, sums);
    }
  }
  template <int kStep, class Start>
  static NG_INLINE void UnpackFrom(const CodesOf16& codes, Start start, std::byte* out) {
    if constexpr (kStep < Nibbles::kSteps) {
      Nibbles::Store(Nibbles::template Step<kStep>(codes, start), out + kStep * 64);
      UnpackFrom<kStep + 1>(codes, start, out);
    }
  }
  template <int kRows>
  static NG_INLINE void Add(const CodesOf16& codes, const RowsOfInputs& x, V (&sums)[kRows]) {
    AddFrom<0>(codes, Nibbles::Start(codes), x, sums);
  }
  static NG_INLINE void Unpack(const CodesOf16& codes, std::byte* out) {
    UnpackFrom<0>(codes, Nibbles::Start(codes), out);
  }
};

// Input by input in f32.
template <class C, bool kScaled>
struct F32Nibbles {
  using V = typename C::V;
  using Unpacked = F32Weights<V>;
  static constexpr int kSteps = 16;
  static constexpr float kUnit = 1.0F;

  static NG_INLINE V Start(const CodesOf16& codes) {
    if constexpr (kScaled) return C::Scales(codes.scales);
    return V::Set(1.0F);
  }
  template <int kInput>
  static NG_INLINE V Step(const CodesOf16& codes, V scale) {
    const V value = C::template Nibble<kInput % 8>(codes.table, codes.lines + kInput / 8 * 64);
    return kScaled ? V::Mul(scale, value) : value;
  }
  template <int kRows>
  static NG_INLINE void Add(const RowsOfInputs& x, int input, V weights, V (&sums)[kRows]) {
    AddInput(x, input, weights, sums);
  }
  static NG_INLINE void Store(V weights, std::byte* out) {
    weights.Store(reinterpret_cast<float*>(out));
  }
};

// Where the parts of a type's spans are.
template <class Codes, WeightType kType>
struct CodeSpans {
  using V = typename Codes::V;
  using Unpacked = typename Codes::Unpacked;
  static constexpr QuantGrid kGrid = GridOf(kType);
  static constexpr int64_t kChunks = kGrid.span / 16;
  static constexpr int kSummedChunks = static_cast<int>(kGrid.summed() / 16);
  static constexpr int64_t kInputBytes = kChunks * Codes::kInputBytes;

  static NG_INLINE CodesOf16 At(const std::byte* span, int64_t chunk) {
    return {span + chunk * Codes::kLines * 64, span + kGrid.PlaneBytes() + chunk * 16,
            kGrid.floats.data()};
  }
  static NG_INLINE V Factor(const std::byte* span) {
    const auto* d = reinterpret_cast<const float*>(span + kGrid.PlaneBytes() + kGrid.ScaleBytes());
    return V::Mul(V::Load(d), V::Set(kGrid.unit * Codes::kUnit));
  }
};

// Adds a span to the sums of some rows. Its own sums do not wait for each other. Memory is read
// fastest in its own order, so that is the order in which it is fetched.
template <class Spans, class Codes, int kRows>
NG_INLINE void AddSpan(const RowsOfInputs& x, const std::byte* span,
                       typename Codes::V (&acc)[kRows]) {
  using V = typename Codes::V;
  constexpr int64_t kAhead = 8192;
  constexpr int kSums = static_cast<int>(Spans::kChunks) / Spans::kSummedChunks;
  V sums[kSums][kRows];
#pragma GCC unroll 2
  for (int s = 0; s < kSums; ++s) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sums[s][r] = V::Set(0.0F);
  }
  const std::byte* ahead = span + kAhead;
  for (int i = 0; i < Spans::kSummedChunks; ++i) {
#pragma GCC unroll 2
    for (int s = 0; s < kSums; ++s) {
#pragma GCC unroll 4
      for (int line = 0; line < Codes::kLines; ++line, ahead += 64) __builtin_prefetch(ahead);
      const int64_t chunk = s * Spans::kSummedChunks + i;
      const RowsOfInputs inputs = {x.x + chunk * Codes::kInputBytes, x.stride};
      Codes::Add(Spans::At(span, chunk), inputs, sums[s]);
    }
  }
  const V factor = Spans::Factor(span);
#pragma GCC unroll 2
  for (int s = 0; s < kSums; ++s) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) acc[r] = V::MulAdd(factor, sums[s][r], acc[r]);
  }
}

// Some rows of a column block.
template <class Spans, class Codes, int kRows>
void CodeRows(const MatmulArgs& a, int64_t row, int64_t block) {
  using V = typename Codes::V;
  constexpr int64_t kBytes = Spans::kGrid.SpanBytes();
  const int64_t n_spans = a.k / Spans::kGrid.span;
  const std::byte* span = a.weights + block * n_spans * kBytes;
  RowsOfInputs x = {a.x + row * a.x_stride, a.x_stride};
  V acc[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) acc[r] = V::Set(0.0F);
  for (int64_t i = 0; i < n_spans; ++i, x.x += Spans::kInputBytes, span += kBytes) {
    AddSpan<Spans, Codes>(x, span, acc);
  }
  const int64_t column = block * kBlockColumns;
  const int n = static_cast<int>(std::min(kBlockColumns, a.n_columns - column));
  float* out = a.out + row * a.out_stride + (block - a.block_begin) * kBlockColumns;
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    if (a.bias != nullptr) acc[r] = V::Add(acc[r], V::LoadFirst(a.bias + column, n));
    acc[r].StoreFirst(out + r * a.out_stride, n);
  }
}

template <class Spans, class Codes, int kMaxRows>
void FewCodeRows(const MatmulArgs& a, int64_t row, int64_t block) {
  if constexpr (kMaxRows > 1) {
    if (a.n_rows - row < kMaxRows) return FewCodeRows<Spans, Codes, kMaxRows - 1>(a, row, block);
  }
  CodeRows<Spans, Codes, kMaxRows>(a, row, block);
}

// Some column blocks of a run of inputs, widened. It fits the first-level cache.
template <class Spans, class Codes>
struct WidenedRun {
  using W = typename Codes::Unpacked;
  static constexpr int64_t kInputs = 128;
  static constexpr int64_t kBlocks = 4;
  static constexpr int64_t kSummed = Spans::kGrid.summed();
  static constexpr int64_t kFactors = kInputs / kSummed * 16;  // of a block
  static constexpr int64_t kBlockBytes = kInputs / W::kStep * W::kWeightBytes;

  alignas(64) std::byte weights[kBlocks * kBlockBytes];
  alignas(64) float factors[kBlocks * kFactors];  // [kBlocks, kInputs / kSummed, 16]

  // Widens `n_inputs` of a block, the place-th here, from their first span on.
  void Widen(int64_t place, const std::byte* span, int64_t n_inputs) {
    constexpr int64_t kBytes = Spans::kGrid.SpanBytes();
    constexpr int64_t kRunBytes = kInputs / Spans::kGrid.span * kBytes;
    constexpr int64_t kChunkBytes = 16 / W::kStep * W::kWeightBytes;
    std::byte* out = weights + place * kBlockBytes;
    float* factor = factors + place * kFactors;
    for (int64_t k = 0; k < n_inputs; k += Spans::kGrid.span, span += kBytes) {
      for (int64_t at = 0; at < kBytes; at += 64) __builtin_prefetch(span + kRunBytes + at);
      for (int64_t chunk = 0; chunk < Spans::kChunks; ++chunk, out += kChunkBytes) {
        Codes::Unpack(Spans::At(span, chunk), out);
      }
      for (int64_t i = 0; i < Spans::kGrid.span; i += kSummed, factor += 16) {
        Spans::Factor(span).Store(factor);
      }
    }
  }
};

// A tile of widened weights. Sums of a few products, times factors, are added to `out`.
// factors: [kBlocks], kFactors apart
template <class Widened, int kRows, int kBlocks>
void WidenedTile(const TileArgs& t, const float* factors) {
  using W = typename Widened::W;
  using V = typename W::Lanes;
  V acc[kRows][kBlocks];
  LoadSums(t, acc);
  const std::byte* x = t.x;
  const std::byte* w = t.weights;
  for (int64_t k = 0; k < t.k_count; k += Widened::kSummed, factors += 16) {
    V sums[kRows][kBlocks];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < kBlocks; ++c) sums[r][c] = V::Set(0.0F);
    }
    for (int64_t i = 0; i < Widened::kSummed; i += W::kStep) {
      W::Step(0, x, t.x_stride, w, t.block_stride, sums);
      x += W::kInputBytes;
      w += W::kWeightBytes;
    }
#pragma GCC unroll 16
    for (int c = 0; c < kBlocks; ++c) {
      const V factor = V::Load(factors + c * Widened::kFactors);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) acc[r][c] = V::MulAdd(factor, sums[r][c], acc[r][c]);
    }
  }
  StoreSums(t, acc);
}

// The tile of `rows` rows, 1 <= rows <= kMaxRows.
template <class Widened, int kMaxRows, int kBlocks>
void WidenedRows(int64_t rows, const TileArgs& t, const float* factors) {
  if constexpr (kMaxRows > 1) {
    if (rows < kMaxRows) return WidenedRows<Widened, kMaxRows - 1, kBlocks>(rows, t, factors);
  }
  WidenedTile<Widened, kMaxRows, kBlocks>(t, factors);
}

// All rows of kBlocks column blocks of a run.
template <class Widened, int kRows>
struct WidenedPanels {
  const Widened& run;
  int64_t k;  // the run's first input
  int64_t k_count;

  template <int kBlocks>
  void Run(const MatmulArgs& a, int64_t block) const {
    using W = typename Widened::W;
    const int64_t column = block * kBlockColumns;
    const int64_t place = block - a.block_begin;
    const float* const factors = run.factors + place * Widened::kFactors;
    TileArgs t;
    t.x_stride = a.x_stride;
    t.weights = run.weights + place * Widened::kBlockBytes;
    t.block_stride = Widened::kBlockBytes;
    t.k_count = k_count;
    t.out_stride = a.out_stride;
    t.n_columns = static_cast<int>(std::min(kBlocks * kBlockColumns, a.n_columns - column));
    t.first = k == 0;
    t.bias = a.bias != nullptr && k + k_count == a.k ? a.bias + column : nullptr;
    for (int64_t row = 0; row < a.n_rows; row += kRows) {
      t.x = a.x + row * a.x_stride + k / W::kStep * W::kInputBytes;
      t.out = a.out + row * a.out_stride + place * kBlockColumns;
      WidenedRows<Widened, kRows, kBlocks>(std::min(int64_t{kRows}, a.n_rows - row), t, factors);
    }
  }
};

// Many rows of as many blocks as are widened together. A group of rows stays in the second-level
// cache while all panels pass by.
template <class Level, class Spans, class Codes>
void WidenedStrip(const MatmulArgs& strip) {
  using Widened = WidenedRun<Spans, Codes>;
  constexpr int64_t kGroup = 8 * Level::kRows;
  constexpr int64_t kBytes = Spans::kGrid.SpanBytes();
  Widened run;
  const int64_t block_bytes = strip.k / Spans::kGrid.span * kBytes;
  for (int64_t k = 0; k < strip.k; k += Widened::kInputs) {
    const int64_t k_count = std::min(Widened::kInputs, strip.k - k);
    for (int64_t block = strip.block_begin; block < strip.block_end; ++block) {
      const std::byte* span = strip.weights + block * block_bytes + k / Spans::kGrid.span * kBytes;
      run.Widen(block - strip.block_begin, span, k_count);
    }
    const WidenedPanels<Widened, Level::kRows> panels{run, k, k_count};
    for (int64_t row = 0; row < strip.n_rows; row += kGroup) {
      MatmulArgs group = strip;
      group.x += row * strip.x_stride;
      group.out += row * strip.out_stride;
      group.n_rows = std::min(kGroup, strip.n_rows - row);
      MatmulPanels<Level::kBlocks>(panels, group, group.block_begin);
    }
  }
}

template <class Level, class Codes, WeightType kType>
void CodeMatmul(const MatmulArgs& a) {
  using Spans = CodeSpans<Codes, kType>;
  constexpr int kAtOnce = Level::kFewRows;
  if (a.n_rows <= 2 * kAtOnce) {
    for (int64_t block = a.block_begin; block < a.block_end; ++block) {
      for (int64_t row = 0; row < a.n_rows; row += kAtOnce) {
        FewCodeRows<Spans, Codes, kAtOnce>(a, row, block);
      }
    }
    return;
  }
  constexpr int64_t kStrip = WidenedRun<Spans, Codes>::kBlocks;
  for (int64_t block = a.block_begin; block < a.block_end; block += kStrip) {
    MatmulArgs strip = a;
    strip.block_begin = block;
    strip.block_end = std::min(block + kStrip, a.block_end);
    strip.out += (block - a.block_begin) * kBlockColumns;
    WidenedStrip<Level, Spans, Codes>(strip);
  }
}

// Makes types the codes that a level multiplies by Codes.
template <class Level, class Codes, WeightType... kTypes>
constexpr void SetCodeMatmuls(KernelTable& table) {
  ((table.matmul[static_cast<int>(kTypes)] = CodeMatmul<Level, Codes, kTypes>,
    table.input[static_cast<int>(kTypes)] = Codes::Unpacked::kInput,
    table.prepare[static_cast<int>(kTypes)] = Codes::Unpacked::kPrepare),
   ...);
}

// The same for all types, in f32.
template <class Level>
constexpr void SetCodeMatmuls(KernelTable& table) {
  using C = typename Level::Codes;
  SetCodeMatmuls<Level, ByteCodes<C>, WeightType::kE4m3, WeightType::kE4m3Span128>(table);
  SetCodeMatmuls<Level, NibbleCodes<F32Nibbles<C, false>>, WeightType::kNf4, WeightType::kFp4>(
      table);
  SetCodeMatmuls<Level, NibbleCodes<F32Nibbles<C, true>>, WeightType::kNvfp4>(table);
}

}  // namespace ng
