#include "apps/eval/lab/work.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/eval/lab/parts.h"
#include "apps/eval/measure/run_speed.h"
#include "apps/eval/measure/run_text.h"

namespace ng::eval {
namespace {

// Whether its engine is the full cache's.
bool IsFull(const Method& method) { return method.name == kFull || method.name == kFloor; }

// One method's parts. Its engine is opened and loaded when the first part needs it.
class MethodRun {
 public:
  using OnLine = std::function<absl::Status(const Json& line, bool is_new)>;

  MethodRun(const Work& work, const Method& method, LabProgress* progress)
      : work_(work), method_(method), progress_(progress) {}

  absl::Status Run(const LineFile& done, const OnLine& on_line) {
    for (const TaskWork& task : work_.tasks) {
      NG_RETURN_IF_ERROR(Part(TaskPart(task.task, task.length), TokensOf(task.Of(method_)), done,
                              on_line, [&](Json* line) { return AddTask(task, line); }));
    }
    if (IsFull(method_)) return absl::OkStatus();  // the others are held against it
    if (!work_.texts.windows.empty()) {
      NG_RETURN_IF_ERROR(Part(TextPart(), 2 * work_.texts.n_scored(), done, on_line,
                              [&](Json* line) { return AddText(line); }));
    }
    for (const int64_t depth : work_.depths) {
      NG_RETURN_IF_ERROR(Part(SpeedPart(depth), 2 * depth, done, on_line,
                              [&](Json* line) { return AddSpeed(depth, line); }));
    }
    return absl::OkStatus();
  }

 private:
  // One part: the line that is there, or a new one that `fill` completes.
  absl::Status Part(const Json& head, int64_t n_tokens, const LineFile& done, const OnLine& on_line,
                    const std::function<absl::Status(Json* line)>& fill) {
    Json line = head;
    line["method"] = {{"name", method_.name}};
    if (const Json* const there = done.Find(LineKey(line))) {
      progress_->Skip(n_tokens);
      return on_line(Json(*there), false);
    }
    NG_RETURN_IF_ERROR(Open());
    line["method"] = MethodJson(method_, engine_->config());
    progress_->Begin(absl::StrCat(method_.name, ": ", PartName(head)));
    NG_RETURN_IF_ERROR(fill(&line));
    line["command"] = work_.command(method_, PartOptions(head));
    line["run"] = work_.run;
    return on_line(line, true);
  }

  absl::Status Open() {
    if (engine_ != nullptr) return absl::OkStatus();
    if (IsFull(method_)) {
      engine_ = work_.full;
      return absl::OkStatus();
    }
    NG_ASSIGN_OR_RETURN(own_, Engine::Open(method_.engine));
    NG_RETURN_IF_ERROR(own_->Load(work_.needs));
    engine_ = own_.get();
    return absl::OkStatus();
  }

  absl::Status AddTask(const TaskWork& task, Json* line) {
    const std::vector<FittedPuzzle>& puzzles = task.Of(method_);
    const auto on_tokens = [&](int64_t n) { progress_->Add(n); };
    NG_ASSIGN_OR_RETURN(
        const std::vector<TaskResult> results,
        RunTask(*engine_, {.puzzles = puzzles, .stop = work_.texts.stop, .on_tokens = on_tokens}));
    NG_ASSIGN_OR_RETURN(const RunPlan plan, engine_->Plan({.max_tokens = task.length}));
    FillTask(puzzles, results.front(), plan.cache, line);
    return absl::OkStatus();
  }

  absl::Status AddText(Json* line) {
    Job job = work_.texts;
    job.progress = [&](const Progress& window) { progress_->Add(2 * window.done); };
    NG_ASSIGN_OR_RETURN(const TextResult result, RunTexts(*work_.full, *engine_, job));
    FillText(result, line);
    return absl::OkStatus();
  }

  absl::Status AddSpeed(int64_t depth, Json* line) {
    NG_ASSIGN_OR_RETURN(
        const std::vector<SpeedResult> speeds,
        RunSpeed(*work_.full, *engine_,
                 {.depth = depth, .rounds = work_.rounds, .stop = work_.texts.stop}));
    progress_->Add(2 * depth);
    FillSpeed(speeds.front(), work_.rounds, line);
    return absl::OkStatus();
  }

  const Work& work_;
  const Method& method_;
  LabProgress* const progress_;
  std::unique_ptr<Engine> own_;
  Engine* engine_ = nullptr;
};

}  // namespace

int64_t TokensOf(std::span<const FittedPuzzle> puzzles) {
  int64_t n = 0;
  for (const FittedPuzzle& fitted : puzzles) n += std::ssize(fitted.prompt.ids);
  return n;
}

std::string TimeLeftText(int64_t seconds) {
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 3600;
  if (seconds < kMinute) return absl::StrCat(seconds, " s");
  const int64_t rest = seconds % kHour;
  if (seconds < kHour) return absl::StrFormat("%d:%02d", rest / kMinute, rest % kMinute);
  return absl::StrFormat("%d:%02d:%02d", seconds / kHour, rest / kMinute, rest % kMinute);
}

void LabProgress::Begin(const std::string& what) {
  what_ = what;
  Show();
}

void LabProgress::Add(int64_t n_tokens) {
  n_done_ += n_tokens;
  n_left_ = std::max<int64_t>(0, n_left_ - n_tokens);
  Show();
}

void LabProgress::Skip(int64_t n_tokens) { n_left_ = std::max<int64_t>(0, n_left_ - n_tokens); }

void LabProgress::Show() const {
  if (!show_) return;
  std::string phase = what_;
  if (n_done_ > 0) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began_;
    const double left = took.count() / static_cast<double>(n_done_) * static_cast<double>(n_left_);
    absl::StrAppend(&phase, ", ", TimeLeftText(static_cast<int64_t>(left)), " left");
  }
  show_({phase, n_done_, n_done_ + n_left_});
}

int64_t TokensOf(const Work& work, const Method& method) {
  int64_t n = 0;
  for (const TaskWork& task : work.tasks) n += TokensOf(task.Of(method));
  if (IsFull(method)) return n;
  n += 2 * work.texts.n_scored();
  for (const int64_t depth : work.depths) n += 2 * depth;
  return n;
}

absl::Status RunMethod(const Work& work, const Method& method, const LineFile& done,
                       LabProgress* progress,
                       const std::function<absl::Status(const Json& line, bool is_new)>& on_line) {
  return MethodRun(work, method, progress).Run(done, on_line);
}

}  // namespace ng::eval
