// Comparer: takes the rows of points from two sides as each makes them, and compares a row as soon
// as both have it.
//
// A row is kept only until the other side has it too. What a side computes again, or the other side
// never computes (because it shares, loads or begins elsewhere), is counted and not compared. Not
// thread-safe.
#ifndef NG_APPS_DIFF_COMPARER_H_
#define NG_APPS_DIFF_COMPARER_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/diff/figures.h"
#include "ng/point.h"
#include "ng/status.h"

namespace ng::diff {

enum class Side : uint8_t { kA, kB };
constexpr Side OtherOf(Side side) { return side == Side::kA ? Side::kB : Side::kA; }

// A token behind which the sides think another one most probable.
struct ArgmaxFlip {
  RowPlace place;
  int32_t token = 0;  // fed at the place
  int32_t a = 0;      // the most probable next one
  int32_t b = 0;
};

// What the logits of both sides say of the next token.
struct Predictions {
  int64_t n_rows = 0;
  double kl_mean = 0.0;           // of KL(A || B), in nats; NaN where a logit is not finite
  std::vector<ArgmaxFlip> flips;  // by place
};

struct PointComparison {
  PointShape point;
  Figures figures;
};

struct Comparison {
  std::vector<PointComparison> points;  // in the order in which a token meets them
  Predictions predictions;

  // The first element that differs: by point, then by place and element. Null: none.
  const PointComparison* first() const;
  int64_t rows() const;
  int64_t not_compared() const;
};

class Comparer {
 public:
  // `max_bytes`: the most that rows may take that wait for the other side.
  Comparer(std::vector<PointShape> points, int64_t max_bytes);

  // Rows that a side has made, at one of the points. Errors: LimitError when too much waits.
  absl::Status Add(Side side, const PointRows& rows);
  // The same for one row, [values of the point].
  absl::Status AddRow(Side side, const PointAt& at, const TokenRow& token,
                      std::span<const float> row);
  // Rows that a side will never make, the other has nothing to compare them with.
  void AddNotCompared(const PointAt& at, int64_t n_rows);

  // Whether rows of this side wait for the other.
  bool IsAhead(Side side) const { return waiting_bytes_[static_cast<size_t>(side)] > 0; }

  // Ends both sides. REQUIRES: the last call.
  Comparison Finish();

 private:
  // Rows of a point that wait for the other side: those of [first, end).
  struct Waiting {
    int64_t first = 0;
    int64_t end = 0;
    size_t n_taken = 0;  // floats at the beginning that are needed no more
    std::vector<float> floats;

    bool Has(int64_t pos) const { return pos >= first && pos < end; }
    std::span<const float> Row(int64_t pos, size_t n_values) const;
    void Add(int64_t pos, std::span<const float> row);
    // Forgets what is before `pos`. Returns how many rows.
    int64_t DropBefore(int64_t pos, size_t n_values);
  };
  // The rows of a prompt at a point, from one side.
  struct Flow {
    int64_t begin = -1;  // the first position that it had; -1: none yet
    int64_t end = 0;     // behind the last
    Waiting waiting;
  };
  struct PointState {
    PointComparison comparison;
    std::vector<std::array<Flow, 2>> flows;  // [prompt][side]
  };
  struct PromptSums {
    double kl = 0.0;
    int64_t n_rows = 0;
  };

  size_t IndexOf(const PointAt& at) const;
  void Compare(PointState& state, const TokenRow& token, std::span<const float> a,
               std::span<const float> b);
  absl::Status Keep(Side side, Flow& flow, int64_t pos, std::span<const float> row);
  // Gives up the rows of a side that wait before `pos`. Returns how many.
  int64_t Drop(Side side, const PointState& state, Flow& flow, int64_t pos);

  std::vector<PointState> states_;
  std::array<int64_t, 2> waiting_bytes_ = {0, 0};
  const int64_t max_bytes_;
  std::map<int, PromptSums> sums_;  // by prompt, so that their order is not that of the steps
  std::vector<ArgmaxFlip> flips_;
};

}  // namespace ng::diff

#endif  // NG_APPS_DIFF_COMPARER_H_
