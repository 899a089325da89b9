// LanguageModel: ids -> logits, with the sequences it keeps in its cache.
//
// What the generate loop drives. The decoder implements it; a test can put anything in its place.
#ifndef NG_CORE_MODEL_STEP_LANGUAGE_MODEL_H_
#define NG_CORE_MODEL_STEP_LANGUAGE_MODEL_H_

#include <cstdint>
#include <limits>
#include <span>

#include "core/model/step/step_batch.h"
#include "ng/plugin.h"
#include "ng/request.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

namespace ng {

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual const ModelShape& shape() const = 0;

  // Sequences, as CacheStore has them. One that is opened for a prompt may hold some of its tokens
  // already; without a prompt it is empty.
  virtual absl::StatusOr<SequenceId> OpenSequence(std::span<const int32_t> prompt,
                                                  int64_t capacity) = 0;
  virtual void CloseSequence(SequenceId sequence) = 0;
  virtual int64_t Length(SequenceId sequence) const = 0;
  virtual int64_t Capacity(SequenceId sequence) const = 0;
  virtual absl::Status Truncate(SequenceId sequence, int64_t length) = 0;
  // CachePlan::share_tokens.
  virtual int64_t share_tokens() const = 0;
  // The most tokens of a sequence in a step that begins behind `begin` of them, because the cache
  // changes there (CachePlan::ToBoundary).
  virtual int64_t ToBoundary(SequenceId sequence, int64_t begin) const {
    (void)sequence, (void)begin;
    return std::numeric_limits<int64_t>::max();
  }
  // CachePlan::mark.
  virtual bool wants_context() const { return false; }
  // The first tokens of a sequence that are its context, as ContextMark has it; where the cache
  // does not ask, nothing happens, and no sequence has one.
  virtual absl::Status SetContext(SequenceId sequence, int64_t n_tokens) {
    (void)sequence, (void)n_tokens;
    return absl::OkStatus();
  }
  virtual int64_t Context(SequenceId sequence) const {
    (void)sequence;
    return 0;
  }
  // How many tokens of a sequence have left the cache, of all layers together.
  virtual int64_t Gone(SequenceId sequence) const {
    (void)sequence;
    return 0;
  }
  // Those that are held, by layer and kv head.
  virtual HeldPositions Held(SequenceId sequence) const {
    (void)sequence;
    return {};
  }

  // Whether the attention backend tells what it did not read (StepBatch::missed).
  virtual bool tells_missed() const { return false; }

  // Appends the step's tokens and computes the logits asked for. On an error (an interruption
  // too) every length is as it was. REQUIRES: token ids are inside the vocabulary.
  virtual absl::Status Forward(const StepBatch& batch) = 0;

  // Seconds of all steps so far in which weights were read, and nothing computed.
  virtual double read_s() const { return 0.0; }

  // The last step's logits, in the order of its sequences; valid until the next.
  virtual TensorView<const float, 2> logits() const = 0;  // [sum of n_logit_rows, vocab_size]
};

}  // namespace ng

#endif  // NG_CORE_MODEL_STEP_LANGUAGE_MODEL_H_
