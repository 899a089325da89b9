#include "plugins/sampler/mirostat/mirostat.h"

#include <algorithm>
#include <numbers>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {

absl::StatusOr<std::unique_ptr<SamplerStage>> Mirostat::Create(const MirostatOptions& options,
                                                               const ModelShape& model) {
  if (!(options.tau > 0.0 && options.tau <= 100.0)) {
    return UsageError(
        absl::StrCat("sampler.mirostat.tau = ", options.tau, ", must be in (0, 100]"));
  }
  if (!(options.eta >= 0.0 && options.eta <= 10.0)) {
    return UsageError(absl::StrCat("sampler.mirostat.eta = ", options.eta, ", must be in [0, 10]"));
  }
  return absl::WrapUnique(new Mirostat(options, model));
}

Mirostat::Mirostat(const MirostatOptions& options, const ModelShape& model)
    : HistoryStage(model, 2 * options.tau), options_(options), vocab_size_(model.vocab_size) {}

// With room for all tokens: a step must not allocate.
Mirostat::Left& Mirostat::LeftOf(int slot) {
  const auto index = static_cast<size_t>(slot);
  if (index >= left_.size()) left_.resize(index + 1);
  left_[index].items.resize(vocab_size_);
  return left_[index];
}

absl::Status Mirostat::Open(int slot, std::span<const int32_t> prompt_ids) {
  LeftOf(slot).n = 0;
  return HistoryStage::Open(slot, prompt_ids);
}

absl::Status Mirostat::Fork(int from, int to) {
  LeftOf(to).n = 0;
  Left& copy = left_[static_cast<size_t>(to)];
  const Left& left = left_[static_cast<size_t>(from)];
  std::copy_n(left.items.begin(), left.n, copy.items.begin());
  copy.n = left.n;
  copy.log_total = left.log_total;
  return HistoryStage::Fork(from, to);
}

absl::Status Mirostat::Truncate(int slot, int64_t n_tokens) {
  left_[static_cast<size_t>(slot)].n = 0;
  return HistoryStage::Truncate(slot, n_tokens);
}

absl::Status Mirostat::Apply(int slot, const DrawKey& /*key*/, CandidateSet& candidates) {
  NG_ASSIGN_OR_RETURN(const float max, candidates.MaxLogit());
  NG_ASSIGN_OR_RETURN(const double log_total, candidates.LogTotal());
  // -log2 p <= mu, as a bar for the logit.
  const double bar = log_total - Last(slot) * std::numbers::ln2;
  candidates.KeepAtLeast(std::min(bar, double{max}));
  Left& left = left_[static_cast<size_t>(slot)];
  left.n = candidates.CopyTo(left.items);
  NG_ASSIGN_OR_RETURN(left.log_total, candidates.LogTotal());
  return absl::OkStatus();
}

absl::StatusOr<SequenceEnd> Mirostat::Accept(int slot, int32_t token) {
  Left& left = left_[static_cast<size_t>(slot)];
  const std::span<const Candidate> items = std::span(left.items).first(left.n);
  left.n = 0;  // one token is drawn of them
  double mu = Last(slot);
  // Where all tokens are left, or the first of them, each is at the place of its id.
  const auto place = std::min(static_cast<size_t>(token), items.size());
  const auto drawn = place < items.size() && items[place].id == token
                         ? items.begin() + static_cast<std::ptrdiff_t>(place)
                         : std::ranges::find(items, token, &Candidate::id);
  if (drawn != items.end()) {
    const double surprise = (left.log_total - drawn->logit) / std::numbers::ln2;
    mu -= options_.eta * (surprise - options_.tau);
  }
  Remember(slot, mu);
  return SequenceEnd::kNo;
}

}  // namespace ng
