#include "apps/eval/lab/shared.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/eval/lab/parts.h"
#include "apps/eval/measure/run_speed.h"
#include "apps/eval/measure/run_text.h"

namespace ng::eval {
namespace {

// A method of which parts are left, and what an engine of its own would say.
struct Member {
  explicit Member(const Method& of) : method(&of) {}

  const Method* method;
  Json json;                           // MethodJson
  std::map<int64_t, CachePlan> plans;  // by the length of tasks
  bool failed = false;
};

class SharedRun {
 public:
  using OnLine = std::function<absl::Status(const Json& line, bool is_new)>;
  using OnError = std::function<absl::Status(const Method& method, const absl::Status& why)>;

  SharedRun(const Work& work, const LineFile& done, LabProgress* progress, const OnLine& on_line,
            const OnError& on_error)
      : work_(work), done_(done), progress_(progress), on_line_(on_line), on_error_(on_error) {}

  absl::Status Run(std::span<const Method> methods) {
    for (const Method& method : methods) members_.emplace_back(method);
    for (const TaskWork& task : work_.tasks) {
      NG_RETURN_IF_ERROR(Part(TaskPart(task.task, task.length), TokensOf(task.puzzles),
                              [&](std::vector<Json>* lines) { return AddTask(task, lines); }));
    }
    if (!work_.texts.windows.empty()) {
      NG_RETURN_IF_ERROR(Part(TextPart(), work_.texts.n_scored() * (1 + std::ssize(methods)),
                              [&](std::vector<Json>* lines) { return AddText(lines); }));
    }
    for (const int64_t depth : work_.depths) {
      NG_RETURN_IF_ERROR(Part(SpeedPart(depth), 2 * depth,
                              [&](std::vector<Json>* lines) { return AddSpeed(depth, lines); }));
    }
    return absl::OkStatus();
  }

 private:
  // One part: the lines that are there, and new ones of the other methods, which `fill` completes.
  absl::Status Part(const Json& part, int64_t n_tokens,
                    const std::function<absl::Status(std::vector<Json>* lines)>& fill) {
    left_.clear();
    for (Member& member : members_) {
      if (member.failed) continue;
      Json line = part;
      line["method"] = {{"name", member.method->name}};
      if (const Json* const there = done_.Find(LineKey(line))) {
        NG_RETURN_IF_ERROR(on_line_(Json(*there), false));
      } else {
        left_.push_back(&member);
      }
    }
    if (!left_.empty()) NG_RETURN_IF_ERROR(Open());
    if (left_.empty()) {
      progress_->Skip(n_tokens);
      return absl::OkStatus();
    }
    rules_.clear();
    for (const Member* const member : left_) rules_.push_back(member->method->rule);
    progress_->Begin(absl::StrCat(left_.size(),
                                  left_.size() == 1 ? " policy: " : " policies: ", PartName(part)));
    std::vector<Json> lines(left_.size(), part);
    for (size_t i = 0; i < lines.size(); ++i) lines[i]["method"] = left_[i]->json;
    const absl::Status filled = fill(&lines);
    if (!filled.ok()) return FailLeft(filled);
    for (size_t i = 0; i < lines.size(); ++i) {
      lines[i]["command"] = work_.command(*left_[i]->method, PartOptions(part));
      lines[i]["run"] = work_.run;
      NG_RETURN_IF_ERROR(on_line_(lines[i], true));
    }
    return absl::OkStatus();
  }

  absl::Status Fail(Member& member, const absl::Status& why) {
    if (absl::IsCancelled(why)) return why;
    member.failed = true;
    return on_error_(*member.method, why);
  }
  absl::Status FailLeft(const absl::Status& why) {
    for (Member* const member : left_) NG_RETURN_IF_ERROR(Fail(*member, why));
    left_.clear();
    return absl::OkStatus();
  }

  // A context, what a rule makes of it, and a fork of that for an answer.
  RunNeeds Needs() const {
    constexpr int kSequences = 3;
    RunNeeds needs = work_.needs;
    needs.max_sequences = kSequences;
    return needs;
  }

