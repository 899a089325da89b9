#include "core/runtime/loop/draft_lengths.h"

#include <algorithm>
#include <cmath>

namespace ng {
namespace {

// What an unknown row is taken to add to a step, as a share of it.
constexpr double kUnknownRow = 0.03;
// How fast older drafts stop to count.
constexpr double kOlderToken = 0.85;
// Trying drafts again takes no more than this share of the time, and is not put off for ever.
constexpr double kTrialShare = 0.01;
constexpr int64_t kMostQuietSteps = 64;

// Follows down at once and up slowly: what makes a step slow is mostly somebody else.
double Followed(double known, double seconds) {
  return known + (seconds - known) * (seconds < known ? 0.5 : 0.125);
}

}  // namespace

void StepTimes::Add(int rows, double seconds) {
  Time& time = times_[static_cast<size_t>(rows)];
  if (!time.seen) {
    time.seen = true;
    return;
  }
  time.seconds = time.seconds == 0.0 ? seconds : Followed(time.seconds, seconds);
}

double StepTimes::Of(int rows) const {
  const auto known = [](const Time& time) { return time.seconds > 0.0; };
  const auto at = times_.begin() + rows;
  if (known(*at)) return at->seconds;
  const auto above = std::find_if(at, times_.end(), known);
  const auto below = std::find_if(std::make_reverse_iterator(at), times_.rend(), known);
  if (below == times_.rend()) {
    const double own = 1.0 + kUnknownRow * rows;
    if (above == times_.end()) return own;
    const auto n_rows = static_cast<double>(above - times_.begin());
    return above->seconds * own / (1.0 + kUnknownRow * n_rows);
  }
  const auto n_above = static_cast<double>(at - (below.base() - 1));
  if (above == times_.end()) return below->seconds * (1.0 + kUnknownRow * n_above);
  const auto n_between = static_cast<double>(above - (below.base() - 1));
  return below->seconds + (above->seconds - below->seconds) * n_above / n_between;
}

bool StepTimes::KnowsUpTo(int rows) const {
  const auto end = times_.begin() + rows + 1;
  return std::any_of(times_.begin(), end, [](const Time& time) { return time.seconds > 0.0; });
}

void KeptShare::AddOne(double kept) {
  kept_ = kept_ * kOlderToken + kept;
  tried_ = tried_ * kOlderToken + 1.0;
}

void KeptShare::Add(int64_t n_kept, int64_t n_drafted) {
  for (int64_t i = 0; i < n_kept; ++i) AddOne(1.0);
  if (n_kept < n_drafted) AddOne(0.0);
}

DraftLengths::DraftLengths(int max_sequences, int gamma)
    : gamma_(gamma), times_(max_sequences * (1 + gamma)) {
  gains_.reserve(static_cast<size_t>(max_sequences) * static_cast<size_t>(gamma));
}

void DraftLengths::AddDrafting(int64_t n_tokens, double seconds) {
  const double each = seconds / static_cast<double>(n_tokens);
  seconds_each_ = seconds_each_ == 0.0 ? each : Followed(seconds_each_, each);
}

int64_t DraftLengths::QuietSteps(int rows) const {
  const double plain = times_.Of(rows);
  const double more = (times_.Of(rows + 1) + seconds_each_) / plain - 1.0;
  return std::clamp(static_cast<int64_t>(std::ceil(more / kTrialShare)), int64_t{1},
                    kMostQuietSteps);
}

void DraftLengths::Choose(std::span<DraftChoice> choices) {
  gains_.clear();
  for (size_t i = 0; i < choices.size(); ++i) {
    choices[i].n_tokens = 0;
    double gain = 1.0;
    for (int64_t n = 0; n < std::min(choices[i].most, gamma_); ++n) {
      gain *= choices[i].share;
      gains_.push_back({gain, i});
    }
  }
  // The best first; of one sequence they come in its order, because a later one gains less.
  std::ranges::sort(gains_, [](const Gain& a, const Gain& b) {
    return a.tokens > b.tokens || (a.tokens == b.tokens && a.choice < b.choice);
  });
  const auto n_sequences = static_cast<int>(choices.size());
  // What a plain step takes must be known, or drafts that lose would not be found out.
  if (!times_.KnowsUpTo(n_sequences)) return;
  double tokens = n_sequences;
  double best = tokens / times_.Of(n_sequences);
  size_t n_best = 0;
  for (size_t n = 1; n <= gains_.size(); ++n) {
    tokens += gains_[n - 1].tokens;
    const double seconds =
        times_.Of(n_sequences + static_cast<int>(n)) + seconds_each_ * static_cast<double>(n);
    if (tokens / seconds <= best) continue;
    best = tokens / seconds;
    n_best = n;
  }
  for (const Gain& gain : std::span(gains_).first(n_best)) ++choices[gain.choice].n_tokens;
  const int64_t quiet = QuietSteps(n_sequences);
  for (DraftChoice& choice : choices) {
    if (choice.n_tokens == 0 && choice.most > 0 && choice.n_quiet >= quiet) choice.n_tokens = 1;
  }
}

}  // namespace ng
