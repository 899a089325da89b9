// EvaluateVec16 over a vector type; included once per level between its target macros.

#include "ng/vec16.h"
#include "ng/vec_math-inl.h"
#include "tests/core/kernels/vec16_ops.h"

namespace ng {

inline constexpr float kOutside = 77.0F;  // what StoreFirst must leave alone

template <class V>
void Evaluate(const Vec16Inputs& in, Vec16Results* out) {
  const V a = V::Load(in.a);
  const V b = V::Load(in.b);
  const V c = V::Load(in.c);
  const V whole = V::Load(in.whole);
  V::Set(in.a[0]).Store(out->set);
  a.Store(out->load);
  V::LoadFirst(in.partial, in.n).Store(out->load_first);
  V::Set(kOutside).Store(out->store_first);
  a.StoreFirst(out->store_first, in.n);
  a.KeepFirst(in.n, in.b[0]).Store(out->keep_first);

  V even, odd;
  V::LoadBf16(in.halves).Store(out->bf16);
  V::LoadF16(in.halves).Store(out->f16);
  V::LoadI8(reinterpret_cast<const int8_t*>(in.bytes)).Store(out->i8);
  V::LoadU8(in.bytes).Store(out->u8);
  V::Lookup(in.table, in.bytes).Store(out->lookup);
  V::LoadBf16Pairs(in.halves, &even, &odd);
  even.Store(out->bf16_even);
  odd.Store(out->bf16_odd);
  V::LoadF16Pairs(in.halves, &even, &odd);
  even.Store(out->f16_even);
  odd.Store(out->f16_odd);

  V::Add(a, b).Store(out->add);
  V::Sub(a, b).Store(out->sub);
  V::Mul(a, b).Store(out->mul);
  V::Div(a, b).Store(out->div);
  V::Max(a, b).Store(out->max);
  V::Min(a, b).Store(out->min);
  V::MulAdd(a, b, c).Store(out->mul_add);
  V::Round(a).Store(out->round);
  V::Scale2(b, whole).Store(out->scale2);
  V::SelectLess(a, b, c, V::Set(in.c[0])).Store(out->select_less);
  out->less_bits = V::LessBits(a, b);
  V::SelectBits(in.halves[0] | 0x50000U, a, b).Store(out->select_bits);
  V::SetPair(in.a).Store(out->set_pair);
  V::KeepEven(a).Store(out->keep_even);
  V::KeepOdd(a).Store(out->keep_odd);
  Tanh(a).Store(out->tanh);
  V::AddPairs(a, b).Store(out->add_pairs);
  Exp(a).Store(out->exp);
  ExpOfNonPositive(a).Store(out->exp_of_non_positive);
  out->sum = a.Sum();
  out->max_lane = a.MaxLane();
  const V magnitudes = V::MaxMagnitude(a, V::MaxMagnitude(b, V::Set(0.0F)));
  magnitudes.Store(out->max_magnitude);
  out->max_magnitude_lane = magnitudes.MaxMagnitudeLane();
  const Several<V, 3> together = ExpOfNonPositive(Several<V, 3>{{b, a, c}});
  together.v[1].Store(out->exp_of_several);
}

}  // namespace ng
