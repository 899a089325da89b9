#include "ng/session.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/engine_run.h"
#include "core/runtime/generate_loop.h"

namespace ng {
namespace {

// How often the stop flag of EngineOptions is looked at while nothing is to be done.
constexpr std::chrono::milliseconds kIdle(50);
// What a status says of a session that has no room now.
constexpr const char* kBusy = "ng.session.busy";

// What the loop calls a request: no two that are open at a time have the same.
int IndexOf(int64_t id) { return static_cast<int>(id & std::numeric_limits<int32_t>::max()); }

}  // namespace

bool IsBusy(const absl::Status& status) { return status.GetPayload(kBusy).has_value(); }

struct Session::State {
  // A request from Submit to on_done.
  struct Job {
    int64_t id = 0;
    SessionRequest asked;
    Completion completion;
    absl::Status error;  // its own
  };
  using Jobs = std::vector<std::unique_ptr<Job>>;

  State(Engine::State& engine, const SessionOptions& session_options)
      : engine(engine),
        most_open(engine.max_sequences + session_options.max_waiting),
        options(Callbacks()),
        run(engine, options),
        loop(WithStop(), run.settings, options) {}

  GenerateOptions Callbacks();
  const GenerateParts& WithStop() {
    run.settings.stop = &stop;
    return run.parts;
  }
  // Any thread.
  absl::Status CheckFits(const GenerateRequest& request) const;
  absl::Status CheckRoom(size_t n_requests);  // REQUIRES: `mutex` is held

  // The session's thread.
  void Work();
  // Waits for something to do. Brings what has come in to the loop. False: the session ends.
  bool Take();
  void Add(std::unique_ptr<Job> job);
  Job& Find(int index) { return *jobs.at(index); }
  void TakeTurn();
  void OnDone(int index);
  // Shows the counts.
  void Publish();
  void EndAll();
  bool EngineStopped() const { return engine.options.stop != nullptr && *engine.options.stop; }

  Engine::State& engine;
  const int64_t most_open;
  std::atomic<bool> stop = false;

  // The session's thread's own.
  GenerateOptions options;
  Engine::State::Run run;
  std::map<int, std::unique_ptr<Job>> jobs;  // that the loop has, by index
  GenerateLoop loop;
  SessionCounts counted;
  absl::Status failed;  // what ended the session

