// Whether this build is watched by AddressSanitizer: everything takes ten times longer there.
#ifndef NG_TESTS_SUPPORT_SANITIZED_H_
#define NG_TESTS_SUPPORT_SANITIZED_H_

namespace ng {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace ng

#endif  // NG_TESTS_SUPPORT_SANITIZED_H_
