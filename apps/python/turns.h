// Turns: one call at a time uses an engine. The others wait, in the order in which they came.
//
// What would wait for ever is refused: a call that the engine's own call makes, be it by way of
// other engines; and any call in a forked process whose parent was at work with the engine.
//
// Thread: every function is called with the GIL held, which guards everything here. It is free
// while a call waits. Ctrl-C ends the waiting.
#ifndef NG_APPS_PYTHON_TURNS_H_
#define NG_APPS_PYTHON_TURNS_H_

#include <pybind11/pybind11.h>
#include <sys/types.h>

#include <deque>
#include <set>

namespace ng::python {

namespace py = pybind11;

// The GIL is free as long as it lives, and Python does not end meanwhile: OpenEngine::EndAll
// waits. Who is within no turn calls StayIfPythonEnds before and behind it.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_;
};

// Python is about to end. From now on nobody gets a turn.
void EndPython();
// How many threads of this process are within a WithoutGil.
int ThreadsWithoutGil();
// Where Python ends and this is not the main thread: gives up the turns of this thread and waits
// for ever, as Python's own daemon threads do: to go on it would need an interpreter that is gone.
// But what an engine calls gets a UsageError, so that the engine's call comes to its end.
void StayIfPythonEnds();

class Turns {
 public:
  Turns() = default;
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // A turn, from its beginning to its end. Raises UsageError where it could never begin, and what a
  // signal's handler raises.
  class Turn {
   public:
    explicit Turn(Turns& turns);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Turns& turns_;
  };
  // As long as it lives, this thread works for the call whose turn it is: what it calls is within
  // that turn. Turn itself does this on the thread that it is made on.
  class Within {
   public:
    explicit Within(Turns& turns);
    ~Within();
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;
  };

  bool is_within() const;  // this thread is within a turn
  bool taken() const { return holder_ != 0; }
  bool taken_here() const;  // by this process, not by one that has forked it
  bool wanted() const { return !waiting_.empty(); }

 private:
  friend void StayIfPythonEnds();
  struct Waiter;

  void Take();
  void Give();
  void WaitFor(Waiter& waiter);
  bool Leads(const Turns& to) const;

  pid_t holder_ = 0;  // the process whose call has the turn; 0: none
  std::deque<Waiter*> waiting_;
  std::multiset<Turns*> awaited_;  // the turns that calls within this one wait for
};

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_TURNS_H_
