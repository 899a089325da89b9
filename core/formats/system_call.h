// What every caller of the system needs.
#ifndef NG_CORE_FORMATS_SYSTEM_CALL_H_
#define NG_CORE_FORMATS_SYSTEM_CALL_H_

#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>

namespace ng {

// Calls again for as long as a signal interrupts.
template <typename Call>
auto RetryOnInterrupt(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

inline std::string SystemReason(int error) { return std::generic_category().message(error); }

// A wait for somebody else looks this often whether it should end.
inline constexpr int kLookMilliseconds = 50;

inline bool IsSet(const std::atomic<bool>* stop) { return stop != nullptr && *stop; }

}  // namespace ng

#endif  // NG_CORE_FORMATS_SYSTEM_CALL_H_
