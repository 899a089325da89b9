#include "apps/eval/measure/run_task.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "absl/strings/str_cat.h"
#include "apps/common/divergence.h"
#include "apps/eval/measure/held.h"
#include "apps/eval/rows.h"

namespace ng::eval {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The context of a puzzle but for its last token, which rules read together.
class ContextRun {
 public:
  ContextRun(Engine& engine, const Prompt& prompt, const std::atomic<bool>* stop)
      : prompt_(prompt), stop_(stop), sequence_(engine) {}

  absl::Status Read(int64_t capacity) {
    const Clock::time_point begin = Clock::now();
    NG_RETURN_IF_ERROR(sequence_.Open(capacity));
    NG_RETURN_IF_ERROR(sequence_.SetContext(prompt_.n_context));
    const auto ids = std::span(prompt_.ids).first(static_cast<size_t>(prompt_.n_context - 1));
    if (!ids.empty()) NG_RETURN_IF_ERROR(sequence_.Feed(ids, stop_).status());
    seconds_ = SecondsSince(begin);
    return absl::OkStatus();
  }
  const HeldSequence& sequence() const { return sequence_; }
  double seconds() const { return seconds_; }

 private:
  const Prompt& prompt_;
  const std::atomic<bool>* stop_;
  HeldSequence sequence_;
  double seconds_ = 0.0;
};

// One puzzle after its shared beginning has been read: a fork for the answer and for each
// candidate.
class PuzzleRun {
 public:
  PuzzleRun(Engine& engine, const FittedPuzzle& fitted, const std::atomic<bool>* stop)
      : engine_(engine),
        prompt_(fitted.prompt),
        puzzle_(fitted.puzzle),
        stop_(stop),
        base_(engine) {
    // What a tokenizer joins across the question's end is read by each fork for itself.
    n_base_ = std::ssize(prompt_.ids);
    for (const auto& ids : prompt_.candidates) {
      n_base_ = std::min({n_base_, CommonPrefix(prompt_.ids, ids), std::ssize(ids) - 1});
    }
    for (const auto& ids : prompt_.candidates) capacity_ = std::max(capacity_, std::ssize(ids));
    capacity_ = std::max(capacity_, prompt_.n_tokens());
  }

  absl::Status Read() {
    NG_RETURN_IF_ERROR(base_.Open(capacity_));
    return FeedBase();
  }
  // What is behind the context, which goes by the rule.
  absl::Status ReadBehind(const ContextRun& context, const std::string& rule) {
    NG_RETURN_IF_ERROR(base_.Fork(context.sequence(), capacity_));
    NG_RETURN_IF_ERROR(base_.SetRule(rule));
    return FeedBase();
  }

  // What the model says by itself: the most probable token each time, up to the end of a line.
  absl::StatusOr<std::string> Say() {
    HeldSequence fork(engine_);
    NG_RETURN_IF_ERROR(fork.Fork(base_, capacity_));
    std::vector<float> row = row_;
    std::vector<int32_t> next(prompt_.ids.begin() + n_base_, prompt_.ids.end());
    std::vector<int32_t> said;
    std::string text;
    for (int64_t i = 0; i < prompt_.n_answer; ++i) {
      if (!next.empty()) {
        NG_ASSIGN_OR_RETURN(const std::span<const float> fed, fork.Feed(next, stop_));
        row.assign(fed.begin(), fed.end());
      }
      const auto best = static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
      if (std::ranges::count(engine_.stop_ids(), best) > 0) break;
      said.push_back(best);
      NG_ASSIGN_OR_RETURN(text, engine_.Decode(said));
      const size_t end = text.find('\n', text.find_first_not_of(" \n"));
      if (end != text.npos) {
        text.resize(end);
        break;
      }
      next = {best};
    }
    return text;
  }

