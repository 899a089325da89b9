// Checked arithmetic on sizes that come from files: the only way they are added or multiplied.
//
// A result that does not fit is nullopt, or saturates: never a wrapped value. Sizes are not
// negative.
#ifndef NG_CORE_BASE_CHECKED_H_
#define NG_CORE_BASE_CHECKED_H_

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

namespace ng {

template <std::integral T>
constexpr std::optional<T> CheckedAdd(T a, std::type_identity_t<T> b) {
  T sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

template <std::integral T>
constexpr std::optional<T> CheckedMul(T a, std::type_identity_t<T> b) {
  T product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// Sums and products that saturate: a size that does not fit an int64 is more than any machine has.
constexpr int64_t SaturatingAdd(int64_t a, int64_t b) {
  return CheckedAdd(a, b).value_or(std::numeric_limits<int64_t>::max());
}
constexpr int64_t SaturatingMul(int64_t a, int64_t b) {
  return CheckedMul(a, b).value_or(std::numeric_limits<int64_t>::max());
}

}  // namespace ng

#endif  // NG_CORE_BASE_CHECKED_H_
