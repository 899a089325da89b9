// A model without arithmetic, for tests of the generate loop.
#ifndef NG_TESTS_CORE_RUNTIME_DUMMY_MODEL_H_
#define NG_TESTS_CORE_RUNTIME_DUMMY_MODEL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "core/model/step/language_model.h"

namespace ng::test {

// Knows the tokens of each sequence and nothing else. The logits after n tokens peak at `peak(n)`.
class DummyModel final : public LanguageModel {
 public:
  static constexpr int64_t kVocab = 8;

  explicit DummyModel(std::function<int32_t(int64_t n_tokens)> peak) : peak_(std::move(peak)) {
    shape_.n_layers = 1;
    shape_.n_heads = 1;
    shape_.vocab_size = kVocab;
    shape_.max_positions = 32;
  }

  const ModelShape& shape() const override { return shape_; }
  absl::StatusOr<SequenceId> OpenSequence(std::span<const int32_t> prompt,
                                          int64_t capacity) override {
    if (capacity_.size() == room_) return LimitError("full");
    const SequenceId id = next_id_++;
    tokens_[id] = FindShared(prompt);
    capacity_[id] = capacity;
    most_open_ = std::max(most_open_, capacity_.size());
    return id;
  }
  void CloseSequence(SequenceId sequence) override { capacity_.erase(sequence); }
  int64_t Length(SequenceId sequence) const override {
    const auto tokens = tokens_.find(sequence);
    return tokens == tokens_.end() ? 0 : static_cast<int64_t>(tokens->second.size());
  }
  int64_t Capacity(SequenceId sequence) const override { return capacity_.at(sequence); }
  absl::Status Truncate(SequenceId sequence, int64_t length) override {
    tokens_[sequence].resize(static_cast<size_t>(length));
    return absl::OkStatus();
  }
  int64_t share_tokens() const override { return share_tokens_; }
  absl::Status Forward(const StepBatch& batch) override {
    logits_.clear();
    batch_sizes_.push_back(static_cast<int64_t>(batch.sequences.size()));
    for (const StepSequence& s : batch.sequences) {
      std::vector<int32_t>& tokens = tokens_[s.sequence];
      EXPECT_EQ(s.start_pos, static_cast<int64_t>(tokens.size()));
      tokens.insert(tokens.end(), s.tokens.begin(), s.tokens.end());
      EXPECT_LE(static_cast<int64_t>(tokens.size()), capacity_.at(s.sequence));
      fed_.push_back(static_cast<int64_t>(s.tokens.size()));
      for (int64_t row = s.n_logit_rows; row-- > 0;) {
        std::vector<float> logits(kVocab, 0.0F);
        const int32_t peak = peak_(static_cast<int64_t>(tokens.size()) - row);
        logits[static_cast<size_t>(std::max(0, peak))] = peak < 0 ? NAN : 1.0F;
        logits_.insert(logits_.end(), logits.begin(), logits.end());
      }
    }
    if (after_forward) after_forward();
    return absl::OkStatus();
  }
  TensorView<const float, 2> logits() const override {
    return {logits_.data(), {static_cast<int64_t>(logits_.size()) / kVocab, kVocab}};
  }

  double read_s() const override { return read_s_; }
  // So much of the step at hand was reading weights.
  void Read(double seconds) { read_s_ += seconds; }

  // From now on so many sequences have room; prefixes are shared in such pieces.
  void SetRoom(size_t n_sequences) { room_ = n_sequences; }
  void Share(int64_t tokens) { share_tokens_ = tokens; }

  size_t n_open() const { return capacity_.size(); }
  size_t most_open() const { return most_open_; }
  const std::vector<int64_t>& fed() const { return fed_; }
  const std::vector<int64_t>& batch_sizes() const { return batch_sizes_; }
  std::function<void()> after_forward;

 private:
  std::function<int32_t(int64_t)> peak_;
  ModelShape shape_;
  SequenceId next_id_ = 0;
  // The most that any sequence so far has in common with the prompt.
  std::vector<int32_t> FindShared(std::span<const int32_t> prompt) const {
    size_t n_shared = 0;
    for (const auto& [id, tokens] : tokens_) {
      size_t n = 0;
      while (n + 1 < prompt.size() && n < tokens.size() && tokens[n] == prompt[n]) ++n;
      const auto piece = static_cast<size_t>(std::max<int64_t>(1, share_tokens_));
      if (share_tokens_ > 0) n_shared = std::max(n_shared, n / piece * piece);
    }
    return {prompt.begin(), prompt.begin() + static_cast<int64_t>(n_shared)};
  }

  size_t room_ = std::numeric_limits<size_t>::max();
  double read_s_ = 0.0;
  int64_t share_tokens_ = 0;
  size_t most_open_ = 0;
  std::map<SequenceId, int64_t> capacity_;
  std::map<SequenceId, std::vector<int32_t>> tokens_;
  std::vector<float> logits_;
  std::vector<int64_t> fed_;
  std::vector<int64_t> batch_sizes_;
};

}  // namespace ng::test

#endif  // NG_TESTS_CORE_RUNTIME_DUMMY_MODEL_H_
