#include "apps/eval/measure/run_speed.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "apps/common/speed.h"
#include "apps/eval/measure/held.h"
#include "apps/eval/tasks/draws.h"

namespace ng::eval {
namespace {

// One engine, filled.
class DeepSequence {
 public:
  DeepSequence(Engine& engine, const SpeedRun& run)
      : engine_(engine), run_(run), base_(engine), draws_({.seed = 1, .example = run.depth}) {}

  absl::Status Fill() {
    NG_RETURN_IF_ERROR(base_.Open(run_.depth + kSpeedTokens));
    return base_.Feed(DrawIds(run_.depth), run_.stop).status();
  }
  // The same but for the last token, with which the context ends.
  absl::Status FillContext() {
    NG_RETURN_IF_ERROR(base_.Open(run_.depth + kSpeedTokens));
    NG_RETURN_IF_ERROR(base_.SetContext(run_.depth));
    const std::vector<int32_t> ids = DrawIds(run_.depth);
    last_ = ids.back();
    if (ids.size() == 1) return absl::OkStatus();
    return base_.Feed(std::span(ids).first(ids.size() - 1), run_.stop).status();
  }
  // What `context` has, and its last token, by a rule.
  absl::Status FillFrom(const DeepSequence& context, const std::string& rule) {
    NG_RETURN_IF_ERROR(base_.Fork(context.base_, run_.depth + kSpeedTokens));
    NG_RETURN_IF_ERROR(base_.SetRule(rule));
    draws_ = context.draws_;
    return base_.Feed({&context.last_, 1}, run_.stop).status();
  }

  // Tokens per second of a round.
  absl::StatusOr<double> Round() {
    HeldSequence fork(engine_);
    NG_RETURN_IF_ERROR(fork.Fork(base_, run_.depth + kSpeedTokens));
    const std::vector<int32_t> ids = DrawIds(kSpeedTokens);
    const auto begin = std::chrono::steady_clock::now();
    for (const int32_t& id : ids) NG_RETURN_IF_ERROR(fork.Feed({&id, 1}, run_.stop).status());
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    return static_cast<double>(kSpeedTokens) / taken.count();
  }

 private:
  std::vector<int32_t> DrawIds(int64_t n) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < n; ++i) {
      ids.push_back(static_cast<int32_t>(draws_.Below(engine_.model_shape().vocab_size)));
    }
    return ids;
  }

  Engine& engine_;
  const SpeedRun& run_;
  HeldSequence base_;
  Draws draws_;
  int32_t last_ = 0;
};

// `method` and the full cache in turns.
absl::StatusOr<SpeedResult> TimeBoth(DeepSequence& of_full, DeepSequence& of_method,
                                     int64_t rounds) {
  std::vector<double> full_tok_s, tok_s, ratios;  // [1 + rounds]
  for (int64_t round = 0; round <= rounds; ++round) {
    NG_ASSIGN_OR_RETURN(full_tok_s.emplace_back(), of_full.Round());
    NG_ASSIGN_OR_RETURN(tok_s.emplace_back(), of_method.Round());
    ratios.push_back(tok_s.back() / full_tok_s.back());
  }
  SpeedResult result;
  result.tok_s = MedianButFirst(tok_s);
  result.full_tok_s = MedianButFirst(full_tok_s);
  const auto [least, most] = std::ranges::minmax(std::span(ratios).subspan(1));
  result.ratio = {MedianButFirst(ratios), least, most};
  return result;
}

}  // namespace

absl::StatusOr<std::vector<SpeedResult>> RunSpeed(Engine& full, Engine& method,
                                                  const SpeedRun& run) {
  std::vector<SpeedResult> results;
  DeepSequence of_full(full, run);
  NG_RETURN_IF_ERROR(of_full.Fill());
  DeepSequence filled(method, run);
  if (run.rules.empty()) {
    NG_RETURN_IF_ERROR(filled.Fill());
    NG_ASSIGN_OR_RETURN(results.emplace_back(), TimeBoth(of_full, filled, run.rounds));
    return results;
  }
  NG_RETURN_IF_ERROR(filled.FillContext());
  for (const std::string& rule : run.rules) {
    DeepSequence of_rule(method, run);
    NG_RETURN_IF_ERROR(of_rule.FillFrom(filled, rule));
    NG_ASSIGN_OR_RETURN(results.emplace_back(), TimeBoth(of_full, of_rule, run.rounds));
  }
  return results;
}

}  // namespace ng::eval
