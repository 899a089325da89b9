// Checked arithmetic on sizes that come from files: the only way they are added or multiplied.
//
// A result that does not fit is nullopt, never a wrapped value.
#ifndef NG_CORE_FORMATS_CHECKED_H_
#define NG_CORE_FORMATS_CHECKED_H_

#include <concepts>
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

}  // namespace ng

#endif  // NG_CORE_FORMATS_CHECKED_H_
