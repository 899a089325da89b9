// A sequence that is fed step by step, and how many tokens its cache holds meanwhile.
#ifndef NG_APPS_EVAL_MEASURE_HELD_H_
#define NG_APPS_EVAL_MEASURE_HELD_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ng/engine.h"
#include "ng/status.h"

namespace ng::eval {

// The engine is borrowed, and no other sequence of it is fed while this one is. The destructor
// closes the sequence.
class HeldSequence {
 public:
  explicit HeldSequence(Engine& engine) : engine_(engine) {}
  ~HeldSequence();
  HeldSequence(const HeldSequence&) = delete;
  HeldSequence& operator=(const HeldSequence&) = delete;

  absl::Status Open(int64_t capacity);
  // Where the cache lets tokens go at the end of a context: it has so many tokens.
  absl::Status SetContext(int64_t n_tokens);
  // As Engine::SetKeepRule.
  absl::Status SetRule(const std::string& rule);
  // The tokens of `other`, which is of the same engine.
  absl::Status Fork(const HeldSequence& other, int64_t capacity);

  // Feeds tokens, run.prefill_chunk of them at a time and never past a place where others leave.
  // Returns the logits of the last one, [vocab_size], until the next step of the engine. Errors:
  // NumericError; InterruptedError; those of the engine. REQUIRES: at least one token.
  absl::StatusOr<std::span<const float>> Feed(std::span<const int32_t> tokens,
                                              const std::atomic<bool>* stop);

  int64_t length() const { return length_; }
  int64_t held() const { return held_; }  // tokens
  int64_t peak() const { return peak_; }  // the most that were held

 private:
  Engine& engine_;
  std::optional<SequenceId> sequence_;
  int64_t length_ = 0;
  int64_t held_ = 0;
  int64_t peak_ = 0;
};

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_MEASURE_HELD_H_
