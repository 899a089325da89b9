#include "apps/eval/evaluate.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/common/divergence.h"
#include "apps/eval/rows.h"
#include "ng/config.h"

namespace ng::eval {
namespace {

struct Sums {
  int64_t n_scored = 0;
  double reference = 0.0;  // sum of -log p(token), nats
  double candidate = 0.0;
  int64_t n_equal = 0;
  std::vector<double> kl;  // [n_scored] with a candidate
};

ptrdiff_t ArgMax(std::span<const float> row) {
  return std::max_element(row.begin(), row.end()) - row.begin();
}

// Where a row is, for an error about it.
std::string PlaceOf(const Window& window, size_t i, const char* whose) {
  return absl::StrCat("text ", window.text, ", token ", window.first + i, ", ", whose, ": ");
}

absl::Status AddWindow(Engine& reference, Engine* candidate, const Job& job, const Window& window,
                       Sums* sums) {
  WindowRows p_rows(reference, window);
  NG_RETURN_IF_ERROR(p_rows.Open());
  std::optional<WindowRows> q_rows;
  if (candidate != nullptr) NG_RETURN_IF_ERROR(q_rows.emplace(*candidate, window).Open());
  for (size_t i = 0; i < window.fed.size(); ++i) {
    if (job.stop != nullptr && *job.stop) return InterruptedError("interrupted");
    const auto target = static_cast<size_t>(window.targets[i]);
    const absl::StatusOr<std::span<const float>> p = p_rows.Next();
    if (!p.ok()) return Annotate(p.status(), PlaceOf(window, i, "the reference"));
    const double p_log_total = LogTotal(*p);
    sums->reference += p_log_total - static_cast<double>((*p)[target]);
    ++sums->n_scored;
    if (!q_rows) continue;
    const absl::StatusOr<std::span<const float>> q = q_rows->Next();
    if (!q.ok()) return Annotate(q.status(), PlaceOf(window, i, "the candidate"));
    const double q_log_total = LogTotal(*q);
    sums->candidate += q_log_total - static_cast<double>((*q)[target]);
    sums->n_equal += static_cast<int64_t>(ArgMax(*p) == ArgMax(*q));
    sums->kl.push_back(KlDivergence(*p, p_log_total, *q, q_log_total));
  }
  return absl::OkStatus();
}

Difference DifferenceOf(Sums& sums) {
  const auto n = static_cast<double>(sums.n_scored);
  Difference difference;
  difference.perplexity = std::exp(sums.candidate / n);
  for (const double kl : sums.kl) difference.kl_mean += kl / n;
  std::sort(sums.kl.begin(), sums.kl.end());
  difference.kl_p99 = sums.kl[static_cast<size_t>((99 * sums.n_scored + 99) / 100 - 1)];
  difference.equal_argmax = static_cast<double>(sums.n_equal) / n;
  return difference;
}

}  // namespace

absl::Status CheckUsesCache(const Engine& engine) {
  if (engine.config().Bool("run.use_cache")) return absl::OkStatus();
  return UsageError(engine.config().Describe("run.use_cache") +
                    " = false: ng-eval reads keys and values from the cache; must be true");
}

absl::Status CheckCandidate(const Engine& reference, const Engine& candidate) {
  NG_RETURN_IF_ERROR(CheckUsesCache(candidate));
  const int64_t n = candidate.model_shape().vocab_size;
  const int64_t n_reference = reference.model_shape().vocab_size;
  if (n == n_reference) return absl::OkStatus();
  return UsageError(
      absl::StrCat("its vocabulary has ", n, " ids, must have the reference's ", n_reference));
}

int64_t TokenLimit(const Engine& engine) {
  const int64_t max_tokens = engine.config().Int("cache.max_tokens");
  return max_tokens > 0 ? max_tokens : engine.model_shape().max_positions;
}

absl::Status CheckFits(const Engine& engine, const Window& longest) {
  const GenerateRequest request = {{longest.fed.begin(), longest.fed.end()}, 0, {}};
  return Annotate(engine.CheckRequest(request),
                  absl::StrCat("a window of ", longest.fed.size(), " tokens: "));
}

const Window& LongestOf(std::span<const Window> windows) {
  return *std::ranges::max_element(windows, {},
                                   [](const Window& window) { return window.fed.size(); });
}

int64_t Job::n_scored() const {
  int64_t n = 0;
  for (const Window& window : windows) n += static_cast<int64_t>(window.fed.size());
  return n;
}

absl::StatusOr<Evaluation> Evaluate(Engine& reference, Engine* candidate, const Job& job) {
  const int64_t total = job.n_scored();
  Sums sums;
  for (const Window& window : job.windows) {
    NG_RETURN_IF_ERROR(AddWindow(reference, candidate, job, window, &sums));
    if (job.progress) job.progress({"evaluate", sums.n_scored, total});
  }
  Evaluation evaluation;
  evaluation.perplexity = std::exp(sums.reference / static_cast<double>(total));
  if (candidate != nullptr) evaluation.difference = DifferenceOf(sums);
  return evaluation;
}

}  // namespace ng::eval
