#include "apps/diff/lockstep.h"

#include <array>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng::diff {
namespace {

// Whose turn it is. All that the two threads share is read and written by the one that has it.
class Turns {
 public:
  // Waits until the side may begin; A may at once.
  void Begin(Side side) { Wait(side); }
  // The other side goes on. Returns when it has given the turn back or has ended.
  void Give(Side side) {
    Pass(side);
    Wait(side);
  }
  void End(Side side) {
    const std::lock_guard lock(mutex_);
    ended_[static_cast<size_t>(side)] = true;
    turn_ = OtherOf(side);
    changed_.notify_all();
  }

 private:
  void Pass(Side side) {
    const std::lock_guard lock(mutex_);
    if (ended_[static_cast<size_t>(OtherOf(side))]) return;
    turn_ = OtherOf(side);
    changed_.notify_all();
  }
  void Wait(Side side) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == side; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Side turn_ = Side::kA;
  std::array<bool, 2> ended_ = {false, false};
};

// What A has chosen for a prompt.
struct Chosen {
  std::vector<int32_t> tokens;
  bool done = false;
};

class Pair {
 public:
  Pair(const SideRun& a, const SideRun& b, const Lockstep& lockstep)
      : a_(a),
        b_(b),
        comparer_(lockstep.points, lockstep.max_waiting_bytes),
        chosen_(a.requests.size()) {
    for (const PointShape& point : lockstep.points) look_at_.push_back(point.at);
  }

  absl::StatusOr<LockstepResult> Run(const std::string& b_name);

 private:
  // Runs a side on its thread, from its first turn to its end.
  void RunSide(Side side);
  GenerateOptions OptionsOf(Side side);
  absl::Status OnPoint(Side side, const PointRows& rows);
  // The token that A has chosen, once it has.
  absl::StatusOr<GivenToken> Next(int index, int64_t step);
  absl::Status& StatusOf(Side side) { return statuses_[static_cast<size_t>(side)]; }

  const SideRun a_;
  const SideRun b_;
  std::vector<PointAt> look_at_;
  Turns turns_;
  // What follows belongs to the side whose turn it is.
  Comparer comparer_;
  std::vector<Chosen> chosen_;  // [n_requests]
  bool a_ended_ = false;
  std::array<absl::Status, 2> statuses_;
  std::vector<Completion> done_;  // A's
};

absl::Status Pair::OnPoint(Side side, const PointRows& rows) {
  NG_RETURN_IF_ERROR(comparer_.Add(side, rows));
  if (comparer_.IsAhead(side)) turns_.Give(side);
  if (StatusOf(OtherOf(side)).ok()) return absl::OkStatus();
  return InterruptedError("the other side has failed");
}

absl::StatusOr<GivenToken> Pair::Next(int index, int64_t step) {
  const Chosen& chosen = chosen_[static_cast<size_t>(index)];
  while (std::ssize(chosen.tokens) <= step && !a_ended_) turns_.Give(Side::kB);
  if (std::ssize(chosen.tokens) <= step) return InterruptedError("the other side has ended");
  const bool last = chosen.done && std::ssize(chosen.tokens) == step + 1;
  return GivenToken{chosen.tokens[static_cast<size_t>(step)], last};
}

GenerateOptions Pair::OptionsOf(Side side) {
  GenerateOptions options;
  options.look_at = look_at_;
  options.on_point = [this, side](const PointRows& rows) { return OnPoint(side, rows); };
  if (side == Side::kB) {
    options.next_token = [this](int index, int64_t step) { return Next(index, step); };
    return options;
  }
  options.on_step = [this](int index, const StepRecord& record) {
    chosen_[static_cast<size_t>(index)].tokens.push_back(record.token_id);
    return absl::OkStatus();
  };
  // In the step that chose the last token, so that B is told so when it asks for it.
  options.on_done = [this](int index, const Completion&) {
    chosen_[static_cast<size_t>(index)].done = true;
    return absl::OkStatus();
  };
  return options;
}

void Pair::RunSide(Side side) {
  turns_.Begin(side);
  const SideRun& run = side == Side::kA ? a_ : b_;
  absl::StatusOr<std::vector<Completion>> done = run.engine.Generate(run.requests, OptionsOf(side));
  StatusOf(side) = done.status();
  if (side == Side::kA) {
    a_ended_ = true;
    if (done.ok()) done_ = *std::move(done);
  }
  turns_.End(side);
}

absl::StatusOr<LockstepResult> Pair::Run(const std::string& b_name) {
  std::thread other;
  try {
    other = std::thread([this] { RunSide(Side::kB); });
  } catch (const std::system_error& error) {
    return LimitError(absl::StrCat("no thread for the other side: ", error.what()));
  }
  RunSide(Side::kA);
  other.join();
  // A side that stops because the other has failed says nothing of its own.
  const absl::Status b_status = Annotate(StatusOf(Side::kB), b_name + ": ");
  if (!StatusOf(Side::kA).ok() && !absl::IsCancelled(StatusOf(Side::kA))) return StatusOf(Side::kA);
  if (!b_status.ok() && !absl::IsCancelled(b_status)) return b_status;
  LockstepResult result;
  for (Completion& completion : done_) result.ids.push_back(std::move(completion.ids));
  result.comparison = comparer_.Finish();
  return result;
}

}  // namespace

absl::StatusOr<LockstepResult> RunLockstep(const SideRun& a, const SideRun& b,
                                           const std::string& b_name, const Lockstep& lockstep) {
  absl::StatusOr<LockstepResult> result = Pair(a, b, lockstep).Run(b_name);
  if (lockstep.stop != nullptr && *lockstep.stop &&
      (result.ok() || absl::IsCancelled(result.status()))) {
    return InterruptedError("interrupted");
  }
  return result;
}

}  // namespace ng::diff
