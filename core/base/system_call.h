// Small helpers for system calls.
#ifndef NG_CORE_BASE_SYSTEM_CALL_H_
#define NG_CORE_BASE_SYSTEM_CALL_H_

#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>

namespace ng {

// Repeats a call that a signal has interrupted.
template <typename Call>
auto RetryOnInterrupt(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

inline std::string SystemReason(int error) { return std::generic_category().message(error); }

// Code that waits for another process checks this often whether it should stop waiting.
inline constexpr int kLookMilliseconds = 50;

inline bool IsSet(const std::atomic<bool>* stop) { return stop != nullptr && *stop; }

}  // namespace ng

#endif  // NG_CORE_BASE_SYSTEM_CALL_H_
