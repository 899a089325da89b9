#include "ng/session.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/engine/engine_run.h"
#include "core/runtime/engine/sampler_maker.h"
#include "core/runtime/loop/generate_loop.h"

namespace ng {
namespace {

// How often the stop flag of EngineOptions is looked at while nothing is to be done.
constexpr std::chrono::milliseconds kIdle(50);
// So long after Drain samplers are still made.
constexpr std::chrono::milliseconds kMakesAfterDrain(500);
// So much later, about, a token may come because others' prompts are fed beside it.
constexpr double kMostBesideS = 0.15;
// So many sampler chains may be there for requests that have not begun.
constexpr int64_t kMostMadeAhead = 8;
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
        loop(OfSession(), run.settings, options),
        maker(run.samplers, [this] {
          const std::lock_guard lock(mutex);
          sampler_made = true;
          changed.notify_all();
        }) {}

  GenerateOptions Callbacks();
  const GenerateParts& OfSession() {
    run.settings.stop = &stop;
    run.settings.most_beside_s = kMostBesideS;
    return run.parts;
  }
  // Any thread.
  absl::Status CheckFits(const GenerateRequest& request) const;
  absl::Status CheckRoom(size_t n_requests);  // REQUIRES: `mutex` is held

  // The session's thread.
  void Work();
  // Waits for something to do. Brings what has come in to the loop. False: the session ends.
  bool Take();
  bool HasToDo() const;  // REQUIRES: `mutex` is held
  // A request whose sampler must be made joins the loop when it is.
  void Add(std::unique_ptr<Job> job);
  void AddToLoop(Job& job, RequestSampler sampler);
  void AddMade(SamplerMaker::Job made);
  void EndById(int64_t id);  // with kInterrupted
  // Its sampler cannot be made.
  void EndByError(Job& job, const absl::Status& error);
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
  std::map<int, std::unique_ptr<Job>> jobs;  // that have come in and not ended, by index
  std::set<int64_t> making;                  // of them: those that wait for their sampler
  GenerateLoop loop;
  SessionCounts counted;
  absl::Status failed;  // what ended the session

  std::mutex mutex;  // of all that follows
  std::condition_variable changed;
  Jobs incoming;
  std::vector<int64_t> cancels;
  SessionCounts shown;
  int64_t next_id = 0;
  int64_t n_open = 0;         // accepted and not ended
  bool sampler_made = false;  // the maker has something
  bool closed = false;        // nothing is accepted
  GenerateClock::time_point makes_until = GenerateClock::time_point::max();
  bool over = false;     // the thread has done everything
  absl::Status outcome;  // then
  SamplerMaker maker;
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
  Job& added = *jobs.emplace(IndexOf(job->id), std::move(job)).first->second;
  const std::vector<std::string>& settings = added.asked.request.settings;
  const absl::Status status = Guarded([&]() -> absl::Status {
    std::optional<RequestSampler> known = run.samplers.Known(settings);
    if (known) {
      AddToLoop(added, *std::move(known));
    } else {
      // Also where it will wait long for its turn: its client is told soon what is wrong.
      maker.Ask(*making.insert(added.id).first, settings);
    }
    return absl::OkStatus();
  });
  if (status.ok()) return;
  making.erase(added.id);
  EndByError(added, status);
}

void Session::State::AddToLoop(Job& job, RequestSampler sampler) {
  loop.Add({.index = IndexOf(job.id),
            .request = &job.asked.request,
            .completion = &job.completion,
            .mark = job.asked.mark,
            .sampler = std::move(sampler)});
}

void Session::State::AddMade(SamplerMaker::Job made) {
  if (making.erase(made.id) == 0) return;
  Job& job = Find(IndexOf(made.id));
  if (!made.sampler.ok()) return EndByError(job, made.sampler.status());
  for (const std::string& line : made.sampler->chain->Reports()) {
    if (job.asked.on_report) job.asked.on_report(line);
  }
  AddToLoop(job, *std::move(made.sampler));
}

void Session::State::EndByError(Job& job, const absl::Status& error) {
  job.error = error;
  job.completion.ids = job.asked.request.prompt_ids;
  job.completion.prompt_len = std::ssize(job.completion.ids);
  job.completion.stop_reason = StopReason::kError;
  OnDone(IndexOf(job.id));
}

void Session::State::EndById(int64_t id) {
  const auto job = jobs.find(IndexOf(id));
  if (job == jobs.end() || job->second->id != id) return;
  if (making.erase(id) > 0) {
    maker.Drop(id);
    AddToLoop(*job->second, {});
  }
  failed.Update(loop.Cancel(IndexOf(id)));
}

bool Session::State::HasToDo() const {
  if (!incoming.empty() || !cancels.empty() || sampler_made || !loop.idle()) return true;
  if (stop || EngineStopped()) return true;
  return closed && (making.empty() || GenerateClock::now() >= makes_until);
}

bool Session::State::Take() {
  Jobs taken;
  std::vector<int64_t> ended;
  bool made = false;
  {
    std::unique_lock lock(mutex);
    while (!HasToDo()) {
      if (engine.options.stop == nullptr && !closed) {
        changed.wait(lock);
      } else {
        changed.wait_for(lock, kIdle);
      }
    }
    const bool all_ended = loop.idle() && making.empty() && incoming.empty();
    if (stop || EngineStopped() || (closed && all_ended)) {
      closed = true;
      return false;
    }
    taken.swap(incoming);
    ended.swap(cancels);
    made = std::exchange(sampler_made, false);
    if (closed && GenerateClock::now() >= makes_until) {
      ended.insert(ended.end(), making.begin(), making.end());
    }
  }
  if (made) {
    for (SamplerMaker::Job& job : maker.Take()) AddMade(std::move(job));
  }
  for (std::unique_ptr<Job>& job : taken) Add(std::move(job));
  for (const int64_t id : ended) EndById(id);
  if (!making.empty()) maker.Allow(kMostMadeAhead - loop.n_waiting_chains());
  return failed.ok();
}

void Session::State::TakeTurn() {
  const GenerateClock::time_point begin = GenerateClock::now();
  failed = Guarded([&] { return loop.Turn(); });
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
  maker.Stop();
  for (const int64_t id : std::exchange(making, {})) AddToLoop(Find(IndexOf(id)), {});
  for (std::unique_ptr<Job>& job : rest) {
    AddToLoop(*jobs.emplace(IndexOf(job->id), std::move(job)).first->second, {});
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
    NG_RETURN_IF_ERROR(state->maker.Start());
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
  if (!state_->closed) state_->makes_until = GenerateClock::now() + kMakesAfterDrain;
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
