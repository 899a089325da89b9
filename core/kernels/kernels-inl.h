// The kernels, written once over a 16-lane vector type V (ng/vec16.h). Each level's translation
// unit includes this file between its target macros, after the headers it needs. Everything here is
// a template over V, so that no two levels share a symbol. No include guard: each translation unit
// includes it once.

#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"
#include "ng/vec_math-inl.h"
// These use what is above.
#include "core/kernels/grid_weights-inl.h"
#include "core/kernels/logits-inl.h"
#include "core/kernels/matmul-inl.h"
#include "core/kernels/matmul_weights-inl.h"
#include "core/kernels/state-inl.h"

namespace ng {

template <class V>
void RmsNorm(const float* x, const float* weight, float eps, int64_t n, float* out) {
  const int tail = static_cast<int>(n % 16);
  const int64_t whole = n - tail;
  V squares = V::Set(0.0F);
  for (int64_t i = 0; i < whole; i += 16) {
    const V v = V::Load(x + i);
    squares = V::MulAdd(v, v, squares);
  }
  const V last = V::LoadFirst(x + whole, tail);
  squares = V::MulAdd(last, last, squares);
  const float mean = squares.Sum() / static_cast<float>(n);
  const V scale = V::Set(1.0F / std::sqrt(mean + eps));
  for (int64_t i = 0; i < whole; i += 16) {
    V::Mul(V::Mul(V::Load(x + i), scale), V::Load(weight + i)).Store(out + i);
  }
  const V w = V::LoadFirst(weight + whole, tail);
  V::Mul(V::Mul(last, scale), w).StoreFirst(out + whole, tail);
}

template <class V>
void LayerNorm(const float* x, const float* weight, float eps, int64_t n, float* out) {
  const int tail = static_cast<int>(n % 16);
  const int64_t whole = n - tail;
  V sum = V::LoadFirst(x + whole, tail);
  for (int64_t i = 0; i < whole; i += 16) sum = V::Add(sum, V::Load(x + i));
  const V mean = V::Set(sum.Sum() / static_cast<float>(n));

  const V last = V::Sub(V::LoadFirst(x + whole, tail), mean).KeepFirst(tail, 0.0F);
  V squares = V::Mul(last, last);
  for (int64_t i = 0; i < whole; i += 16) {
    const V v = V::Sub(V::Load(x + i), mean);
    squares = V::MulAdd(v, v, squares);
  }
  const float variance = squares.Sum() / static_cast<float>(n);
  const V scale = V::Set(1.0F / std::sqrt(variance + eps));
  for (int64_t i = 0; i < whole; i += 16) {
    const V v = V::Sub(V::Load(x + i), mean);
    V::Mul(V::Mul(v, scale), V::Load(weight + i)).Store(out + i);
  }
  const V w = V::LoadFirst(weight + whole, tail);
  V::Mul(V::Mul(last, scale), w).StoreFirst(out + whole, tail);
}

template <class V>
NG_INLINE V Silu(V z) {
  const V e = Exp(V::Sub(V::Set(0.0F), z));
  return V::Div(z, V::Add(V::Set(1.0F), e));
}

template <class V>
void SiluMul(const float* gate_up, int64_t n, float* out) {
  const int tail = static_cast<int>(n % 16);
  const int64_t whole = n - tail;
  for (int64_t i = 0; i < whole; i += 16, gate_up += 32) {
    V::Mul(Silu(V::Load(gate_up)), V::Load(gate_up + 16)).Store(out + i);
  }
  if (tail == 0) return;
  V::Mul(Silu(V::Load(gate_up)), V::Load(gate_up + 16)).StoreFirst(out + whole, tail);
}

template <class V>
NG_INLINE V GeluErf(V x) {
  const V a = V::Max(x, V::Sub(V::Set(0.0F), x));
  const V t = V::Div(V::Set(1.0F), V::MulAdd(a, V::Set(0.25F), V::Set(1.0F)));
  V p = V::Set(0.0165796652F);
  p = V::MulAdd(p, t, V::Set(-0.0627922267F));
  p = V::MulAdd(p, t, V::Set(0.0516524464F));
  p = V::MulAdd(p, t, V::Set(0.0284358282F));
  p = V::MulAdd(p, t, V::Set(0.012711715F));
  p = V::MulAdd(p, t, V::Set(0.0866570398F));
  p = V::MulAdd(p, t, V::Set(0.0719993338F));
  p = V::MulAdd(p, t, V::Set(0.0955157429F));
  p = V::MulAdd(p, t, V::Set(0.0994925499F));
  p = V::MulAdd(p, t, V::Set(0.0997479036F));
  const V tail = V::Mul(Exp(V::Mul(V::Mul(a, a), V::Set(-0.5F))), V::Mul(p, t));
  const V phi = V::SelectLess(x, V::Set(0.0F), tail, V::Sub(V::Set(1.0F), tail));
  return V::Mul(x, phi);
}

// x * (1 + tanh(u)) / 2 = x / (1 + e^(-2u)), u = sqrt(2 / pi) * (x + 0.044715 * x^3).
template <class V>
NG_INLINE V GeluTanh(V x) {
  const V cubic = V::MulAdd(V::Mul(x, x), V::Set(0.044715F), V::Set(1.0F));
  const V e = Exp(V::Mul(V::Mul(x, cubic), V::Set(-1.5957691216F)));
  return V::Div(x, V::Add(V::Set(1.0F), e));
}

template <class V, V (*kActivation)(V)>
void ForEachElement(const float* x, int64_t n, float* out) {
  const int tail = static_cast<int>(n % 16);
  const int64_t whole = n - tail;
  for (int64_t i = 0; i < whole; i += 16) kActivation(V::Load(x + i)).Store(out + i);
  kActivation(V::LoadFirst(x + whole, tail)).StoreFirst(out + whole, tail);
}

template <class V>
void AddTo(const float* y, int64_t n, float* x) {
  const int tail = static_cast<int>(n % 16);
  const int64_t whole = n - tail;
  for (int64_t i = 0; i < whole; i += 16) V::Add(V::Load(x + i), V::Load(y + i)).Store(x + i);
  V::Add(V::LoadFirst(x + whole, tail), V::LoadFirst(y + whole, tail)).StoreFirst(x + whole, tail);
}

// Not written over V, which has no shuffles. The compiler vectorises this loop by itself.
template <class V>
void RotateInterleaved(const float* cos_sin, int64_t half, int64_t n_heads, float* heads) {
  for (int64_t h = 0; h < n_heads; ++h, heads += 2 * half) {
    for (int64_t i = 0; i < half; ++i) {
      const float x = heads[2 * i];
      const float y = heads[2 * i + 1];
      heads[2 * i] = x * cos_sin[i] - y * cos_sin[half + i];
      heads[2 * i + 1] = y * cos_sin[i] + x * cos_sin[half + i];
    }
  }
}

template <class V>
NG_INLINE void RotatePairs(V cos, V sin, V* x, V* y) {
  const V rotated = V::Sub(V::Mul(*x, cos), V::Mul(*y, sin));
  *y = V::Add(V::Mul(*y, cos), V::Mul(*x, sin));
  *x = rotated;
}

template <class V>
void RotateHalfSplit(const float* cos_sin, int64_t half, int64_t n_heads, float* heads) {
  const int tail = static_cast<int>(half % 16);
  const int64_t whole = half - tail;
  for (int64_t i = 0; i < whole; i += 16) {
    const V cos = V::Load(cos_sin + i);
    const V sin = V::Load(cos_sin + half + i);
    for (int64_t h = 0; h < n_heads; ++h) {
      float* head = heads + h * 2 * half + i;
      V x = V::Load(head);
      V y = V::Load(head + half);
      RotatePairs(cos, sin, &x, &y);
      x.Store(head);
      y.Store(head + half);
    }
  }
  if (tail == 0) return;
  const V cos = V::LoadFirst(cos_sin + whole, tail);
  const V sin = V::LoadFirst(cos_sin + half + whole, tail);
  for (int64_t h = 0; h < n_heads; ++h) {
    float* head = heads + h * 2 * half + whole;
    V x = V::LoadFirst(head, tail);
    V y = V::LoadFirst(head + half, tail);
    RotatePairs(cos, sin, &x, &y);
    x.StoreFirst(head, tail);
    y.StoreFirst(head + half, tail);
  }
}

// kRows rows at a time, so that their sums do not wait for each other.
template <class V, int kRows>
NG_INLINE void AddLowRankRows(const AddLowRankArgs& a, int64_t row) {
  V sums[kRows];
  for (int i = 0; i < kRows; ++i) sums[i] = V::Set(0.0F);
  const float* const inner = a.inner + row * a.inner_stride;
  for (int64_t rank = 0; rank < a.n_ranks; ++rank) {
    const V b = V::Load(a.b + rank * 16);
    for (int i = 0; i < kRows; ++i) {
      sums[i] = V::MulAdd(V::Set(inner[i * a.inner_stride + rank]), b, sums[i]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    float* const out = a.out + (row + i) * a.out_stride;
    V x = V::LoadFirst(out, a.n_columns);
    if (a.factors != nullptr) x = V::MulAdd(V::Load(a.factors), x, V::Load(a.offsets));
    V::Add(x, sums[i]).StoreFirst(out, a.n_columns);
  }
}

template <class V>
void AddLowRank(const AddLowRankArgs& a) {
  constexpr int kRows = 4;
  int64_t row = 0;
  for (; row + kRows <= a.n_rows; row += kRows) AddLowRankRows<V, kRows>(a, row);
  for (; row < a.n_rows; ++row) AddLowRankRows<V, 1>(a, row);
}

template <class V>
void MaxAndSumExp(const float* x, int64_t n, float* max, float* sum) {
  const int tail = static_cast<int>(n % 16);
  const int64_t whole = n - tail;
  const V last = V::LoadFirst(x + whole, tail);
  V largest = last.KeepFirst(tail, -__builtin_huge_valf());
  for (int64_t i = 0; i < whole; i += 16) largest = V::Max(largest, V::Load(x + i));
  *max = largest.MaxLane();

  const V m = V::Set(*max);
  V total = V::Set(0.0F);
  for (int64_t i = 0; i < whole; i += 16) total = V::Add(total, Exp(V::Sub(V::Load(x + i), m)));
  total = V::Add(total, Exp(V::Sub(last, m)).KeepFirst(tail, 0.0F));
  *sum = total.Sum();
}

template <class Level, class W>
void MatmulOf(const MatmulArgs& args) {
  if constexpr (IsBytes(W::kInput)) {
    using D = typename Level::Dot;
    constexpr int kRows = SumBits<D, W::kType>() == 4 ? Level::kNibbleRows : Level::kByteRows;
    // Bytes need no unpacking, and the zero of unpacked ones is not theirs.
    constexpr bool kAsItLies = W::kType == WeightType::kInt4 || W::kType == WeightType::kInt8;
    if constexpr (kAsItLies) {
      Matmul<W, kRows, Level::kByteBlocks>(args);
    } else {
      GridMatmul<Level, W::kType, kRows>(args);
    }
  } else {
    Matmul<W, Level::kRows, Level::kBlocks>(args);
  }
}

// Makes types W the weights that a level multiplies.
template <class Level, class... W>
constexpr void SetMatmuls(KernelTable& table) {
  ((table.matmul[static_cast<int>(W::kType)] = MatmulOf<Level, W>,
    table.input[static_cast<int>(W::kType)] = W::kInput,
    table.prepare[static_cast<int>(W::kType)] = W::kPrepare),
   ...);
}

// The same for all grids, by the level's byte dot products Dot. Tiles over bytes have shapes of
// their own.
template <class Level>
constexpr void SetGridMatmuls(KernelTable& table) {
  using D = typename Level::Dot;
  SetMatmuls<Level, GridWeights<D, WeightType::kInt8>, GridWeights<D, WeightType::kInt4>,
             GridWeights<D, WeightType::kQ41>, GridWeights<D, WeightType::kQ50>,
             GridWeights<D, WeightType::kQ51>, GridWeights<D, WeightType::kQ2K>,
             GridWeights<D, WeightType::kQ3K>, GridWeights<D, WeightType::kQ4K>,
             GridWeights<D, WeightType::kQ5K>, GridWeights<D, WeightType::kQ6K>,
             GridWeights<D, WeightType::kIq4Nl>, GridWeights<D, WeightType::kIq4Xs>,
             GridWeights<D, WeightType::kIq3Xxs>, GridWeights<D, WeightType::kIq3S>,
             GridWeights<D, WeightType::kIq2>, GridWeights<D, WeightType::kIq1>,
             GridWeights<D, WeightType::kTernary>, GridWeights<D, WeightType::kMxfp4>,
             GridWeights<D, WeightType::kW4>, GridWeights<D, WeightType::kW4Minima>,
             GridWeights<D, WeightType::kW8>, GridWeights<D, WeightType::kW8Minima>,
             GridWeights<D, WeightType::kW4Span64>, GridWeights<D, WeightType::kW4Minima64>,
             GridWeights<D, WeightType::kW8Span64>, GridWeights<D, WeightType::kW8Minima64>>(table);
}

// The table of a level that adds byte dot products to the level of `table`.
template <class Level>
KernelTable WithGridMatmuls(IsaLevel isa, KernelTable table) {
  table.isa = isa;
  SetGridMatmuls<Level>(table);
  return table;
}

// The kernels of a level that has lanes V of its own: the shapes of its tiles (matmul-inl.h), and
// for how many bars it has registers (logits-inl.h). A level that adds an instruction begins with
// the table of the level below it, and sets what is computed by that instruction.
template <class Level>
constexpr KernelTable MakeKernelTable(IsaLevel isa) {
  using V = typename Level::V;
  KernelTable table = {.isa = isa,
                       .matmul = {},
                       .input = {},
                       .prepare = {},
                       .add_low_rank = AddLowRank<V>,
                       .rms_norm = RmsNorm<V>,
                       .layer_norm = LayerNorm<V>,
                       .silu_mul = SiluMul<V>,
                       .gelu_erf = ForEachElement<V, GeluErf<V>>,
                       .gelu_tanh = ForEachElement<V, GeluTanh<V>>,
                       .silu_gate = SiluGate<V>,
                       .convolve = Convolve<V>,
                       .recur = Recur<V>,
                       .add = AddTo<V>,
                       .rotate = {RotateInterleaved<V>, RotateHalfSplit<V>},
                       .max_and_sum_exp = MaxAndSumExp<V>,
                       .block_max = FindBlockMax<V>,
                       .divide_logits = DivideLogits<V>,
                       .weigh_logits = WeighLogits<V>,
                       .weigh_and_sum = WeighAndSum<V>,
                       .mass_at_least = MassAtLeast<V, Level::kBarsAtATime>,
                       .list_within = ListWithin<V>,
                       .drop_below = DropBelow<V>,
                       .keep_marked = KeepMarked<V>,
                       .mark_near = MarkNear<V>,
                       .moments = Moments<V>,
                       .weighted_sum = WeightedSum<V>};
  SetMatmuls<Level, F32Weights<V>, Bf16Weights<V>, F16Weights<V>>(table);
  SetGridMatmuls<Level>(table);
  return table;
}

}  // namespace ng
