#include "plugins/sampler/dry/dry.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {

absl::StatusOr<std::unique_ptr<SamplerStage>> Dry::Create(const DryOptions& options,
                                                          const PluginContext& context) {
  const auto refuse = [](const char* name, auto value, const char* allowed) {
    return UsageError(absl::StrCat("sampler.dry.", name, " = ", value, ", must be ", allowed));
  };
  if (!(options.multiplier >= 0.0 && options.multiplier <= 100.0)) {
    return refuse("multiplier", options.multiplier, "in [0, 100]");
  }
  if (!(options.base >= 1.0 && options.base <= 10.0)) {
    return refuse("base", options.base, "in [1, 10]");
  }
  if (options.allowed < 1 || options.allowed > std::numeric_limits<int32_t>::max()) {
    return refuse("allowed", options.allowed, "in [1, 2147483647]");
  }
  if (options.window < 0) return refuse("window", options.window, "at least 0 (0: all tokens)");
  return absl::WrapUnique(new Dry(options, context));
}

Dry::Dry(const DryOptions& options, const PluginContext& context)
    : TokenHistoryStage(context.model),
      multiplier_(options.multiplier),
      base_(options.base),
      allowed_(static_cast<int32_t>(options.allowed)),
      window_(options.window),
      breaks_(context.model.vocab_size),
      repeated_(context.model.vocab_size) {
  for (size_t id = 0; id < context.token_bytes.size(); ++id) {
    for (const std::string_view text : options.breakers) {
      if (context.token_bytes[id].find(text) != std::string_view::npos) breaks_[id] = 1;
    }
  }
}

absl::Status Dry::Open(int slot, std::span<const int32_t> prompt_ids) {
  NG_RETURN_IF_ERROR(CheckPrompt("dry", prompt_ids));
  NG_RETURN_IF_ERROR(TokenHistoryStage::Open(slot, prompt_ids));
  // As much as the history has room for: a step must not allocate.
  matches_.reserve(Room(slot));
  following_.reserve(Room(slot));
  return absl::OkStatus();
}

// The Z algorithm from the end: matches_[k] is how many of the last tokens are also those up to k
// tokens before the end. A prefix that was compared before is not compared again, so all of it is
// linear.
void Dry::FindRepetitions(std::span<const int32_t> recent) {
  const auto n = static_cast<int32_t>(recent.size());
  const auto back = [&](int32_t i) { return recent[static_cast<size_t>(n - 1 - i)]; };
  int32_t limit = 0;  // tokens behind the last breaker
  while (limit < n && breaks_[back(limit)] == 0) ++limit;
  if (limit < allowed_) return;
  matches_.assign(recent.size(), 0);
  int32_t begin = 0;  // of the match that reaches farthest back
  int32_t end = 0;
  for (int32_t k = 1; k < n; ++k) {
    int32_t& match = matches_[static_cast<size_t>(k)];
    if (k < end) match = std::min(end - k, matches_[static_cast<size_t>(k - begin)]);
    while (match < limit && k + match < n && back(match) == back(k + match)) ++match;
    if (k + match > end) {
      begin = k;
      end = k + match;
    }
    const int32_t next = back(k - 1);
    if (match < allowed_ || breaks_[next] != 0) continue;
    if (repeated_[next] == 0) following_.push_back(next);
    repeated_[next] = std::max(repeated_[next], match);
  }
}

float Dry::Penalty(int32_t repeated) const {
  constexpr double kMost = std::numeric_limits<float>::max();
  if (repeated == 0) return 0.0F;
  return static_cast<float>(std::min(kMost, multiplier_ * std::pow(base_, repeated - allowed_)));
}

absl::Status Dry::Apply(int slot, const DrawKey& /*key*/, CandidateSet& candidates) {
  if (multiplier_ > 0.0) FindRepetitions(Recent(slot, window_));
  if (candidates.dense()) {
    for (const int32_t id : following_) candidates.LogitOf(id) -= Penalty(repeated_[id]);
  } else if (!following_.empty()) {
    for (Candidate& candidate : candidates.items()) {
      candidate.logit -= Penalty(repeated_[candidate.id]);
    }
  }
  for (const int32_t id : following_) repeated_[id] = 0;
  following_.clear();
  const absl::Status status = candidates.MaxLogit().status();
  return status.ok() ? status : Annotate(status, "after the penalties of sampler.dry: ");
}

}  // namespace ng
