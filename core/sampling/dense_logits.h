// The candidates of a step while they are still the row of logits that the model put out: what lies
// behind a CandidateSet until few of them are left or somebody asks for a list.
//
// Used by CandidateSet and by the draw at the end of a chain, on the engine's thread. Works on
// blocks of kLogitBlock logits, with the kernels of one ISA level; nothing allocates after the
// constructor. What is removed becomes -infinity in a copy of the row.
#ifndef NG_CORE_SAMPLING_DENSE_LOGITS_H_
#define NG_CORE_SAMPLING_DENSE_LOGITS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "ng/candidate_set.h"

namespace ng {

class DenseLogits {
 public:
  DenseLogits(const KernelTable& kernels, int64_t vocab_size);

  // A step begins. The logits are only read, until the next Begin.
  void Begin(std::span<const float> logits);  // [vocab_size]

  int64_t vocab_size() const { return row_.n; }
  int64_t size() const { return size_; }  // how many are left
  bool whole() const { return size_ == row_.n; }

  // The largest logit; nothing if there is a NaN or +infinity, or nothing but -infinity.
  std::optional<float> Max();
  // Whether Max() has a value. Costs less than asking for it.
  bool Drawable() { return unsettled_ || Max().has_value(); }
  // To read and write. REQUIRES: whole().
  float& At(int32_t id);
  void DivideBy(float divisor);

  // What is left, listed in order of id. What is listed is no longer here.
  std::span<Candidate> List();
  // Copies what is left, in order of id, and returns how many there are. REQUIRES: there is room.
  int64_t CopyTo(std::span<Candidate> out);
  // At least those that would come first, k of them, were all sorted by falling logit and rising
  // id; listed in order of id. REQUIRES: 1 <= k < size().
  std::span<Candidate> ListTop(int64_t k);

  // Narrow to the logits of at least `bar`; or to the fewest of the sorted order whose weights
  // reach the share p of all. If what is left is few it is listed, in order of id, else an empty
  // list is returned. REQUIRES: Max() has a value; some logit reaches bar > -infinity; 0 < p < 1.
  std::span<Candidate> KeepAtLeast(float bar);
  std::span<Candidate> KeepMass(double p);

  // Narrow to the fewest whose logits are nearest to `centre`, of equal ones the lowest ids, whose
  // weights reach the share p of all; as KeepMass in all else.
  std::span<Candidate> KeepNear(float centre, double p);

  // Of the logits above -infinity: log(sum of e^logit); the mean of the logits, each as often as it
  // is drawn; their standard deviation, each counted once. REQUIRES: Max() has a value.
  double LogTotal();
  double MeanDrawn();
  double Deviation();
  // Copies those of at least `bar`, in order of id, and returns how many there are; copies no more
  // than fit. REQUIRES: Max() has a value, bar > -infinity.
  int64_t CopyAtLeast(float bar, std::span<Candidate> out);

  // Narrow to the tokens whose bit is set in a mask, or to these ids, which rise. Few of them are
  // listed, in order of id; else an empty list is returned, and it is all that is left if size() is
  // then 0. REQUIRES: Max() has a value.
  std::span<Candidate> KeepMarked(std::span<const uint64_t> bits);  // a bit for each token
  std::span<Candidate> KeepIds(std::span<const int32_t> ids);

  // The token at `uniform` in the cumulative softmax, in order of id; weights are f32, added within
  // blocks first. REQUIRES: Drawable(), 0 <= uniform < 1.
  int32_t Draw(double uniform);

 private:
  // Of the logits in order: those from `low` to below `high`, and the mass of those above.
  struct Band {
    float low;
    float high;
    double mass_above;
  };

  void Changed();
  void Settle();
  void Look();
  void Looked();
  void Own();
  double Weigh();
  double WeighToDraw();
  bool AllReach(float bar) const;
  std::span<Candidate> Keep(float bar, int64_t n_ties);
  std::span<Candidate> Collect(float bar, int64_t n_ties);
  std::span<Candidate> ListMarked(std::span<const uint64_t> bits);
  std::span<Candidate> KeepOwnMarks();
  bool HasFewBlocks(float bar) const;
  void DropTies(float bar, int64_t n_ties);
  // What is looked for: where the mass of the row's largest logits reaches the goal, to a width.
  struct Search {
    LogitRow row;  // row_, or another row with its weights
    double total;
    double goal;
    double width;
  };
  int FirstToReach(const Search& search, const float* bars, int64_t every,
                   double* mass_above) const;
  void Narrow(const Search& search, const float* bars, int64_t every, Band* band) const;
  void Divide(const Search& search, int64_t every, Band* band) const;
  Band Estimate(const Search& search, Band band) const;
  Band FindBand(const Search& search, Band band) const;
  std::span<Candidate> ListBand(const Band& band);
  std::span<Candidate> Ordered(int64_t n);
  size_t CountToGoal(std::span<const Candidate> listed, double mass, double goal) const;
  double RangeOfMass(double p) const;
  // What KeepNear looks for lies in one of kNearParts parts of the order: between two edges.
  struct Edges {
    float low;
    float high;
    float At(int edge) const;  // falls as `edge` rises from -1 to kNearParts - 1
  };
  struct Parts {
    int first;  // the mass above this edge is below the goal; -1: there is none above
    int last;   // and above this one it is not
    double mass_above;
  };
  void NarrowParts(const Search& search, const Edges& edges, std::span<const int> tried,
                   Parts* parts) const;
  void ProveParts(const Search& search, const Edges& edges, int guess, Parts* parts) const;
  void DivideParts(const Search& search, const Edges& edges, Parts* parts) const;
  int GuessPart(const Search& search, const Edges& edges);
  Search SampleNear(const Search& search);
  float HeavyBar();
  void MarkFirst(int64_t n);
  bool MarkAbout(const Search& search, const Edges& edges, int guess, Parts* parts);
  int64_t TakeInBuckets(int64_t n, const Band& band, double goal);
  void MarkNearest(float centre, const Band& band, double goal);
  int64_t CountBest() const;
  int64_t BlockEnd(int64_t block) const;

  const KernelTable* kernels_;
  LogitRow row_;  // the logits are the model's row or own_, the rest lies below
  int64_t size_ = 0;
  std::vector<float> own_;  // [n]: the row once it has been changed
  // What is known of the row, until it changes.
  bool looked_ = false;    // the next two and block_max_
  bool drawable_ = false;  // no NaN, no +infinity
  float max_ = 0.0F;
  bool weighed_ = false;     // weights_ and block_sums_
  float weighed_by_ = 0.0F;  // the best logit when they were made
  std::vector<float> block_max_;
  std::vector<float> weights_;  // e^(logit - weighed_by_)
  std::vector<float> block_sums_;
  std::vector<float> order_;           // [n_blocks]
  std::vector<float> sample_;          // [n]: some of the row's logits
  std::vector<float> sample_weights_;  // [n]: theirs, as the sum of those they stand for
  std::vector<int32_t> ids_;           // [n]
  std::vector<uint64_t> marks_;        // [n_blocks]: a bit for each token
  bool unsettled_ = false;             // the weights are those of marks_, the row is not yet
  std::vector<uint64_t> within_;       // [n_blocks]: a bit for each token
  std::vector<Candidate> candidates_;  // [n]
};

}  // namespace ng

#endif  // NG_CORE_SAMPLING_DENSE_LOGITS_H_
