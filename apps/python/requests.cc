#include "apps/python/requests.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng::python {
namespace {

// So many requests run side by side where nobody says it and there is room.
constexpr int kSideBySide = 8;
// Further ones wait: as many as a program may have.
constexpr int kMostWaiting = 1 << 20;

}  // namespace

// A session may call Python code, so the GIL is free while one begins and ends.
class Requests::LiveSession {
 public:
  explicit LiveSession(Requests& of) : of_(of) {
    absl::StatusOr<std::unique_ptr<Session>> started = [&] {
      const WithoutGil free;
      return Session::Start(of.engine_->engine(), {.max_waiting = kMostWaiting});
    }();
    session_ = Value(std::move(started));
    const std::lock_guard lock(of.mutex_);
    of.session_ = session_.get();
  }
  ~LiveSession() {
    const WithoutGil free;
    {
      const std::lock_guard lock(of_.mutex_);
      of_.session_ = nullptr;
    }
    session_.reset();
  }
  LiveSession(const LiveSession&) = delete;
  LiveSession& operator=(const LiveSession&) = delete;

  Session& session() { return *session_; }

 private:
  Requests& of_;
  std::unique_ptr<Session> session_;
};

void Requests::Submit(const py::list& requests, const py::dict& options, int64_t first) {
  StayIfPythonEnds();
  Jobs jobs;
  for (const py::handle& given : requests) {
    Job& job = jobs.emplace_back();
    job.number = first + std::ssize(jobs) - 1;
    job.request = RequestOf(given.cast<py::dict>(), options);
    job.request.draw = std::ssize(jobs) - 1;
    job.options.steps = job.request.steps = options["records"].cast<bool>();
    job.keeps_steps = options["steps"].cast<bool>();
    Check(engine_->engine().CheckRequest(job.request));
  }
  engine_->CheckNoRuns();
  const std::lock_guard lock(mutex_);
  std::ranges::move(jobs, std::back_inserter(waiting_));
  changed_.notify_all();
}

py::object Requests::Cancel(int64_t number) {
  Completion unbegun;
  GenerateRequest asked;
  {
    const std::lock_guard lock(mutex_);
    const auto begun = begun_.find(number);
    if (begun != begun_.end() && session_ != nullptr) session_->Cancel(begun->second);
    const auto job = std::ranges::find(waiting_, number, &Job::number);
    // Behind Close it ends as all that waits does.
    if (job == waiting_.end() || engine_->closed()) return py::none();
    asked = std::move(job->request);
    waiting_.erase(job);
  }
  unbegun.ids = asked.prompt_ids;
  unbegun.prompt_len = std::ssize(unbegun.ids);
  unbegun.stop_reason = StopReason::kInterrupted;
  return CompletionDict(engine_->engine(), asked, unbegun);
}

bool Requests::waiting() const {
  const std::lock_guard lock(mutex_);
  return !waiting_.empty();
}

bool Requests::Drive(const py::function& on_event) {
  try {
    const OpenEngine::Claim claim(*engine_);
    if (engine_->has_runs()) return false;
    MakeRoom(on_event);
    const StopOnSigint clear(engine_->stop());
    if (!waiting() || engine_->closing()) return true;
    {
      LiveSession live(*this);
      Serve(live.session(), on_event);
    }
    engine_->pending().Clear();
  } catch (py::error_already_set& error) {
    engine_->pending().Clear();
    EndAll(error.value(), on_event);
  }
  return true;
}

RunNeeds Requests::NeedsOfWaiting() const {
  const std::lock_guard lock(mutex_);
  std::vector<GenerateRequest> requests;
  for (const Job& job : waiting_) requests.push_back(job.request);
  RunNeeds needs = Needs(requests);
  needs.max_prompt = 0;
  return needs;
}

// What cannot be loaded for ends the longest request that waits.
void Requests::MakeRoom(const py::function& on_event) {
  while (waiting()) {
    RunNeeds needs = NeedsOfWaiting();
    const auto given = static_cast<int>(engine_->engine().config().Int("cache.max_sequences"));
    needs.max_sequences = std::max(engine_->least().max_sequences, given);
    if (needs.max_sequences == 0) {
      needs.max_sequences = engine_->SequencesThatFit(needs, kSideBySide);
    }
    needs.max_sequences += engine_->n_open();
    try {
      return engine_->Ensure(needs);
    } catch (py::error_already_set& error) {
      Jobs longest;
      {
        const std::lock_guard lock(mutex_);
        const auto size = [](const Job& job) {
          return std::ssize(job.request.prompt_ids) + job.request.max_new_tokens;
        };
        const auto found = std::ranges::max_element(waiting_, {}, size);
        if (found == waiting_.end()) return;  // cancelled meanwhile
        longest.push_back(std::move(*found));
        waiting_.erase(found);
      }
      on_event(longest.front().number, py::none(), py::none(), error.value());
    }
  }
}

