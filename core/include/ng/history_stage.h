// Sampler stages that remember something of each token of their sequences: bases to derive from.
// They follow a sequence through Open, Fork, Truncate and Close; the stage writes Apply.
//
//   class MyStage final : public ng::TokenHistoryStage {        // remembers the tokens' ids
//     absl::Status Apply(int slot, const ng::DrawKey& key, ng::CandidateSet& set) override {
//       for (const int32_t id : History(slot)) ...               // prompt and answer
//     }
//   };
//
//   class MyStage final : public ng::HistoryStage<State> {      // remembers a State behind each
//     absl::StatusOr<ng::SequenceEnd> Accept(int slot, int32_t token) override {
//       Remember(slot, NextState(Last(slot), token));
//       return ng::SequenceEnd::kNo;
//     }
//     ...
//   };
//
// While the model's context is bounded, nothing is allocated between Open and Close.
#ifndef NG_HISTORY_STAGE_H_
#define NG_HISTORY_STAGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ng/plugin.h"
#include "ng/sampler.h"

namespace ng {

template <class T>
class HistoryStage : public SamplerStage {
 public:
  // Each token of the prompt is remembered as `start`.
  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override {
    Empty(slot, prompt_ids.size()).assign(prompt_ids.size(), start_);
    return absl::OkStatus();
  }
  absl::Status Fork(int from, int to) override {
    std::vector<T>& copy = Empty(to, History(from).size());
    copy.assign(History(from).begin(), History(from).end());
    return absl::OkStatus();
  }
  absl::Status Truncate(int slot, int64_t n_tokens) override {
    std::vector<T>& values = slots_[static_cast<size_t>(slot)];
    values.erase(values.begin() + n_tokens, values.end());
    return absl::OkStatus();
  }
  absl::Status Close(int slot) override {
    slots_[static_cast<size_t>(slot)].clear();
    return absl::OkStatus();
  }

 protected:
  explicit HistoryStage(const ModelShape& model, T start = T())
      : max_positions_(model.max_positions), start_(std::move(start)) {}

  // What is remembered, token by token, of prompt and answer. REQUIRES: Open(slot) was called (here
  // and below).
  std::span<const T> History(int slot) const { return slots_[static_cast<size_t>(slot)]; }
  // The last of them; `start` where there is none.
  const T& Last(int slot) const {
    const std::span<const T> values = History(slot);
    return values.empty() ? start_ : values.back();
  }
  // How many tokens the slot can remember before it allocates.
  size_t Room(int slot) const { return slots_[static_cast<size_t>(slot)].capacity(); }
  // For Accept: what is remembered of the token.
  void Remember(int slot, T value) {
    slots_[static_cast<size_t>(slot)].push_back(std::move(value));
  }

  // The slot's values, none yet, with room for `n_tokens` and for what may follow them.
  std::vector<T>& Empty(int slot, size_t n_tokens) {
    constexpr size_t kHeadroom = 4096;
    const auto index = static_cast<size_t>(slot);
    if (index >= slots_.size()) slots_.resize(index + 1);
    slots_[index].clear();
    // One more than the context: the last token generated is never fed back.
    slots_[index].reserve(max_positions_ > 0
                              ? std::max(n_tokens, static_cast<size_t>(max_positions_) + 1)
                              : n_tokens + kHeadroom);
    return slots_[index];
  }

 private:
  const int64_t max_positions_;  // 0: unbounded
  const T start_;
  std::vector<std::vector<T>> slots_;  // [slot][token]
};

// Remembers the ids themselves.
class TokenHistoryStage : public HistoryStage<int32_t> {
 public:
  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override {
    Empty(slot, prompt_ids.size()).assign(prompt_ids.begin(), prompt_ids.end());
    return absl::OkStatus();
  }
  absl::StatusOr<SequenceEnd> Accept(int slot, int32_t token) override {
    Remember(slot, token);
    return SequenceEnd::kNo;
  }

 protected:
  explicit TokenHistoryStage(const ModelShape& model)
      : HistoryStage(model), vocab_size_(model.vocab_size) {}

  // For the Open of a stage that counts by id. Errors: UsageError with the stage's name for a token
  // outside the vocabulary.
  absl::Status CheckPrompt(const std::string& stage, std::span<const int32_t> prompt_ids) const {
    for (const int32_t id : prompt_ids) {
      if (id >= 0 && id < vocab_size_) continue;
      return UsageError(stage + ": prompt token " + std::to_string(id) + ", must be in [0, " +
                        std::to_string(vocab_size_) + ") (the vocabulary)");
    }
    return absl::OkStatus();
  }
  // The last `window` tokens of prompt and answer; 0: all.
  std::span<const int32_t> Recent(int slot, int64_t window) const {
    const std::span<const int32_t> all = History(slot);
    const bool whole = window == 0 || window >= static_cast<int64_t>(all.size());
    return whole ? all : all.last(static_cast<size_t>(window));
  }

 private:
  const int64_t vocab_size_;
};

}  // namespace ng

#endif  // NG_HISTORY_STAGE_H_
