#include "core/sampling/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/sampling/dense_logits.h"
#include "ng/likely_tokens.h"

namespace ng {
namespace {

// exp(logit - max): what a candidate weighs beside the best one's 1.
double Weight(float logit, float max) { return std::exp(static_cast<double>(logit) - max); }

bool ById(const Candidate& a, const Candidate& b) { return a.id < b.id; }

// The ids of the `n` largest logits, falling, equal ones by rising id.
std::vector<int32_t> LargestIds(std::span<const float> logits, size_t n) {
  std::vector<int32_t> ids;
  ids.reserve(n + 1);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (ids.size() == n && (n == 0 || logits[i] <= logits[ids.back()])) continue;
    const auto place =
        std::upper_bound(ids.begin(), ids.end(), logits[i],
                         [&](float logit, int32_t id) { return logit > logits[id]; });
    ids.insert(place, static_cast<int32_t>(i));
    if (ids.size() > n) ids.pop_back();
  }
  return ids;
}

// `total`: the sum of all weights.
std::vector<std::pair<int32_t, float>> Likely(std::span<const float> logits, size_t n, float max,
                                              double total) {
  std::vector<std::pair<int32_t, float>> likely;
  for (const int32_t id : LargestIds(logits, std::min(n, logits.size()))) {
    likely.emplace_back(id, static_cast<float>(Weight(logits[id], max) / total));
  }
  return likely;
}

}  // namespace

absl::StatusOr<int32_t> DrawCandidate(CandidateSet& candidates, double uniform,
                                      std::span<double> scratch) {
  NG_ASSIGN_OR_RETURN(const float max, candidates.MaxLogit());
  const std::span<Candidate> items = candidates.items();
  if (items.size() == 1) return items.front().id;
  if (!std::is_sorted(items.begin(), items.end(), ById)) {
    std::sort(items.begin(), items.end(), ById);
  }
  const std::span<double> cumulative = scratch.first(items.size());
  double total = 0.0;
  for (size_t i = 0; i < items.size(); ++i) {
    total += Weight(items[i].logit, max);
    cumulative[i] = total;
  }
  // The first sum above the target belongs to a candidate with a weight: one at -infinity leaves
  // the sum as it was. There is one, because uniform <= 1 - 2^-53 keeps the product below total.
  const auto drawn = std::upper_bound(cumulative.begin(), cumulative.end(), uniform * total);
  return items[drawn - cumulative.begin()].id;
}

SamplerChain::SamplerChain(std::vector<ChainStage> stages, int64_t vocab_size, IsaLevel isa)
    : stages_(std::move(stages)), storage_(vocab_size, isa), scratch_(vocab_size) {
  const auto name = [](std::string* out, const ChainStage& stage) { out->append(stage.name); };
  description_ = absl::StrCat("sampler chain ", absl::StrJoin(stages_, ",", name));
}

absl::Status SamplerChain::Annotated(const absl::Status& status) const {
  return status.ok() ? status : Annotate(status, description_ + ": ");
}

absl::Status SamplerChain::CloseFirst(size_t n_stages, int slot) {
  absl::Status first_error;
  for (size_t i = 0; i < n_stages; ++i) first_error.Update(stages_[i].stage->Close(slot));
  return Annotated(first_error);
}

absl::Status SamplerChain::BeginAll(int slot, StageCall begin) {
  for (size_t i = 0; i < stages_.size(); ++i) {
    const absl::Status status = begin(*stages_[i].stage);
    if (status.ok()) continue;
    CloseFirst(i, slot).IgnoreError();  // what failed first is what to report
    return Annotated(status);
  }
  return absl::OkStatus();
}

std::vector<std::string> SamplerChain::Reports() const {
  std::vector<std::string> reports;
  for (const ChainStage& stage : stages_) {
    const std::string report = stage.stage->Report();
    if (!report.empty()) reports.push_back(stage.name + ": " + report);
  }
  return reports;
}

