// What blocks with a state compute for one token, over a 16-lane vector type V (ng/vec16.h).
// Included by kernels-inl.h alone, inside each level's target. No include guard: each translation
// unit includes it once.

#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

namespace ng {

template <class V>
NG_INLINE V Silu(V z);  // kernels-inl.h

template <class V>
void SiluGate(const float* gate, int64_t n, float* x) {
  const int tail = static_cast<int>(n % 16);
  const int64_t whole = n - tail;
  for (int64_t i = 0; i < whole; i += 16) {
    V::Mul(V::Load(x + i), Silu(V::Load(gate + i))).Store(x + i);
  }
  V::Mul(V::LoadFirst(x + whole, tail), Silu(V::LoadFirst(gate + whole, tail)))
      .StoreFirst(x + whole, tail);
}

template <class V>
void Convolve(const ConvolveArgs& a) {
  const auto at = [&](int64_t i, auto load) {
    V sum = a.bias == nullptr ? V::Set(0.0F) : load(a.bias + i);
    for (int tap = 0; tap < a.taps; ++tap) {
      sum = V::MulAdd(load(a.weights + tap * a.weight_stride + i), load(a.rows[tap] + i), sum);
    }
    return a.silu ? Silu(sum) : sum;
  };
  const int tail = static_cast<int>(a.n % 16);
  const int64_t whole = a.n - tail;
  for (int64_t i = 0; i < whole; i += 16) {
    at(i, [](const float* p) { return V::Load(p); }).Store(a.out + i);
  }
  if (tail == 0) return;
  at(whole, [&](const float* p) { return V::LoadFirst(p, tail); }).StoreFirst(a.out + whole, tail);
}

// kVectors vectors of columns from `column` on; with one of them, the first n_lanes lanes.
template <class V, int kVectors>
NG_INLINE void RecurColumns(const RecurArgs& a, int64_t column, int n_lanes) {
  const auto load = [&](const float* p, int i) {
    return kVectors == 1 ? V::LoadFirst(p, n_lanes) : V::Load(p + 16 * i);
  };
  const auto store = [&](V v, float* p, int i) {
    if (kVectors == 1) {
      v.StoreFirst(p, n_lanes);
    } else {
      v.Store(p + 16 * i);
    }
  };
  const V decay = V::Set(a.decay);
  V written[kVectors];
  for (int i = 0; i < kVectors; ++i) written[i] = load(a.value + column, i);
  if (a.delta) {
    V held[kVectors];
    for (int i = 0; i < kVectors; ++i) held[i] = V::Set(0.0F);
    for (int64_t row = 0; row < a.key_dim; ++row) {
      const V key = V::Set(a.key[row]);
      const float* const from = a.before + row * a.value_dim + column;
      for (int i = 0; i < kVectors; ++i) held[i] = V::MulAdd(key, load(from, i), held[i]);
    }
    for (int i = 0; i < kVectors; ++i) written[i] = V::Sub(written[i], V::Mul(decay, held[i]));
  }
  V out[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    written[i] = V::Mul(written[i], V::Set(a.write));
    out[i] = V::Set(0.0F);
  }
  for (int64_t row = 0; row < a.key_dim; ++row) {
    const V key = V::Set(a.key[row]);
    const V query = V::Set(a.query[row]);
    const int64_t at = row * a.value_dim + column;
    for (int i = 0; i < kVectors; ++i) {
      const V state = V::MulAdd(key, written[i], V::Mul(decay, load(a.before + at, i)));
      store(state, a.after + at, i);
      out[i] = V::MulAdd(query, state, out[i]);
    }
  }
  for (int i = 0; i < kVectors; ++i) store(out[i], a.out + column, i);
}

template <class V>
void Recur(const RecurArgs& a) {
  int64_t column = 0;
  for (; column + 64 <= a.value_dim; column += 64) RecurColumns<V, 4>(a, column, 16);
  for (; column < a.value_dim; column += 16) {
    const auto n_lanes = static_cast<int>(a.value_dim - column < 16 ? a.value_dim - column : 16);
    RecurColumns<V, 1>(a, column, n_lanes);
  }
}

}  // namespace ng
