#include "apps/python/turns.h"

#include <pthread.h>
#include <pythread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "apps/python/errors.h"

namespace ng::python {
namespace {

std::atomic<bool> g_python_ends = false;
std::atomic<int> g_without_gil = 0;

// The turns that this thread works within, the outermost first, and how many of them are those of
// calls that have called it.
thread_local std::vector<Turns*> t_within;
thread_local int t_called = 0;
thread_local int t_without_gil = 0;

bool IsMainThread() { return gettid() == getpid(); }

void CountWithoutGil(int more) {
  // A forked process has the thread alone that forked.
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { g_without_gil = t_without_gil; });
  (void)registered;
  g_without_gil += more;
  t_without_gil += more;
}

}  // namespace

WithoutGil::WithoutGil() : state_((CountWithoutGil(1), PyEval_SaveThread())) {}

WithoutGil::~WithoutGil() {
  PyEval_RestoreThread(state_);
  CountWithoutGil(-1);
}

void EndPython() { g_python_ends = true; }
int ThreadsWithoutGil() { return g_without_gil; }

void StayIfPythonEnds() {
  if (!g_python_ends || IsMainThread()) return;
  if (t_called > 0) {
    Raise(
        UsageErrorAs("CallLaterError", "Python ends, and what an engine calls must not call one"));
  }
  for (Turns* const turns : t_within) turns->holder_ = 0;
  (void)PyEval_SaveThread();
  while (true) pause();
}

// One that waits. Who gives it the turn releases the lock, which was taken before.
struct Turns::Waiter {
  Waiter() { PyThread_acquire_lock(lock, NOWAIT_LOCK); }
  ~Waiter() { PyThread_free_lock(lock); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  const PyThread_type_lock lock = PyThread_allocate_lock();
  const pid_t process = getpid();
  bool has_turn = false;
};

Turns::Turn::Turn(Turns& turns) : turns_(turns) {
  turns.Take();
  t_within.push_back(&turns);
}

Turns::Turn::~Turn() {
  t_within.pop_back();
  turns_.Give();
}

Turns::Within::Within(Turns& turns) {
  t_within.push_back(&turns);
  ++t_called;
}
Turns::Within::~Within() {
  --t_called;
  t_within.pop_back();
}

bool Turns::is_within() const { return std::ranges::count(t_within, this) > 0; }
bool Turns::taken_here() const { return holder_ == getpid(); }

// Whether a call within this turn waits for that one, be it by way of others.
bool Turns::Leads(const Turns& to) const {
  return this == &to ||
         std::ranges::any_of(awaited_, [&](const Turns* next) { return next->Leads(to); });
}

void Turns::Take() {
  if (is_within()) {
    Raise(UsageErrorAs("CallLaterError",
                       "the engine is at work, and what it calls must not call it"));
  }
  if (holder_ != 0 && holder_ != getpid()) {
    Raise(UsageError(
        "the engine was at work when this process was forked; make another one in this process"));
  }
  if (std::ranges::any_of(t_within, [&](const Turns* outer) { return Leads(*outer); })) {
    Raise(UsageErrorAs("CallLaterError",
                       "the engine is at work, and what it calls waits for the engine that calls "
                       "this; one of them must not"));
  }
  if (holder_ == 0) {
    holder_ = getpid();
    return;
  }
  Waiter waiter;
  waiting_.push_back(&waiter);
  for (Turns* outer : t_within) outer->awaited_.insert(this);
  try {
    WaitFor(waiter);
  } catch (py::error_already_set&) {
    for (Turns* outer : t_within) outer->awaited_.erase(outer->awaited_.find(this));
    std::erase(waiting_, &waiter);
    if (waiter.has_turn) Give();
    throw;
  }
  for (Turns* outer : t_within) outer->awaited_.erase(outer->awaited_.find(this));
}

void Turns::WaitFor(Waiter& waiter) {
  constexpr PY_TIMEOUT_T kMicroseconds = 100'000;  // then Python may have ended, or a signal come
  while (!waiter.has_turn) {
    {
      const WithoutGil free;
      PyThread_acquire_lock_timed(waiter.lock, kMicroseconds, 1);
    }
    // Who has got the turn goes on, and gives it up where its call ends.
    if (!waiter.has_turn) StayIfPythonEnds();
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

void Turns::Give() {
  holder_ = 0;
  while (!waiting_.empty() && holder_ == 0) {
    Waiter* const next = waiting_.front();
    waiting_.pop_front();
    if (next->process != getpid() || g_python_ends) continue;  // nobody is there any more
    holder_ = getpid();
    next->has_turn = true;
    PyThread_release_lock(next->lock);
  }
}

}  // namespace ng::python