absl::Status SamplerChain::Open(int slot, std::span<const int32_t> prompt_ids) {
  return BeginAll(slot, [&](SamplerStage& stage) { return stage.Open(slot, prompt_ids); });
}

absl::Status SamplerChain::Fork(int from, int to) {
  return BeginAll(to, [&](SamplerStage& stage) { return stage.Fork(from, to); });
}

absl::StatusOr<SequenceEnd> SamplerChain::Accept(int slot, int32_t token) {
  SequenceEnd first = SequenceEnd::kNo;
  for (const ChainStage& stage : stages_) {
    const absl::StatusOr<SequenceEnd> end = stage.stage->Accept(slot, token);
    if (!end.ok()) return Annotated(end.status());
    if (first == SequenceEnd::kNo) first = *end;
  }
  return first;
}

absl::StatusOr<int64_t> SamplerChain::HeldBytes(int slot) const {
  int64_t most = 0;
  for (const ChainStage& stage : stages_) {
    const absl::StatusOr<int64_t> held = stage.stage->HeldBytes(slot);
    if (!held.ok()) return Annotated(held.status());
    most = std::max(most, *held);
  }
  return most;
}

absl::Status SamplerChain::Truncate(int slot, int64_t n_tokens) {
  for (const ChainStage& stage : stages_) {
    NG_RETURN_IF_ERROR(Annotated(stage.stage->Truncate(slot, n_tokens)));
  }
  return absl::OkStatus();
}

absl::Status SamplerChain::Close(int slot) { return CloseFirst(stages_.size(), slot); }

absl::Status SamplerChain::Apply(const ChainStage& stage, int slot, const DrawKey& key,
                                 CandidateSet& candidates) const {
  DrawKey own = key;
  own.stream = DrawStream(stage.name);
  NG_RETURN_IF_ERROR(stage.stage->Apply(slot, own, candidates));
  if (candidates.size() > 0) return absl::OkStatus();
  return PluginError(
      absl::StrCat("stage ", stage.name, " left no candidate, must leave at least 1"));
}

absl::Status SamplerChain::CheckLeft(const CandidateSet& candidates) const {
  if (candidates.listed()) {
    for (const Candidate& candidate : candidates.items()) {
      if (candidate.id >= 0 && candidate.id < storage_.vocab_size()) continue;
      return PluginError(absl::StrCat("token ", candidate.id, ", must be in [0, ",
                                      storage_.vocab_size(), ") (the vocabulary)"));
    }
  }
  return candidates.MaxLogit().status();
}

// What is still a row is drawn from as a row.
absl::StatusOr<int32_t> SamplerChain::Draw(CandidateSet& candidates, double uniform) {
  if (!candidates.listed() && storage_.logits().Drawable()) return storage_.logits().Draw(uniform);
  NG_ASSIGN_OR_RETURN(const int32_t token, DrawCandidate(candidates, uniform, scratch_));
  if (token >= 0 && token < storage_.vocab_size()) return token;
  return PluginError(absl::StrCat("a stage left token ", token, ", must be in [0, ",
                                  storage_.vocab_size(), ") (the vocabulary)"));
}

// Works on a copy, so that no candidate is listed or moved that would not be otherwise.
StageRecord SamplerChain::Look(const ChainStage& stage, const CandidateSet& candidates) {
  looked_.resize(static_cast<size_t>(std::max(candidates.size(), storage_.vocab_size())));
  std::span<Candidate> left = std::span(looked_).first(candidates.CopyTo(looked_));
  // What cannot be drawn, and NaN, which has no place in an order and ends the step with an error.
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const auto drawable = [](const Candidate& candidate) { return candidate.logit > kNever; };
  left = left.first(
      static_cast<size_t>(std::partition(left.begin(), left.end(), drawable) - left.begin()));
  StageRecord record{.name = stage.name, .n_left = std::ssize(left), .top = {}};
  if (left.empty()) return record;
  // The sum is taken in order of id, so that the same candidates give the same bits.
  std::ranges::sort(left, ById);
  const float max = std::ranges::max(left, {}, &Candidate::logit).logit;
  double total = 0.0;
  for (const Candidate& candidate : left) total += Weight(candidate.logit, max);
  const auto best = left.first(std::min<size_t>(kRecordedTop, left.size()));
  std::ranges::partial_sort(left, best.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  });
  for (const Candidate& candidate : best) {
    record.top.emplace_back(candidate.id, static_cast<float>(Weight(candidate.logit, max) / total));
  }
  return record;
}

