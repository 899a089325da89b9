#include "core/runtime/sampling.h"

#include <Random123/philox.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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

}  // namespace

double UniformDraw(const DrawKey& key) {
  const auto low = [](int64_t bits) { return static_cast<uint32_t>(bits); };
  const auto high = [](int64_t bits) { return static_cast<uint32_t>(bits >> 32); };
  const r123::Philox4x32::ctr_type counter = {
      {low(key.step), high(key.step), low(key.sequence), high(key.sequence)}};
  const r123::Philox4x32::key_type philox_key = {{low(key.seed), high(key.seed)}};
  const r123::Philox4x32::ctr_type random = r123::Philox4x32()(counter, philox_key);
  const uint64_t bits = (static_cast<uint64_t>(random[1]) << 32) | random[0];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

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

SamplerChain::SamplerChain(std::vector<ChainStage> stages, int64_t vocab_size,
                           const KernelTable& kernels)
    : stages_(std::move(stages)), logits_(kernels, vocab_size), scratch_(vocab_size) {
  const auto name = [](std::string* out, const ChainStage& stage) { out->append(stage.name); };
  description_ = absl::StrCat("sampler chain ", absl::StrJoin(stages_, ",", name));
}

absl::Status SamplerChain::Call(ChainStage& stage, StageCall call) const {
  const auto apply = [&] { return call(*stage.stage); };
  const absl::Status status = stage.guard ? stage.guard(apply) : apply();
  return status.ok() ? status : Annotate(status, description_ + ": ");
}

absl::Status SamplerChain::CallAll(StageCall call) {
  for (ChainStage& stage : stages_) NG_RETURN_IF_ERROR(Call(stage, call));
  return absl::OkStatus();
}

absl::Status SamplerChain::CloseFirst(size_t n_stages, int slot) {
  absl::Status first_error;
  for (size_t i = 0; i < n_stages; ++i) {
    first_error.Update(Call(stages_[i], [slot](SamplerStage& stage) {
      stage.Close(slot);
      return absl::OkStatus();
    }));
  }
  return first_error;
}

absl::Status SamplerChain::BeginAll(int slot, StageCall begin) {
  for (size_t i = 0; i < stages_.size(); ++i) {
    absl::Status status = Call(stages_[i], begin);
    if (status.ok()) continue;
    CloseFirst(i, slot).IgnoreError();  // what failed first is what to report
    return status;
  }
  return absl::OkStatus();
}

absl::Status SamplerChain::Open(int slot, std::span<const int32_t> prompt_ids) {
  return BeginAll(slot, [&](SamplerStage& stage) { return stage.Open(slot, prompt_ids); });
}

absl::Status SamplerChain::Fork(int from, int to) {
  return BeginAll(to, [&](SamplerStage& stage) { return stage.Fork(from, to); });
}

absl::Status SamplerChain::Accept(int slot, int32_t token) {
  return CallAll([&](SamplerStage& stage) {
    stage.Accept(slot, token);
    return absl::OkStatus();
  });
}

absl::Status SamplerChain::Truncate(int slot, int64_t n_tokens) {
  return CallAll([&](SamplerStage& stage) {
    stage.Truncate(slot, n_tokens);
    return absl::OkStatus();
  });
}

absl::Status SamplerChain::Close(int slot) { return CloseFirst(stages_.size(), slot); }

absl::StatusOr<int32_t> SamplerChain::Choose(int slot, std::span<const float> logits,
                                             const DrawKey& key) {
  if (logits.size() != scratch_.size()) {
    return RuntimeError(absl::StrCat(description_, ": ", logits.size(), " logits, must be ",
                                     scratch_.size(), " (the vocabulary)"));
  }
  logits_.Begin(logits);
  CandidateSet candidates(logits_);
  for (ChainStage& stage : stages_) {
    NG_RETURN_IF_ERROR(Call(stage, [&](SamplerStage& s) { return s.Apply(slot, candidates); }));
    if (candidates.size() == 0) {
      return PluginError(absl::StrCat(description_, ": stage ", stage.name,
                                      " left no candidate, must leave at least 1"));
    }
  }
  // What is still a row is drawn from as a row.
  const double uniform = UniformDraw(key);
  if (!candidates.listed() && logits_.Max().has_value()) return logits_.Draw(uniform);
  absl::StatusOr<int32_t> token = DrawCandidate(candidates, uniform, scratch_);
  if (!token.ok()) return Annotate(token.status(), description_ + ": ");
  if (*token < 0 || *token >= static_cast<int64_t>(logits.size())) {
    return PluginError(absl::StrCat(description_, ": a stage left token ", *token,
                                    ", must be below ", logits.size(), " (the vocabulary)"));
  }
  return token;
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
  const size_t n = std::min(static_cast<size_t>(top_n), logits.size());
  for (const int32_t id : LargestIds(logits, n)) {
    stats.top.emplace_back(id, static_cast<float>(Weight(logits[id], max) / total));
  }
  return stats;
}

bool AllFinite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t found = 0;  // no early exit: the loop stays in vector lanes
  for (const float value : values) {
    found |= (std::bit_cast<uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
  }
  return found == 0;
}

}  // namespace ng
