#include "apps/eval/measure/run_text.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "apps/common/divergence.h"
#include "apps/eval/rows.h"

namespace ng::eval {
namespace {

// The blocks of all tokens and of those behind an eviction.
struct TwoBlocks {
  std::vector<TextBlock> all;
  std::vector<TextBlock> behind;
};

void AddToken(const TextBlock& token, bool new_block, std::vector<TextBlock>* blocks) {
  if (new_block || blocks->empty() || blocks->back().n == kBlockTokens) blocks->emplace_back();
  TextBlock& block = blocks->back();
  block.n += token.n;
  block.full += token.full;
  block.nll += token.nll;
  block.kl += token.kl;
  block.equal += token.equal;
}

TextBlock ScoreToken(std::span<const float> p, std::span<const float> q, size_t target) {
  const double p_log_total = LogTotal(p);
  const double q_log_total = LogTotal(q);
  const auto best = [](std::span<const float> row) {
    return std::ranges::max_element(row) - row.begin();
  };
  return {.n = 1,
          .full = p_log_total - static_cast<double>(p[target]),
          .nll = q_log_total - static_cast<double>(q[target]),
          .kl = KlDivergence(p, p_log_total, q, q_log_total),
          .equal = static_cast<int64_t>(best(p) == best(q))};
}

absl::Status AddText(Engine& full, Engine& method, const Job& job, const Window& window,
                     TwoBlocks* blocks) {
  WindowRows p_rows(full, window);
  WindowRows q_rows(method, window);
  NG_RETURN_IF_ERROR(p_rows.Open());
  NG_RETURN_IF_ERROR(q_rows.Open());
  bool first = true;
  bool first_behind = true;
  for (size_t i = 0; i < window.fed.size(); ++i) {
    if (job.stop != nullptr && *job.stop) return InterruptedError("interrupted");
    const absl::StatusOr<std::span<const float>> p = p_rows.Next();
    const absl::StatusOr<std::span<const float>> q = p.ok() ? q_rows.Next() : p;
    if (!q.ok()) {
      return Annotate(q.status(), absl::StrCat("text ", window.text, ", token ", window.first + i,
                                               p.ok() ? ": " : ", the full cache: "));
    }
    const TextBlock token = ScoreToken(*p, *q, static_cast<size_t>(window.targets[i]));
    AddToken(token, first, &blocks->all);
    first = false;
    if (!q_rows.after_eviction()) continue;
    AddToken(token, first_behind, &blocks->behind);
    first_behind = false;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TextResult> RunTexts(Engine& full, Engine& method, const Job& job) {
  TwoBlocks blocks;
  for (const Window& window : job.windows) {
    NG_RETURN_IF_ERROR(AddText(full, method, job, window, &blocks));
    if (job.progress) job.progress({"texts", std::ssize(window.fed), 0});
  }
  TextResult result;
  result.evicts = !blocks.behind.empty();
  result.n_all = job.n_scored();
  result.blocks = result.evicts ? std::move(blocks.behind) : std::move(blocks.all);
  for (const TextBlock& block : result.blocks) result.n_scored += block.n;
  return result;
}

}  // namespace ng::eval
