// Functions over the 16-lane vectors of ng/vec16.h. Included between a level's target macros.
// No include guard: each level's translation unit includes it once.

namespace ng {

// Vectors that go through a function together, operation by operation. The operations on one wait
// for each other; between two of them the CPU has the others' to do.
template <class V, int kCount>
struct Several {
  V v[kCount];

  static NG_INLINE Several Set(float x) {
    return Each([&](int) __attribute__((always_inline)) { return V::Set(x); });
  }
  static NG_INLINE Several Add(const Several& x, const Several& y) {
    return Each([&](int i) __attribute__((always_inline)) { return V::Add(x.v[i], y.v[i]); });
  }
  static NG_INLINE Several Sub(const Several& x, const Several& y) {
    return Each([&](int i) __attribute__((always_inline)) { return V::Sub(x.v[i], y.v[i]); });
  }
  static NG_INLINE Several Mul(const Several& x, const Several& y) {
    return Each([&](int i) __attribute__((always_inline)) { return V::Mul(x.v[i], y.v[i]); });
  }
  static NG_INLINE Several Max(const Several& x, const Several& y) {
    return Each([&](int i) __attribute__((always_inline)) { return V::Max(x.v[i], y.v[i]); });
  }
  static NG_INLINE Several MulAdd(const Several& x, const Several& y, const Several& z) {
    return Each([&](int i)
                    __attribute__((always_inline)) { return V::MulAdd(x.v[i], y.v[i], z.v[i]); });
  }
  static NG_INLINE Several Round(const Several& x) {
    return Each([&](int i) __attribute__((always_inline)) { return V::Round(x.v[i]); });
  }
  static NG_INLINE Several Scale2(const Several& x, const Several& n) {
    return Each([&](int i) __attribute__((always_inline)) { return V::Scale2(x.v[i], n.v[i]); });
  }
  static NG_INLINE Several SelectLess(const Several& x, const Several& y, const Several& yes,
                                      const Several& no) {
    return Each([&](int i) __attribute__((always_inline)) {
      return V::SelectLess(x.v[i], y.v[i], yes.v[i], no.v[i]);
    });
  }
  // make(i) for each i.
  template <class Make>
  static NG_INLINE Several Each(const Make& make) {
    Several r;
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) r.v[i] = make(i);
    return r;
  }
};

// e^(x - n ln 2) for n = Round(x / ln 2), by Cody-Waite reduction with ln 2 in two parts, then a
// degree-6 polynomial on [-ln2/2, ln2/2] (Cephes expf, S. Moshier).
template <class V>
NG_INLINE V ExpMantissa(V x, V n) {
  V r = V::MulAdd(n, V::Set(-0.693359375F), x);
  r = V::MulAdd(n, V::Set(2.12194440e-4F), r);
  V p = V::Set(1.9875691500e-4F);
  p = V::MulAdd(p, r, V::Set(1.3981999507e-3F));
  p = V::MulAdd(p, r, V::Set(8.3334519073e-3F));
  p = V::MulAdd(p, r, V::Set(4.1665795894e-2F));
  p = V::MulAdd(p, r, V::Set(1.6666665459e-1F));
  p = V::MulAdd(p, r, V::Set(5.0000001201e-1F));
  return V::MulAdd(V::Mul(r, r), p, V::Add(r, V::Set(1.0F)));
}

// e^x to within 2 ulp for x in [-86.98, 88.72]; 0 below, +infinity above, NaN for NaN. The scale
// 2^n, n in [-125, 128], goes on as 2 * 2^(n - 1), which a float holds over the whole range.
template <class V>
NG_INLINE V Exp(V x) {
  const V clamped = V::Min(V::Set(88.72283F), V::Max(V::Set(-86.98F), x));  // keeps NaN
  const V n = V::Round(V::Mul(clamped, V::Set(1.44269504F)));
  const V half = V::Scale2(ExpMantissa(clamped, n), V::Sub(n, V::Set(1.0F)));
  const V low = V::SelectLess(x, V::Set(-86.98F), V::Set(0.0F), V::Add(half, half));
  return V::SelectLess(V::Set(88.72283F), x, V::Set(__builtin_huge_valf()), low);
}

// Exp(x) for x <= 0 and NaN, at two thirds of the cost; the same bits from -86 up and below -86.98.
template <class V>
NG_INLINE V ExpOfNonPositive(V x) {
  const V clamped = V::Max(V::Set(-86.98F), x);  // keeps NaN
  const V n = V::Round(V::Mul(clamped, V::Set(1.44269504F)));
  const V exp = V::Scale2(ExpMantissa(clamped, n), n);
  return V::SelectLess(x, V::Set(-86.98F), V::Set(0.0F), exp);
}

// tanh x to within 2 ulp; NaN for NaN. An odd polynomial near 0 (Cephes tanhf, S. Moshier), else by
// e^(-2 |x|).
template <class V>
NG_INLINE V Tanh(V x) {
  const V square = V::Mul(x, x);
  V p = V::Set(-5.70498872745e-3F);
  p = V::MulAdd(p, square, V::Set(2.06390887954e-2F));
  p = V::MulAdd(p, square, V::Set(-5.37397155531e-2F));
  p = V::MulAdd(p, square, V::Set(1.33314422036e-1F));
  p = V::MulAdd(p, square, V::Set(-3.33332819422e-1F));
  const V near = V::MulAdd(V::Mul(p, square), x, x);
  const V zero = V::Set(0.0F);
  const V one = V::Set(1.0F);
  const V size = V::Max(x, V::Sub(zero, x));
  const V e = ExpOfNonPositive(V::Mul(size, V::Set(-2.0F)));
  const V far = V::Div(V::Sub(one, e), V::Add(one, e));
  const V signed_far = V::SelectLess(x, zero, V::Sub(zero, far), far);
  return V::SelectLess(size, V::Set(0.625F), near, signed_far);
}

}  // namespace ng