bool Requests::Fits(const Job& job) const {
  const std::vector<GenerateRequest> only = {job.request};
  RunNeeds needs = Needs(only);
  needs.max_prompt = 0;
  return engine_->IsLoadedFor(needs);
}

void Requests::Serve(Session& session, const py::function& on_event) {
  bool ends = false;  // begins nothing more
  // What waited for this turn has it.
  for (bool first = true;; first = false) {
    std::deque<Event> events;
    Jobs jobs;
    {
      const WithoutGil free;
      std::unique_lock lock(mutex_);
      changed_.wait(
          lock, [&] { return !events_.empty() || begun_.empty() || (!ends && !waiting_.empty()); });
      events.swap(events_);
      if (!ends) jobs = waiting_;
    }
    for (const Event& event : events) Deliver(event, on_event);
    for (const Job& job : jobs) {
      const bool waits = engine_->turn_is_wanted() && !first;
      ends = waits || engine_->closing() || !Fits(job);
      if (ends) break;
      Begin(session, job, on_event);
    }
    const std::lock_guard lock(mutex_);
    if (begun_.empty() && events_.empty() && (ends || waiting_.empty())) return;
  }
}

// It waits until the session has it, so that Cancel finds it at any time.
void Requests::Begin(Session& session, const Job& job, const py::function& on_event) {
  absl::Status refused;
  {
    std::vector<SessionRequest> asked;
    asked.push_back(Asking(job));
    const WithoutGil free;
    const std::lock_guard lock(mutex_);
    if (waiting_.empty() || waiting_.front().number != job.number) return;  // cancelled meanwhile
    absl::StatusOr<int64_t> id = session.Submit(std::move(asked));
    waiting_.pop_front();
    if (id.ok()) begun_[job.number] = *id;
    refused = id.status();
  }
  if (!refused.ok()) on_event(job.number, py::none(), py::none(), ErrorOf(refused));
}

SessionRequest Requests::Asking(const Job& job) {
  SessionRequest asked;
  asked.request = job.request;
  if (job.keeps_steps) {
    asked.on_token = [this, job,
                      text = std::make_shared<AnswerStream>()](const StepRecord& record) {
      Event event;
      event.job = job;
      event.step = ChosenToken{0, record, ""};
      if (engine_->engine().has_tokenizer()) {
        absl::StatusOr<std::string> piece = text->Push(engine_->engine(), record);
        if (piece.ok()) event.step->text = *std::move(piece);
      }
      Tell(std::move(event));
    };
  }
  asked.on_done = [this, job](const absl::Status& status, Completion& completion) {
    Event event;
    event.job = job;
    event.error = status;
    event.completion = std::move(completion);
    Tell(std::move(event));
  };
  return asked;
}

// On the session's thread.
void Requests::Tell(Event event) {
  const std::lock_guard lock(mutex_);
  if (!event.step) begun_.erase(event.job.number);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

void Requests::Deliver(const Event& event, const py::function& on_event) const {
  const int64_t number = event.job.number;
  const py::none none;
  if (event.step) {
    on_event(number, StepDict(*event.step, event.job.request, event.job.options), none, none);
  } else if (event.error.ok()) {
    on_event(number, none, CompletionDict(engine_->engine(), event.job.request, event.completion),
             none);
  } else {
    on_event(number, none, none, engine_->pending().ErrorFor(event.error));
  }
}

// What has ended is told; what waits ends by this error.
void Requests::EndAll(const py::object& error, const py::function& on_event) {
  Jobs jobs;
  std::deque<Event> events;
  {
    const std::lock_guard lock(mutex_);
    jobs.swap(waiting_);
    events.swap(events_);
  }
  for (const Event& event : events) Deliver(event, on_event);
  for (const Job& job : jobs) on_event(job.number, py::none(), py::none(), error);
}

}  // namespace ng::python
