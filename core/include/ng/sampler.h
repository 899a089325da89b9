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
#include <string>

#include "ng/status.h"

namespace ng {

struct Candidate {
  int32_t id = 0;
  float logit = 0.0F;  // finite when the chain begins; -infinity is a candidate never drawn
};

class DenseLogits;  // the engine's own

// The candidates of one step. It begins dense: candidate i is token i. Any call that removes
// candidates makes it sparse.
// The storage is the engine's, reused for every step; no call allocates. At first the candidates
// are no more than the model's row of logits, and the calls below work on that row in vector
// registers. items() makes a list of them, O(n) when that is still to be done: over a large
// vocabulary a stage that can do without it, until few are left, takes a tenth of the time. A stage
// may write logits through items(); it must not write ids, nor move candidates except before a call
// that removes some. A NaN is ordered before every number, so that it is never lost among the
// candidates removed.
class CandidateSet {
 public:
  // `storage` holds the candidates in order of id, ids 0..n-1.
  explicit CandidateSet(std::span<Candidate> storage) : items_(storage) {}
  // All tokens of a row of logits, not yet listed. Borrowed.
  explicit CandidateSet(DenseLogits& logits) : logits_(&logits) {}

  std::span<Candidate> items() {
    List();
    return items_;
  }
  std::span<const Candidate> items() const {
    List();
    return items_;
  }
  int64_t size() const;
  // True while no candidate has been removed or moved: items()[id].id == id.
  bool dense() const;
  // True once the candidates have been listed.
  bool listed() const { return logits_ == nullptr; }

  // The logit of a token, to read and write, until the next call of anything else. O(1), after the
  // first O(n). REQUIRES: dense().
  float& LogitOf(int32_t id);
  // Divides every logit. O(n).
  void DivideBy(float divisor);

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
  // Keeps the fewest first candidates in the order of SortByLogit whose probabilities reach `p`, at
  // least one; their own order is not specified. O(n) but for logits within 1/16 of each other.
  // REQUIRES: MaxLogit() is ok, 0 < p < 1.
  void KeepMass(double p);

  // The largest logit; asking is also how a stage shows that a draw is possible. O(n).
  // Errors: NumericError when a logit is NaN or +infinity, or when all are -infinity.
  absl::StatusOr<float> MaxLogit() const;

 private:
  void List() const {
    if (logits_ != nullptr) ListAll();
  }
  void ListAll() const;
  void Narrow(std::span<Candidate> listed);
  void KeepListedMass(double p);

  mutable DenseLogits* logits_ = nullptr;  // until listed
  mutable std::span<Candidate> items_;     // from then on
  mutable bool dense_ = true;
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

  // [load] One line for the end of a run: what the stage has to say about what it did. Empty:
  // nothing.
  virtual std::string Report() const { return {}; }
};

}  // namespace ng

#endif  // NG_SAMPLER_H_