  std::mutex mutex;  // of all that follows
  std::condition_variable changed;
  Jobs incoming;
  std::vector<int64_t> cancels;
  SessionCounts shown;
  int64_t next_id = 0;
  int64_t n_open = 0;    // accepted and not ended
  bool closed = false;   // nothing is accepted
  bool over = false;     // the thread has done everything
  absl::Status outcome;  // then
  std::thread thread;
};

GenerateOptions Session::State::Callbacks() {
  GenerateOptions callbacks;
  callbacks.on_prompt = [this](int index, const Completion& completion) {
    counted.prefill_tokens += completion.timings.prefill_tokens;
    counted.shared_tokens += completion.timings.shared_tokens;
    const Job& job = Find(index);
    if (job.asked.on_prompt) job.asked.on_prompt(completion);
  };
  callbacks.on_step = [this](int index, const StepRecord& record) {
    ++counted.decode_tokens;
    const Job& job = Find(index);
    if (job.asked.on_token) job.asked.on_token(record);
    return absl::OkStatus();
  };
  callbacks.on_failed = [this](int index, const absl::Status& error) {
    Find(index).error.Update(error);
  };
  callbacks.on_done = [this](int index, const Completion& /*completion*/) {
    OnDone(index);
    return absl::OkStatus();
  };
  return callbacks;
}

void Session::State::OnDone(int index) {
  const std::unique_ptr<Job> job = std::move(jobs.extract(index).mapped());
  switch (job->completion.stop_reason) {
    case StopReason::kInterrupted:
      ++counted.cancelled;
      break;
    case StopReason::kError:
      ++counted.failed;
      if (job->error.ok()) job->error = failed;
      break;
    default:
      ++counted.completed;
  }
  {
    const std::lock_guard lock(mutex);
    --n_open;
  }
  if (job->asked.on_done) job->asked.on_done(job->error, job->completion);
}

void Session::State::Publish() {
  counted.active = loop.n_active();
  const std::lock_guard lock(mutex);
  counted.accepted = shown.accepted;
  counted.refused = shown.refused;
  shown = counted;
}

void Session::State::Add(std::unique_ptr<Job> job) {
  const int index = IndexOf(job->id);
  Job& added = *jobs.emplace(index, std::move(job)).first->second;
  const GenerateRequest& request = added.asked.request;
  // So that a client need not wait its turn to be told.
  const absl::Status settings =
      GuardedReading([&] { return run.samplers.For(request.settings).status(); });
  if (settings.ok()) return loop.Add({index, &request, &added.completion, added.asked.mark});
  added.error = settings;
  added.completion.ids = request.prompt_ids;
  added.completion.prompt_len = std::ssize(request.prompt_ids);
  added.completion.stop_reason = StopReason::kError;
  OnDone(index);
}

bool Session::State::Take() {
  Jobs taken;
  std::vector<int64_t> cancelled;
  {
    std::unique_lock lock(mutex);
    while (incoming.empty() && cancels.empty() && loop.idle() && !closed && !EngineStopped()) {
      if (engine.options.stop == nullptr) {
        changed.wait(lock);
      } else {
        changed.wait_for(lock, kIdle);
      }
    }
    if (stop || EngineStopped() || (closed && loop.idle() && incoming.empty())) {
      closed = true;
      return false;
    }
    taken.swap(incoming);
    cancelled.swap(cancels);
  }
  for (std::unique_ptr<Job>& job : taken) Add(std::move(job));
  for (const int64_t id : cancelled) {
    const auto job = jobs.find(IndexOf(id));
    if (job != jobs.end() && job->second->id == id) failed.Update(loop.Cancel(IndexOf(id)));
  }
  return failed.ok();
}

void Session::State::TakeTurn() {
  const GenerateClock::time_point begin = GenerateClock::now();
  // What parses is the beginning of a request.
  failed = loop.n_waiting() > 0 ? GuardedReading([&] { return loop.Turn(); })
                                : Guarded([&] { return loop.Turn(); });
  if (absl::IsCancelled(failed) && stop) failed = absl::OkStatus();
  ++counted.steps;
  counted.busy_s += SecondsBetween(begin, GenerateClock::now());
}

void Session::State::EndAll() {
  Jobs rest;
  {
    const std::lock_guard lock(mutex);
    closed = true;
    rest.swap(incoming);
  }
  for (std::unique_ptr<Job>& job : rest) {
    const int index = IndexOf(job->id);
    Job& added = *jobs.emplace(index, std::move(job)).first->second;
    loop.Add({index, &added.asked.request, &added.completion, added.asked.mark});
  }
  failed.Update(loop.End(failed.ok() ? StopReason::kInterrupted : StopReason::kError));
  // What an exception has kept from the loop.
  while (!jobs.empty()) {
    jobs.begin()->second->completion.stop_reason = StopReason::kError;
    OnDone(jobs.begin()->first);
  }
  failed = run.End(failed);
}

void Session::State::Work() {
  const absl::Status caught = Guarded([&]() -> absl::Status {
    while (failed.ok() && Take()) {
      if (!loop.idle()) TakeTurn();
      Publish();
    }
    return absl::OkStatus();
  });
  failed.Update(caught);
  failed.Update(GuardedReading([&]() -> absl::Status {
    EndAll();
    return absl::OkStatus();
  }));
  Publish();
  const std::lock_guard lock(mutex);
  outcome = failed;
  over = true;
  changed.notify_all();
}

absl::Status Session::State::CheckFits(const GenerateRequest& request) const {
  if (request.sequence.has_value() || !request.load_cache.empty() || !request.save_cache.empty()) {
    return UsageError("a request of a session has no sequence and no snapshot");
  }
  NG_RETURN_IF_ERROR(ng::CheckRequest(*engine.assembly, request));
  NG_RETURN_IF_ERROR(CheckKept(*engine.assembly, request, options));
  const auto prompt_len = static_cast<int64_t>(request.prompt_ids.size());
  if (engine.assembly->Recomputes()) return absl::OkStatus();
  return CheckCap(prompt_len, request.max_new_tokens, engine.max_tokens, "session tokens");
}

absl::Status Session::State::CheckRoom(size_t n_requests) {
  if (over && !outcome.ok()) return outcome;
  if (closed) return RuntimeError("the session is closed; it takes no more requests");
  if (static_cast<int64_t>(n_requests) > most_open) {
    return LimitError(absl::StrCat(n_requests, " requests at once, ", most_open,
                                   " are the most that a session has open"));
  }
  if (n_open + static_cast<int64_t>(n_requests) <= most_open) return absl::OkStatus();
  shown.refused += static_cast<int64_t>(n_requests);
  absl::Status busy = LimitError(absl::StrCat("the session is busy: ", n_open, " requests of ",
                                              most_open, " are open; try again later"));
  busy.SetPayload(kBusy, absl::Cord());
  return busy;
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<Session>> Session::Start(Engine& engine,
                                                        const SessionOptions& options) {
  return Guarded([&]() -> absl::StatusOr<std::unique_ptr<Session>> {
    NG_RETURN_IF_ERROR(engine.state_->CheckLoaded());
    NG_RETURN_IF_ERROR(engine.state_->CheckFree());
    if (engine.ranks() > 1) {
      return UsageError(absl::StrCat("a session has requests that come when they come, and ",
                                     engine.ranks(),
                                     " ranks must have the same; fabric.name = local serves"));
    }
    if (options.max_waiting < 1) {
      return UsageError(
          absl::StrCat("max_waiting = ", options.max_waiting, ", must be at least 1"));
    }
    auto state = std::make_unique<State>(*engine.state_, options);
    try {
      state->thread = std::thread([&work = *state] { work.Work(); });
    } catch (const std::system_error& error) {
      return RuntimeError(absl::StrCat("the system gives no thread: ", error.what()));
    }
    return std::unique_ptr<Session>(new Session(std::move(state)));
  });
}

Session::~Session() {
  Stop();
  state_->thread.join();
}

absl::StatusOr<int64_t> Session::Submit(std::vector<SessionRequest> requests) {
  return Guarded([&]() -> absl::StatusOr<int64_t> {
    State::Jobs jobs;
    for (SessionRequest& asked : requests) {
      if (asked.request.draw < 0) asked.request.draw = 0;
      NG_RETURN_IF_ERROR(state_->CheckFits(asked.request));
      jobs.push_back(std::make_unique<State::Job>());
      jobs.back()->asked = std::move(asked);
    }
    const std::lock_guard lock(state_->mutex);
    NG_RETURN_IF_ERROR(state_->CheckRoom(jobs.size()));
    state_->incoming.reserve(state_->incoming.size() + jobs.size());  // all or none
    const int64_t first = state_->next_id;
    for (std::unique_ptr<State::Job>& job : jobs) {
      job->id = state_->next_id++;
      state_->incoming.push_back(std::move(job));
    }
    state_->n_open += std::ssize(jobs);
    state_->shown.accepted += std::ssize(jobs);
    state_->changed.notify_all();
    return first;
  });
}

void Session::Cancel(int64_t id) {
  const std::lock_guard lock(state_->mutex);
  if (state_->over) return;
  state_->cancels.push_back(id);
  state_->changed.notify_all();
}

void Session::Drain() {
  const std::lock_guard lock(state_->mutex);
  state_->closed = true;
  state_->changed.notify_all();
}

void Session::Stop() {
  const std::lock_guard lock(state_->mutex);
  state_->stop = true;
  state_->closed = true;
  state_->changed.notify_all();
}

absl::Status Session::Wait() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->over; });
  return state_->outcome;
}

SessionCounts Session::counts() const {
  const std::lock_guard lock(state_->mutex);
  SessionCounts counts = state_->shown;
  counts.waiting = std::max<int64_t>(0, state_->n_open - counts.active);
  return counts;
}

}  // namespace ng
