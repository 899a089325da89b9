// CandidateSet: the tokens that may come next, with their logits, while the stages of a sampler
// chain narrow them.
//
// Made by the engine for each step, and by anybody else with a CandidateStorage; used by one thread
// ([step]). A wrong call (an argument or a state that REQUIRES excludes) is a mistake of the caller
// and throws std::logic_error with one line, which the host reports with the plugin's name.
#ifndef NG_CANDIDATE_SET_H_
#define NG_CANDIDATE_SET_H_

#include <cstdint>
#include <memory>
#include <span>

#include "ng/isa.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

struct Candidate {
  int32_t id = 0;
  float logit = 0.0F;  // finite when the chain begins; -infinity is a candidate never drawn
};

class __attribute__((visibility("hidden"))) DenseLogits;  // the engine's own

// The candidates of one step. A set begins dense: candidate i is token i. Every call below that is
// named Keep, Sort or Mask makes it sparse, unless its comment says that nothing changes.
//
// The storage belongs to whoever made the set and is used again for the next step; no call
// allocates. At first the candidates are no more than a row of logits, and the calls below work on
// that row in vector registers. items() makes a list of them, which is O(n) once. Over a large
// vocabulary a stage takes a tenth of the time if it does not list the candidates before few of
// them are left.
//
// A stage may write logits through items(). It must not write ids. It may move the candidates of a
// sparse set; those of a dense set only before a call that makes it sparse.
//
// A NaN is ordered before every number, and no call below but KeepFirst and KeepFrom removes one:
// a NaN must not get lost before somebody reports it.
class CandidateSet {
 public:
  // `storage` holds the candidates in order of id, ids 0..n-1. Borrowed.
  explicit CandidateSet(std::span<Candidate> storage) : items_(storage) {}

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
  // Copies the candidates to the front of `out` and returns how many there are. The set stays as it
  // is: it is not listed. O(n). REQUIRES: out.size() >= size().
  int64_t CopyTo(std::span<Candidate> out) const;

  // The logit of a token, to read and write, until the next call of anything else. O(1), after the
  // first O(n). REQUIRES: dense(), 0 <= id < size().
  float& LogitOf(int32_t id);
  // Divides every logit. O(n).
  void DivideBy(float divisor);

  // Orders the candidates by falling logit, equal logits by rising id. O(n log n).
  void SortByLogit();
  // Keeps exactly the `k` first candidates in that order (all when k >= size) and orders them.
  // O(n) + O(k log k), also in the worst case. REQUIRES: k >= 1.
  void KeepTop(int64_t k);
  // Keeps the first `n` of items(), as they lie. REQUIRES: 0 <= n <= size().
  void KeepFirst(int64_t n);
  // Removes the first `n` of items() and keeps the others, as they lie. REQUIRES: 0 <= n <= size().
  void KeepFrom(int64_t n);
  // Keeps the candidates whose logit is at least `bar`, in the order they have. O(n). Nothing
  // changes when all of them are. REQUIRES: bar is no NaN.
  void KeepAtLeast(double bar);
  // Keeps the fewest first candidates in the order of SortByLogit whose probabilities reach `p`, at
  // least one; their own order is not specified. O(n) but for logits within 1/16 of each other.
  // REQUIRES: MaxLogit() is ok, 0 < p < 1.
  void KeepMass(double p);
  // Keeps the fewest candidates whose logits are nearest to `centre`, of equal ones those of the
  // lowest ids, whose probabilities reach `p`, at least one; their own order is not specified. How
  // near one is is computed in f32. O(n) as KeepMass. REQUIRES: MaxLogit() is ok, 0 < p < 1.
  void KeepNear(double centre, double p);
  // Keeps the candidates whose bit is set, in the order they have: bit id % 64 of bits[id / 64].
  // Candidates at -infinity may go too. O(n); on a row of logits in vector registers, or O(n / 64)
  // when few bits are set. Nothing changes when all bits are set. `bits` is a mask over the
  // vocabulary, [ceil(vocab_size / 64)]; bits beyond it do not count. REQUIRES: `bits` has a word
  // for each candidate's id.
  void Mask(std::span<const uint64_t> bits);
  // Keeps the candidates with these ids, like Mask. An id that is no candidate is passed over.
  // REQUIRES: the ids rise, each is at least 0.
  void KeepIds(std::span<const int32_t> sorted_ids);

  // The largest logit; asking is also how a stage shows that a draw is possible. O(n).
  // Errors: NumericError when a logit is NaN or +infinity, or when none is above -infinity.
  absl::StatusOr<float> MaxLogit() const;

  // Figures of the candidates above -infinity. O(n) each, in vector registers on a row of logits.
  // Errors: MaxLogit's.
  //
  // log(sum of e^logit): minus this, a logit is the logarithm of the candidate's probability.
  absl::StatusOr<double> LogTotal() const;
  // The logit that a draw gives on average: the sum of probability * logit.
  absl::StatusOr<double> MeanDrawn() const;
  // The standard deviation of the logits, each counted once; infinite where squares of them leave
  // the range of f32.
  absl::StatusOr<double> Deviation() const;
  // Copies the candidates whose logit is at least `bar` to the front of `out`, in the order that
  // they have, and returns how many there are; those that do not fit are only counted. The set
  // stays as it is. O(n). REQUIRES: MaxLogit() is ok, bar > -infinity.
  int64_t CopyAtLeast(double bar, std::span<Candidate> out) const;

 private:
  friend class CandidateStorage;
  explicit CandidateSet(DenseLogits& logits) : logits_(&logits) {}

  void List() const {
    if (logits_ != nullptr) ListAll();
  }
  void ListAll() const;
  void Narrow(std::span<Candidate> listed);
  void KeepListedMass(double p, float max);
  void KeepListedNear(float centre, double p, float max);
  template <typename Keep>
  void KeepListed(Keep keep);

  mutable DenseLogits* logits_ = nullptr;  // until listed
  mutable std::span<Candidate> items_;     // from then on
  mutable bool dense_ = true;
};

// What the candidates of a step live in: made once for a vocabulary, used for every step. The
// engine's chain has one, and so has a program or a test that calls stages itself.
class CandidateStorage {
 public:
  // [load] Allocates all that the sets need. `isa` chooses the kernels.
  // REQUIRES: vocab_size >= 1, this CPU supports `isa`.
  explicit CandidateStorage(int64_t vocab_size, IsaLevel isa = IsaLevel::kScalar);
  ~CandidateStorage();
  CandidateStorage(const CandidateStorage&) = delete;
  CandidateStorage& operator=(const CandidateStorage&) = delete;

  int64_t vocab_size() const;
  // All tokens of a row of logits, not yet listed. The row is only read. It and the set are used
  // until the next Begin. REQUIRES: logits.size() == vocab_size().
  CandidateSet Begin(std::span<const float> logits);  // [vocab_size]

  DenseLogits& logits() { return *logits_; }  // for the engine

 private:
  std::unique_ptr<DenseLogits> logits_;
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_CANDIDATE_SET_H_
