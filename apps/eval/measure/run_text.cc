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

absl::Status AtToken(const absl::Status& status, const Window& window, size_t i, bool of_full) {
  return Annotate(status, absl::StrCat("text ", window.text, ", token ", window.first + i,
                                       of_full ? ", the full cache: " : ": "));
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
    if (!q.ok()) return AtToken(q.status(), window, i, !p.ok());
    const TextBlock token = ScoreToken(*p, *q, static_cast<size_t>(window.targets[i]));
    AddToken(token, first, &blocks->all);
    first = false;
    if (!q_rows.after_eviction()) continue;
    AddToken(token, first_behind, &blocks->behind);
    first_behind = false;
  }
  return absl::OkStatus();
}

// A window of which both engines have read the context.
struct ReadWindow {
  ReadWindow(Engine& full_engine, Engine& method_engine, const Window& text)
      : window(text), full(full_engine, text), method(method_engine, text) {}

  absl::Status Open() {
    NG_RETURN_IF_ERROR(full.OpenBehind(ContextTokens(window)));
    return method.OpenBehind(ContextTokens(window));
  }

  const Window& window;
  WindowRows full;
  WindowRows method;
};

// Adds what is behind the context, by one rule. `own`: a window that is not open.
absl::Status AddBehind(const ReadWindow& read, const std::string& rule, const Job& job,
                       ReadWindow& own, TextResult* result) {
  const Window& window = read.window;
  WindowRows& p_rows = own.full;
  WindowRows& q_rows = own.method;
  NG_RETURN_IF_ERROR(p_rows.Fork(read.full, ""));
  NG_RETURN_IF_ERROR(q_rows.Fork(read.method, rule));
  const auto n_context = static_cast<size_t>(ContextTokens(window));
  for (size_t i = n_context - 1; i < window.fed.size(); ++i) {
    if (job.stop != nullptr && *job.stop) return InterruptedError("interrupted");
    const absl::StatusOr<std::span<const float>> p = p_rows.Next();
    const absl::StatusOr<std::span<const float>> q = p.ok() ? q_rows.Next() : p;
    if (!q.ok()) return AtToken(q.status(), window, i, !p.ok());
    if (i < n_context) continue;  // the context's last token has seen all of it
    const TextBlock token = ScoreToken(*p, *q, static_cast<size_t>(window.targets[i]));
    AddToken(token, i == n_context, &result->blocks);
    result->evicts |= q_rows.after_eviction();
    ++result->n_scored;
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

int64_t ContextTokens(const Window& window) {
  return std::max<int64_t>(1, std::ssize(window.fed) / 2);
}

absl::StatusOr<std::vector<TextResult>> RunTextsBehind(Engine& full, Engine& method, const Job& job,
                                                       std::span<const std::string> rules) {
  std::vector<TextResult> results(rules.size());
  for (const Window& window : job.windows) {
    ReadWindow read(full, method, window);
    NG_RETURN_IF_ERROR(read.Open());
    for (size_t i = 0; i < rules.size(); ++i) {
      ReadWindow own(full, method, window);
      NG_RETURN_IF_ERROR(AddBehind(read, rules[i], job, own, &results[i]));
      results[i].n_all = job.n_scored();
    }
    if (job.progress) job.progress({"texts", std::ssize(window.fed), 0});
  }
  return results;
}

}  // namespace ng::eval
