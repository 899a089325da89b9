// SamplerStage: one step of the chain that turns logits into a choice.
//
// A stage narrows or reweights a set of candidates. The engine then draws one of what is left, by
// softmax over the remaining logits, with a counter-based generator keyed by (seed, sequence,
// step); one remaining candidate is taken without a draw. So a result never depends on what else
// is in the batch. Ties break to the lowest token id everywhere.
//
// Implemented by sampler plugins; called by the engine on its own thread ([step]). State belongs to
// a sequence: the engine numbers sequences from 0 and tells the stage when one begins, grows, is
// copied, shrinks and ends. A stage without state implements Apply alone.
#ifndef NG_SAMPLER_H_
#define NG_SAMPLER_H_

#include <cstdint>
#include <span>

#include "ng/status.h"

namespace ng {

struct Candidate {
  int32_t id = 0;
  float logit = 0.0F;  // finite when the chain begins; -infinity is a candidate never drawn
};

// The candidates of one step. It begins dense: candidate i is token i, so a stage can address a
// token's logit directly. Any call that removes candidates makes it sparse.
// The storage is the engine's, one array of the vocabulary's size, reused for every step; no call
// allocates. A stage may write logits through items(); it must not write ids, nor move candidates
// except before a call that removes some. A NaN is ordered before every number, so that it is never
// lost among the candidates removed.
class CandidateSet {
 public:
  // `storage` holds the candidates in order of id, ids 0..n-1.
  explicit CandidateSet(std::span<Candidate> storage) : items_(storage) {}

  std::span<Candidate> items() { return items_; }
  std::span<const Candidate> items() const { return items_; }
  int64_t size() const { return static_cast<int64_t>(items_.size()); }
  // True while no candidate has been removed or moved: items()[id].id == id.
  bool dense() const { return dense_; }

  // Orders the candidates by falling logit, equal logits by rising id. O(n log n).
  void SortByLogit();
  // Keeps exactly the `k` first candidates in that order (all when k >= size) and orders them.
  // O(n) + O(k log k), also in the worst case. REQUIRES: k >= 1.
  void KeepTop(int64_t k);
  // Keeps the first `n` of items(), as they lie. REQUIRES: 1 <= n <= size().
  void KeepFirst(int64_t n);
  // Keeps the candidates whose logit is at least `bar`, in the order they have. O(n).
  // REQUIRES: there is one.
  void KeepAtLeast(double bar);

  // The largest logit; asking is also how a stage shows that a draw is possible. O(n).
  // Errors: NumericError when a logit is NaN or +infinity, or when all are -infinity.
  absl::StatusOr<float> MaxLogit() const;

 private:
  std::span<Candidate> items_;
  bool dense_ = true;
};

class SamplerStage {
 public:
  virtual ~SamplerStage() = default;

  // A sequence begins with these tokens. `slot` is free to be used again after Close.
  virtual absl::Status Open(int slot, std::span<const int32_t> prompt_ids) {
    (void)slot, (void)prompt_ids;
    return absl::OkStatus();
  }
  // `token` was appended to the sequence.
  virtual void Accept(int slot, int32_t token) { (void)slot, (void)token; }
  // `to` begins as a copy of `from`. (Fork and Truncate come with forked and rolled back sequences;
  // the generate loop does neither yet.)
  virtual absl::Status Fork(int from, int to) {
    (void)from, (void)to;
    return absl::OkStatus();
  }
  // The sequence is cut back to its first `n_tokens` tokens, prompt included.
  virtual void Truncate(int slot, int64_t n_tokens) { (void)slot, (void)n_tokens; }
  virtual void Close(int slot) { (void)slot; }

  // Narrows or reweights. At least one candidate remains, each logit finite or -infinity, and one
  // of them finite. Errors: NumericError, in one line, when that cannot be: a logit is NaN or
  // +infinity, or nothing drawable would remain. REQUIRES: candidates is not empty.
  virtual absl::Status Apply(int slot, CandidateSet& candidates) = 0;
};

}  // namespace ng

#endif  // NG_SAMPLER_H_
