// How many tokens to draft of each sequence: as many as gain time. What a step of so many rows
// takes is measured while the run goes on, and so is how often a sequence's drafts are kept. Where
// drafts would lose, nothing is drafted but a token now and then, to notice when that changes.
//
// The lengths change the speed of a run and nothing else.
#ifndef NG_CORE_RUNTIME_LOOP_DRAFT_LENGTHS_H_
#define NG_CORE_RUNTIME_LOOP_DRAFT_LENGTHS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ng {

// How long a step takes, by its rows.
class StepTimes {
 public:
  explicit StepTimes(int most_rows) : times_(static_cast<size_t>(most_rows) + 1) {}

  // A step of so many rows has taken `seconds`. The first one of a size is left out: it makes
  // room for its rows.
  void Add(int rows, double seconds);
  // What one will take. Sizes that have not been seen are taken to be cheap, so that they are
  // tried. REQUIRES: 1 <= rows <= most_rows.
  double Of(int rows) const;
  // Whether a step of so many rows, or of less, has been measured.
  bool KnowsUpTo(int rows) const;

 private:
  struct Time {
    bool seen = false;
    double seconds = 0.0;  // 0: not known
  };
  std::vector<Time> times_;  // [1 + most_rows], by rows
};

// How often the drafted tokens of a sequence are kept, the latest ones counting most.
class KeptShare {
 public:
  // So many of a draft were kept; the one behind them was not, if there was one.
  void Add(int64_t n_kept, int64_t n_drafted);
  double value() const { return (kept_ + kGuess * kGuessed) / (tried_ + kGuessed); }

 private:
  void AddOne(double kept);

  static constexpr double kGuess = 0.5;    // before anything is known,
  static constexpr double kGuessed = 0.5;  // which counts as so many tokens
  double kept_ = 0.0;
  double tried_ = 0.0;
};

// A sequence that may be drafted for.
struct DraftChoice {
  double share = 0.0;    // KeptShare::value
  int64_t most = 0;      // tokens that may be drafted
  int64_t n_quiet = 0;   // steps since it was drafted for
  int64_t n_tokens = 0;  // what is chosen
};

class DraftLengths {
 public:
  // Allocates all that Choose needs.
  DraftLengths(int max_sequences, int gamma);

  StepTimes& times() { return times_; }
  // A draft of so many tokens took the drafter so long.
  void AddDrafting(int64_t n_tokens, double seconds);

  // Chooses n_tokens of each, for a step that feeds `choices` one token each besides.
  void Choose(std::span<DraftChoice> choices);

 private:
  struct Gain {
    double tokens = 0.0;  // the chance that this one and all before it are kept
    size_t choice = 0;
  };
  // Steps after which a sequence without drafts is tried again.
  int64_t QuietSteps(int rows) const;

  const int64_t gamma_;
  StepTimes times_;
  double seconds_each_ = 0.0;  // to draft a token
  std::vector<Gain> gains_;    // [max_sequences * gamma] at most
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_LOOP_DRAFT_LENGTHS_H_
