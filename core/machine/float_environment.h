// The floating point environment that every result is computed under.
#ifndef NG_CORE_MACHINE_FLOAT_ENVIRONMENT_H_
#define NG_CORE_MACHINE_FLOAT_ENVIRONMENT_H_

#include <xmmintrin.h>

namespace ng {

// Round to nearest, subnormals kept, no traps, for as long as the object lives; then the thread
// gets its own environment back. A library loaded or a caller may have set something else on its
// thread, and worker threads inherit from whoever started them.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(0x1F80); }
  ~DefaultFloatEnvironment() { _mm_setcsr(saved_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  unsigned saved_;
};

}  // namespace ng

#endif  // NG_CORE_MACHINE_FLOAT_ENVIRONMENT_H_