absl::StatusOr<int32_t> SamplerChain::Choose(int slot, std::span<const float> logits,
                                             const DrawKey& key, std::vector<StageRecord>* stages) {
  if (std::ssize(logits) != storage_.vocab_size()) {
    return RuntimeError(absl::StrCat(description_, ": ", logits.size(), " logits, must be ",
                                     storage_.vocab_size(), " (the vocabulary)"));
  }
  CandidateSet candidates = storage_.Begin(logits);
  for (size_t i = 0; i < stages_.size(); ++i) {
    const absl::Status status = Apply(stages_[i], slot, key, candidates);
    if (!status.ok()) return Annotated(Blame(i, slot, logits, key, status));
    if (stages != nullptr) stages->push_back(Look(stages_[i], candidates));
  }
  absl::StatusOr<int32_t> token = Draw(candidates, UniformDraw(key));
  if (token.ok()) return token;
  return Annotated(Blame(stages_.size(), slot, logits, key, token.status()));
}

// Looking at the candidates after every stage would cost a pass over them. So the stages are
// applied once more when something has been found.
absl::Status SamplerChain::Blame(size_t n_stages, int slot, std::span<const float> logits,
                                 const DrawKey& key, const absl::Status& found) {
  CandidateSet candidates = storage_.Begin(logits);
  for (const ChainStage& stage : std::span(stages_).first(n_stages)) {
    if (!Apply(stage, slot, key, candidates).ok()) break;
    const absl::Status left = CheckLeft(candidates);
    if (!left.ok()) return Annotate(left, absl::StrCat("stage ", stage.name, " left behind: "));
  }
  return found;
}

StepStats ComputeStepStats(std::span<const float> logits, int32_t token, int top_n) {
  const float max = *std::max_element(logits.begin(), logits.end());
  double total = 0.0;
  double weighted = 0.0;  // sum of weight * (logit - max)
  for (const float logit : logits) {
    const double weight = Weight(logit, max);
    total += weight;
    weighted += weight * (static_cast<double>(logit) - max);
  }
  StepStats stats;
  stats.logprob = static_cast<double>(logits[token]) - max - std::log(total);
  stats.entropy = std::log(total) - weighted / total;
  stats.top = Likely(logits, static_cast<size_t>(top_n), max, total);
  return stats;
}

TokenLogprob ComputeLogprob(std::span<const float> logits, int32_t token, int64_t top_n) {
  const float max = *std::max_element(logits.begin(), logits.end());
  double total = 0.0;
  for (const float logit : logits) total += Weight(logit, max);
  const double log_total = std::log(total);
  const auto logprob = [&](int32_t id) {
    return static_cast<double>(logits[id]) - max - log_total;
  };
  TokenLogprob scored;
  scored.token_id = token;
  scored.logprob = logprob(token);
  const size_t n_top = std::min(static_cast<size_t>(top_n), logits.size());
  for (const int32_t id : LargestIds(logits, n_top)) scored.top.emplace_back(id, logprob(id));
  return scored;
}

std::vector<std::pair<int32_t, float>> LikelyTokens(std::span<const float> logits, int64_t n) {
  const float max = *std::max_element(logits.begin(), logits.end());
  double total = 0.0;
  for (const float logit : logits) total += Weight(logit, max);
  return Likely(logits, static_cast<size_t>(n), max, total);
}

int64_t RankOf(std::span<const float> logits, int32_t token) {
  const float own = logits[token];
  const auto of_equal = std::ranges::count(logits.first(token), own);
  return of_equal + std::ranges::count_if(logits, [&](float logit) { return logit > own; });
}

}  // namespace ng
