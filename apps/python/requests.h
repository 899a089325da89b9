// Requests: what an engine is asked for while it answers already. They are answered side by side,
// by a session (ng/session.h), and what becomes of them comes as events.
//
// A session has the engine for itself. So it is there as long as it has something to do, and begins
// nothing more where another call waits for its turn.
//
// Thread: every function is called with the GIL held. Drive is called by one thread, the others by
// any. Only Drive waits for the engine.
#ifndef NG_APPS_PYTHON_REQUESTS_H_
#define NG_APPS_PYTHON_REQUESTS_H_

#include <pybind11/pybind11.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "apps/python/generate.h"
#include "apps/python/open_engine.h"
#include "ng/session.h"

namespace ng::python {

class Requests {
 public:
  explicit Requests(std::shared_ptr<OpenEngine> engine) : engine_(std::move(engine)) {}
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  // Accepts all of these, or raises what is wrong with one: dicts as Asked takes them. The first
  // has this number, and each further one the number behind it; no other has one of these.
  void Submit(const py::list& requests, const py::dict& options, int64_t first);
  // Ends a request as interrupted. Returns the completion of one that has not begun, which has no
  // event then; else None. Behind Close it does nothing: all that waits ends by an error there.
  py::object Cancel(int64_t number);
  // Whether some wait for Drive.
  bool waiting() const;
  // Waits for its turn, and answers what was submitted. Returns when nothing is left to do, or
  // another call is to have its turn. Calls on_event(number, step, completion, error), of which one
  // of the last three is not None; the last two end the request. What goes wrong ends requests.
  // False: a run of generate_steps is open; nothing was done.
  bool Drive(const py::function& on_event);

 private:
  struct Job {
    int64_t number = 0;
    GenerateRequest request;
    GenerateOptions options;
    bool keeps_steps = false;
  };
  struct Event {
    Job job;
    std::optional<ChosenToken> step;
    absl::Status error;
    Completion completion;
  };
  using Jobs = std::deque<Job>;
  class LiveSession;

  void MakeRoom(const py::function& on_event);
  RunNeeds NeedsOfWaiting() const;
  bool Fits(const Job& job) const;
  void Serve(Session& session, const py::function& on_event);
  void Begin(Session& session, const Job& job, const py::function& on_event);
  SessionRequest Asking(const Job& job);
  void Tell(Event event);
  void Deliver(const Event& event, const py::function& on_event) const;
  void EndAll(const py::object& error, const py::function& on_event);

  const std::shared_ptr<OpenEngine> engine_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  Jobs waiting_;
  std::deque<Event> events_;
  std::map<int64_t, int64_t> begun_;  // what the session calls each request that has not ended
  Session* session_ = nullptr;
};

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_REQUESTS_H_
