#include "apps/eval/measure/run_task.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "absl/strings/str_cat.h"
#include "apps/common/divergence.h"
#include "apps/eval/measure/held.h"

namespace ng::eval {
namespace {

using Clock = std::chrono::steady_clock;

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
    NG_ASSIGN_OR_RETURN(
        const std::span<const float> row,
        base_.Feed(std::span(prompt_.ids).first(static_cast<size_t>(n_base_)), stop_));
    row_.assign(row.begin(), row.end());
    return absl::OkStatus();
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

 private:
  Engine& engine_;
  const Prompt& prompt_;
  const Puzzle& puzzle_;
  const std::atomic<bool>* stop_;
  HeldSequence base_;
  int64_t n_base_ = 0;
  int64_t capacity_ = 0;
  std::vector<float> row_;  // [vocab_size], behind the base's last token
};

}  // namespace

absl::StatusOr<TaskResult> RunTask(Engine& engine, const TaskRun& run) {
  TaskResult result;
  for (const FittedPuzzle& fitted : run.puzzles) {
    PuzzleRun puzzle(engine, fitted, run.stop);
    const Clock::time_point begin = Clock::now();
    NG_RETURN_IF_ERROR(puzzle.Read());
    result.prefill_s += std::chrono::duration<double>(Clock::now() - begin).count();
    result.prompt_tokens += puzzle.base().length();
    result.peak_tokens = std::max(result.peak_tokens, puzzle.base().peak());
    result.held_tokens = std::max(result.held_tokens, puzzle.base().held());
    NG_ASSIGN_OR_RETURN(result.examples.emplace_back(), puzzle.Result());
    if (run.on_tokens) run.on_tokens(std::ssize(fitted.prompt.ids));
  }
  return result;
}

}  // namespace ng::eval
