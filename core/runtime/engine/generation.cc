#include "ng/generation.h"

#include <deque>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/engine/engine_run.h"
#include "core/runtime/loop/generate_loop.h"

namespace ng {

struct Generation::State {
  struct Entry {
    GenerateRequest request;
    Completion completion;
  };

  State(Engine::State& engine, GenerateOptions run_options)
      : options(std::move(run_options)),
        run(engine, options),
        loop(run.parts, run.settings, options) {}

  absl::StatusOr<int> Add(GenerateRequest request) {
    NG_RETURN_IF_ERROR(run.Check(request));
    Entry& entry = entries.emplace_back();
    entry.request = std::move(request);
    const int index = static_cast<int>(entries.size()) - 1;
    loop.Add({index, &entry.request, &entry.completion});
    return index;
  }
  // Nothing can be done any more. RuntimeError says why.
  absl::Status CheckGoesOn() const {
    NG_RETURN_IF_ERROR(status);
    return finished ? RuntimeError("the generation is finished") : absl::OkStatus();
  }
  absl::Status Finish() {
    finished = true;
    if (status.ok()) status = loop.End(StopReason::kInterrupted);
    return run.End(status);
  }

  GenerateOptions options;
  Engine::State::Run run;
  std::deque<Entry> entries;  // by index; the loop borrows them
  GenerateLoop loop;
  absl::Status status;  // of the first step that failed
  bool finished = false;
};

Generation::Generation(std::unique_ptr<State> state) : state_(std::move(state)) {}

Generation::~Generation() {
  if (!state_->finished) Finish().IgnoreError();
}

absl::StatusOr<std::unique_ptr<Generation>> Engine::Begin(std::vector<GenerateRequest> requests,
                                                          GenerateOptions options) {
  return GuardedReading([&]() -> absl::StatusOr<std::unique_ptr<Generation>> {
    NG_RETURN_IF_ERROR(state_->CheckLoaded());
    NG_RETURN_IF_ERROR(state_->CheckFree());
    auto state = std::make_unique<Generation::State>(*state_, std::move(options));
    for (GenerateRequest& request : requests) {
      NG_RETURN_IF_ERROR(state->Add(std::move(request)).status());
    }
    NG_RETURN_IF_ERROR(state->run.CheckOptions());
    return std::unique_ptr<Generation>(new Generation(std::move(state)));
  });
}

absl::StatusOr<bool> Generation::Step() {
  return GuardedReading([&]() -> absl::StatusOr<bool> {
    NG_RETURN_IF_ERROR(state_->CheckGoesOn());
    absl::StatusOr<bool> more = state_->loop.Advance();
    if (!more.ok()) state_->status = more.status();
    return more;
  });
}

absl::StatusOr<int> Generation::Add(GenerateRequest request) {
  return GuardedReading([&]() -> absl::StatusOr<int> {
    NG_RETURN_IF_ERROR(state_->CheckGoesOn());
    return state_->Add(std::move(request));
  });
}

absl::Status Generation::Cancel(int index) {
  return GuardedReading([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(state_->CheckGoesOn());
    if (index >= 0 && index < std::ssize(state_->entries)) return state_->loop.Cancel(index);
    return UsageError(absl::StrCat("request ", index, ": there are ", state_->entries.size()));
  });
}

absl::StatusOr<std::vector<Completion>> Generation::Finish() {
  return GuardedReading([&]() -> absl::StatusOr<std::vector<Completion>> {
    if (state_->finished) return RuntimeError("the generation is finished already");
    NG_RETURN_IF_ERROR(state_->Finish());
    return Take();
  });
}

std::vector<Completion> Generation::Take() {
  std::vector<Completion> completions;
  completions.reserve(state_->entries.size());
  for (State::Entry& entry : state_->entries) completions.push_back(std::move(entry.completion));
  return completions;
}

}  // namespace ng
