// Ctrl-C while an engine computes.
#ifndef NG_APPS_PYTHON_INTERRUPT_H_
#define NG_APPS_PYTHON_INTERRUPT_H_

#include <atomic>
#include <csignal>

namespace ng::python {

// As long as it lives, SIGINT also sets the stop flags, which it clears first. Python's own handler
// runs beside it, so that KeyboardInterrupt is raised as soon as Python code runs again. Nothing
// happens on another thread than the main one, and where SIGINT is ignored or ends the process:
// there Python has no say either. They may nest; the innermost one counts.
//
// Thread: made and destroyed on one thread. Signals may come on any.
class StopOnSigint {
 public:
  // `second` may be null. Both must outlive it.
  explicit StopOnSigint(std::atomic<bool>* first, std::atomic<bool>* second = nullptr);
  ~StopOnSigint();
  StopOnSigint(const StopOnSigint&) = delete;
  StopOnSigint& operator=(const StopOnSigint&) = delete;

 private:
  bool listens_ = false;    // the flags are those that a signal sets
  bool installed_ = false;  // and the handler is this one's
  std::atomic<bool>* before_[2] = {};
};

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_INTERRUPT_H_