  // log p of a candidate behind the prompt, summed over its tokens.
  absl::StatusOr<double> LogProbability(std::span<const int32_t> ids) {
    const std::span<const int32_t> own = ids.subspan(static_cast<size_t>(n_base_));
    std::vector<float> row = row_;
    double sum = 0.0;
    HeldSequence fork(engine_);
    if (own.size() > 1) NG_RETURN_IF_ERROR(fork.Fork(base_, capacity_));
    for (size_t i = 0; i < own.size(); ++i) {
      sum += static_cast<double>(row[static_cast<size_t>(own[i])]) - LogTotal(row);
      if (i + 1 == own.size()) break;
      NG_ASSIGN_OR_RETURN(const std::span<const float> fed, fork.Feed(own.subspan(i, 1), stop_));
      row.assign(fed.begin(), fed.end());
    }
    return sum;
  }

  absl::StatusOr<ExampleResult> Result() {
    ExampleResult result;
    NG_ASSIGN_OR_RETURN(result.said, Say());
    result.score = ScoreAnswer(puzzle_, result.said);
    double right = 0.0;
    double best_wrong = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < prompt_.candidates.size(); ++i) {
      NG_ASSIGN_OR_RETURN(const double log_p, LogProbability(prompt_.candidates[i]));
      if (i == 0) right = log_p;
      if (i > 0) best_wrong = std::max(best_wrong, log_p);
    }
    result.margin = right - best_wrong;
    return result;
  }

  const HeldSequence& base() const { return base_; }
  int64_t capacity() const { return capacity_; }

 private:
  absl::Status FeedBase() {
    const auto ids = std::span(prompt_.ids).first(static_cast<size_t>(n_base_));
    NG_ASSIGN_OR_RETURN(const std::span<const float> row,
                        base_.Feed(ids.subspan(static_cast<size_t>(base_.length())), stop_));
    row_.assign(row.begin(), row.end());
    return absl::OkStatus();
  }

  Engine& engine_;
  const Prompt& prompt_;
  const Puzzle& puzzle_;
  const std::atomic<bool>* stop_;
  HeldSequence base_;
  int64_t n_base_ = 0;
  int64_t capacity_ = 0;
  std::vector<float> row_;  // [vocab_size], behind the base's last token
};

// Adds one puzzle to what a rule has, or the cache's own way (`context`: null).
absl::Status AddExample(Engine& engine, const TaskRun& run, const FittedPuzzle& fitted,
                        const ContextRun* context, const std::string& rule, TaskResult* result) {
  PuzzleRun puzzle(engine, fitted, run.stop);
  NG_ASSIGN_OR_RETURN(const double scored, ScoringSeconds(engine));
  const Clock::time_point begin = Clock::now();
  NG_RETURN_IF_ERROR(context == nullptr ? puzzle.Read() : puzzle.ReadBehind(*context, rule));
  result->prefill_s += SecondsSince(begin) + (context == nullptr ? 0.0 : context->seconds());
  NG_ASSIGN_OR_RETURN(const double scored_now, ScoringSeconds(engine));
  result->scoring_s += scored_now - scored;
  result->prompt_tokens += puzzle.base().length();
  result->peak_tokens = std::max(result->peak_tokens, puzzle.base().peak());
  result->held_tokens = std::max(result->held_tokens, puzzle.base().held());
  NG_ASSIGN_OR_RETURN(result->examples.emplace_back(), puzzle.Result());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TaskResult>> RunTask(Engine& engine, const TaskRun& run) {
  std::vector<TaskResult> results(std::max<size_t>(1, run.rules.size()));
  for (const FittedPuzzle& fitted : run.puzzles) {
    if (run.rules.empty()) {
      NG_RETURN_IF_ERROR(AddExample(engine, run, fitted, nullptr, "", &results.front()));
    } else {
      ContextRun context(engine, fitted.prompt, run.stop);
      NG_RETURN_IF_ERROR(context.Read(PuzzleRun(engine, fitted, run.stop).capacity()));
      for (size_t i = 0; i < results.size(); ++i) {
        NG_RETURN_IF_ERROR(AddExample(engine, run, fitted, &context, run.rules[i], &results[i]));
      }
    }
    if (run.on_tokens) run.on_tokens(std::ssize(fitted.prompt.ids));
  }
  return results;
}

}  // namespace ng::eval