  // What the method's own engine says of itself; it is not loaded.
  absl::Status Ask(Member& member) const {
    NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> own, Engine::Open(member.method->engine));
    member.json = MethodJson(*member.method, own->config());
    NG_RETURN_IF_ERROR(own->Plan(Needs()).status());
    for (const TaskWork& task : work_.tasks) {
      NG_ASSIGN_OR_RETURN(const RunPlan plan, own->Plan({.max_tokens = task.length}));
      member.plans[task.length] = plan.cache;
    }
    return absl::OkStatus();
  }

  // The engine of all that can run. Those that cannot are no longer in left_.
  absl::Status Open() {
    if (engine_ != nullptr) return absl::OkStatus();
    std::vector<std::string> rules;
    const Method* first = nullptr;
    for (Member& member : members_) {
      const absl::Status asked = Ask(member);
      if (!asked.ok()) {
        NG_RETURN_IF_ERROR(Fail(member, asked));
        continue;
      }
      if (first != nullptr) rules.push_back(member.method->rule);
      if (first == nullptr) first = member.method;
    }
    std::erase_if(left_, [](const Member* member) { return member->failed; });
    if (first == nullptr) return absl::OkStatus();
    EngineOptions options = first->engine;
    options.overrides.push_back(absl::StrCat("cache.budget.rules=", absl::StrJoin(rules, ",")));
    absl::StatusOr<std::unique_ptr<Engine>> opened = Engine::Open(options);
    const absl::Status loaded =
        opened.ok() ? (*opened)->Load(Needs()) : absl::Status(opened.status());
    if (!loaded.ok()) return FailLeft(loaded);
    engine_ = *std::move(opened);
    return absl::OkStatus();
  }

  absl::Status AddTask(const TaskWork& task, std::vector<Json>* lines) {
    NG_ASSIGN_OR_RETURN(const std::vector<TaskResult> results,
                        RunTask(*engine_, {.puzzles = task.puzzles,
                                           .rules = rules_,
                                           .stop = work_.texts.stop,
                                           .on_tokens = [&](int64_t n) { progress_->Add(n); }}));
    for (size_t i = 0; i < results.size(); ++i) {
      FillTask(task.puzzles, results[i], left_[i]->plans.at(task.length), &(*lines)[i]);
    }
    return absl::OkStatus();
  }

  absl::Status AddText(std::vector<Json>* lines) {
    Job job = work_.texts;
    const int64_t n_times = 1 + std::ssize(rules_);
    job.progress = [&](const Progress& window) { progress_->Add(window.done * n_times); };
    NG_ASSIGN_OR_RETURN(const std::vector<TextResult> results,
                        RunTextsBehind(*work_.full, *engine_, job, rules_));
    for (size_t i = 0; i < results.size(); ++i) FillText(results[i], &(*lines)[i]);
    return absl::OkStatus();
  }

  absl::Status AddSpeed(int64_t depth, std::vector<Json>* lines) {
    NG_ASSIGN_OR_RETURN(
        const std::vector<SpeedResult> speeds,
        RunSpeed(
            *work_.full, *engine_,
            {.depth = depth, .rounds = work_.rounds, .rules = rules_, .stop = work_.texts.stop}));
    progress_->Add(2 * depth);
    for (size_t i = 0; i < speeds.size(); ++i) FillSpeed(speeds[i], work_.rounds, &(*lines)[i]);
    return absl::OkStatus();
  }

  const Work& work_;
  const LineFile& done_;
  LabProgress* const progress_;
  const OnLine& on_line_;
  const OnError& on_error_;
  std::vector<Member> members_;
  std::vector<Member*> left_;       // of the part that is done now
  std::vector<std::string> rules_;  // theirs
  std::unique_ptr<Engine> engine_;
};

}  // namespace

int64_t SharedTokensOf(const Work& work, int64_t n_methods) {
  int64_t n = work.texts.n_scored() * (1 + n_methods);
  for (const TaskWork& task : work.tasks) n += TokensOf(task.puzzles);
  for (const int64_t depth : work.depths) n += 2 * depth;
  return n_methods == 0 ? 0 : n;
}

absl::Status RunShared(
    const Work& work, std::span<const Method> methods, const LineFile& done, LabProgress* progress,
    const std::function<absl::Status(const Json& line, bool is_new)>& on_line,
    const std::function<absl::Status(const Method& method, const absl::Status& why)>& on_error) {
  return SharedRun(work, done, progress, on_line, on_error).Run(methods);
}

}  // namespace ng::eval
