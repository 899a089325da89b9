// The kernels, written once over a 16-lane vector type V (ng/vec16.h). Each level's translation
// unit includes this file between its target macros, after the headers it needs. Everything here is
// a template over V, so that no two levels share a symbol. No include guard: each translation unit
// includes it once.

#include "core/kernels/kernel_table.h"
#include "core/kernels/matmul-inl.h"
#include "core/kernels/matmul_weights-inl.h"
#include "ng/vec16.h"
#include "ng/vec_math-inl.h"

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
NG_INLINE V Silu(V z) {
  const V e = Exp(V::Sub(V::Set(0.0F), z));
  return V::Div(z, V::Add(V::Set(1.0F), e));
}

template <class V>
void SiluMul(const float* gate, const float* up, int64_t n, float* out) {
  const int tail = static_cast<int>(n % 16);
  const int64_t whole = n - tail;
  for (int64_t i = 0; i < whole; i += 16) {
    V::Mul(Silu(V::Load(gate + i)), V::Load(up + i)).Store(out + i);
  }
  V::Mul(Silu(V::LoadFirst(gate + whole, tail)), V::LoadFirst(up + whole, tail))
      .StoreFirst(out + whole, tail);
}

template <class V>
void AddTo(const float* y, int64_t n, float* x) {
  const int tail = static_cast<int>(n % 16);
  const int64_t whole = n - tail;
  for (int64_t i = 0; i < whole; i += 16) V::Add(V::Load(x + i), V::Load(y + i)).Store(x + i);
  V::Add(V::LoadFirst(x + whole, tail), V::LoadFirst(y + whole, tail)).StoreFirst(x + whole, tail);
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
  if constexpr (W::kInput == InputType::kInt8) {
    Matmul<W, Level::kByteRows, Level::kByteBlocks, 2>(args);
  } else {
    Matmul<W, Level::kRows, Level::kBlocks, Level::kSingleBlocks>(args);
  }
}

// A level: its lanes V, its byte dot products Dot, how it multiplies bf16 weights, and the shapes
// of its tiles (matmul-inl.h), those over bytes apart.
template <class Level>
constexpr KernelTable MakeKernelTable(IsaLevel isa) {
  using V = typename Level::V;
  constexpr auto kTable = []<class... W>(IsaLevel level, W... /*by type*/) {
    return KernelTable{.isa = level,
                       .matmul = {MatmulOf<Level, W>...},
                       .input = {W::kInput...},
                       .prepare = {W::kPrepare...},
                       .rms_norm = RmsNorm<V>,
                       .silu_mul = SiluMul<V>,
                       .add = AddTo<V>,
                       .max_and_sum_exp = MaxAndSumExp<V>};
  };
  return kTable(isa, F32Weights<V>(), typename Level::Bf16(), F16Weights<V>(),
                ByteWeights<typename Level::Dot, 8>(), ByteWeights<typename Level::Dot, 4>());
}

}  // namespace ng
