#include "apps/eval/lab/work.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/eval/measure/run_speed.h"
#include "apps/eval/measure/run_text.h"
#include "ng/config.h"

namespace ng::eval {
namespace {

// One method's parts. Its engine is opened and loaded when the first part needs it.
class MethodRun {
 public:
  using OnLine = std::function<absl::Status(const Json& line, bool is_new)>;

  MethodRun(const Work& work, const Method& method, LabProgress* progress)
      : work_(work), method_(method), progress_(progress) {}

  absl::Status Run(const LineFile& done, const OnLine& on_line) {
    for (const TaskWork& task : work_.tasks) {
      const Json head = {{"kind", "task"}, {"task", task.task}, {"length", task.length}};
      NG_RETURN_IF_ERROR(Part(head, task.n_tokens(), done, on_line,
                              [&](Json* line) { return AddTask(task, line); }));
    }
    if (method_.name == kFull) return absl::OkStatus();  // the others are held against it
    if (!work_.texts.windows.empty()) {
      NG_RETURN_IF_ERROR(Part({{"kind", "text"}}, 2 * work_.texts.n_scored(), done, on_line,
                              [&](Json* line) { return AddText(line); }));
    }
    for (const int64_t depth : work_.depths) {
      NG_RETURN_IF_ERROR(Part({{"kind", "speed"}, {"depth", depth}}, 2 * depth, done, on_line,
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
    progress_->Begin(absl::StrCat(method_.name, ": ", NameOf(head)));
    NG_RETURN_IF_ERROR(fill(&line));
    line["command"] = work_.command(method_, OptionsOf(head));
    line["run"] = work_.run;
    return on_line(line, true);
  }

  static std::string NameOf(const Json& head) {
    const std::string kind = head["kind"];
    if (kind == "task") {
      return absl::StrCat(head["task"].get<std::string>(), " of ", head["length"].get<int64_t>());
    }
    return kind == "text" ? "texts" : absl::StrCat("decode at ", head["depth"].get<int64_t>());
  }

  // The options that ask for this part alone.
  static std::string OptionsOf(const Json& head) {
    const std::string kind = head["kind"];
    if (kind == "task") {
      return absl::StrCat("--tasks=", head["task"].get<std::string>(),
                          " --lengths=", head["length"].get<int64_t>(), " --repeat=0");
    }
    if (kind == "text") return "--tasks=none --repeat=0";
    return absl::StrCat("--tasks=none --depths=", head["depth"].get<int64_t>());
  }

  absl::Status Open() {
    if (engine_ != nullptr) return absl::OkStatus();
    if (method_.name == kFull) {
      engine_ = work_.full;
      return absl::OkStatus();
    }
    NG_ASSIGN_OR_RETURN(own_, Engine::Open(method_.engine));
    NG_RETURN_IF_ERROR(own_->Load(work_.needs));
    engine_ = own_.get();
    return absl::OkStatus();
  }

  // What one sequence of so many tokens takes: reserved, and of keys and values what was held.
  absl::Status AddMemory(int64_t length, int64_t peak_tokens, int64_t held_tokens, Json* line) {
    NG_ASSIGN_OR_RETURN(const RunPlan plan, engine_->Plan({.max_tokens = length}));
    const int64_t bytes = plan.cache.bytes_per_token;
    (*line)["memory"] = {{"reserved_bytes", plan.cache.bytes}, {"bytes_per_token", bytes},
                         {"peak_tokens", peak_tokens},         {"peak_bytes", peak_tokens * bytes},
                         {"held_tokens", held_tokens},         {"held_bytes", held_tokens * bytes}};
    return absl::OkStatus();
  }

  absl::Status AddTask(const TaskWork& task, Json* line) {
    NG_ASSIGN_OR_RETURN(const double before, ScoringSeconds(*engine_));
    const auto on_tokens = [&](int64_t n) { progress_->Add(n); };
    NG_ASSIGN_OR_RETURN(const TaskResult result,
                        RunTask(*engine_, {task.puzzles, work_.texts.stop, on_tokens}));
    NG_ASSIGN_OR_RETURN(const double after, ScoringSeconds(*engine_));
    Json& examples = (*line)["examples"] = Json::array();
    for (size_t i = 0; i < result.examples.size(); ++i) {
      const ExampleResult& example = result.examples[i];
      const FittedPuzzle& fitted = task.puzzles[i];
      examples.push_back({{"tokens", fitted.prompt.ids.size()},
                          {"context_tokens", fitted.prompt.n_context},
                          {"answers", fitted.puzzle.answers},
                          {"said", example.said},
                          {"score", example.score},
                          {"margin", example.margin}});
    }
    NG_RETURN_IF_ERROR(AddMemory(task.length, result.peak_tokens, result.held_tokens, line));
    (*line)["prefill"] = {{"tokens", result.prompt_tokens}, {"seconds", result.prefill_s}};
    (*line)["scoring_s"] = after - before;
    return absl::OkStatus();
  }

  absl::Status AddText(Json* line) {
    Job job = work_.texts;
    job.progress = [&](const Progress& window) { progress_->Add(2 * window.done); };
    NG_ASSIGN_OR_RETURN(const TextResult result, RunTexts(*work_.full, *engine_, job));
    (*line)["fed_tokens"] = result.n_all;
    (*line)["scored_tokens"] = result.n_scored;
    (*line)["after_eviction"] = result.evicts;
    Json& blocks = (*line)["blocks"] = Json::array();
    for (const TextBlock& block : result.blocks) {
      blocks.push_back({{"tokens", block.n},
                        {"full_nll", block.full},
                        {"nll", block.nll},
                        {"kl", block.kl},
                        {"equal_argmax", block.equal}});
    }
    return absl::OkStatus();
  }

  absl::Status AddSpeed(int64_t depth, Json* line) {
    NG_ASSIGN_OR_RETURN(const SpeedResult speed,
                        RunSpeed(*work_.full, *engine_, {depth, work_.rounds, work_.texts.stop}));
    progress_->Add(2 * depth);
    (*line)["tok_s"] = speed.tok_s;
    (*line)["full_tok_s"] = speed.full_tok_s;
    (*line)["over_full"] = speed.ratio.value;
    (*line)["least_over_full"] = speed.ratio.low;
    (*line)["most_over_full"] = speed.ratio.high;
    (*line)["rounds"] = work_.rounds;
    return absl::OkStatus();
  }

  const Work& work_;
  const Method& method_;
  LabProgress* const progress_;
  std::unique_ptr<Engine> own_;
  Engine* engine_ = nullptr;
};

}  // namespace

int64_t TaskWork::n_tokens() const {
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
  for (const TaskWork& task : work.tasks) n += task.n_tokens();
  if (method.name == kFull) return n;
  n += 2 * work.texts.n_scored();
  for (const int64_t depth : work.depths) n += 2 * depth;
  return n;
}

absl::Status RunMethod(const Work& work, const Method& method, const LineFile& done,
                       LabProgress* progress,
                       const std::function<absl::Status(const Json& line, bool is_new)>& on_line) {
  return MethodRun(work, method, progress).Run(done, on_line);
}

absl::StatusOr<double> ScoringSeconds(const Engine& engine) {
  constexpr std::string_view kBefore = "which took ";
  NG_ASSIGN_OR_RETURN(const std::vector<std::string> reports, engine.Reports());
  double seconds = 0.0;
  for (const std::string& report : reports) {
    const size_t at = report.find(kBefore);
    if (at == report.npos || report.find("tokens go") == report.npos) continue;
    const char* const begin = report.data() + at + kBefore.size();
    double value = 0.0;
    std::from_chars(begin, report.data() + report.size(), value);
    seconds += value;
  }
  return seconds;
}

}  // namespace ng::eval
