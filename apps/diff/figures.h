// How far two rows of floats are from each other, and how far two distributions.
#ifndef NG_APPS_DIFF_FIGURES_H_
#define NG_APPS_DIFF_FIGURES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ng::diff {

// A row of a point: that of a token.
struct RowPlace {
  int prompt = 0;  // of the run, from 0
  int64_t position = 0;

  bool operator<(const RowPlace& other) const {
    return prompt != other.prompt ? prompt < other.prompt : position < other.position;
  }
};

// An element in which both sides differ.
struct ElementDifference {
  RowPlace place;
  int64_t element = 0;  // of the row, from 0
  float a = 0.0F;
  float b = 0.0F;
};

// How far the sides' rows at a place are from each other: the root of the mean square of the
// differences, over that of A's elements.
struct RowDifference {
  RowPlace place;
  double rms_rel = 0.0;  // infinite where one side has a NaN or A's row is 0
};

// How many floats lie between two, 0 for equal bits. -0 and 0 are neighbours, and NaNs lie beyond
// the infinities.
int64_t UlpsBetween(float a, float b);

// What the rows of a point have in common. Rows may come in any order.
class Figures {
 public:
  // a, b: [n], a row of each side.
  void Add(RowPlace place, std::span<const float> a, std::span<const float> b);
  void AddNotCompared(int64_t n_rows) { not_compared_ += n_rows; }

  int64_t rows() const { return rows_; }
  int64_t not_compared() const { return not_compared_; }  // rows that one side alone has
  double max_abs() const { return max_abs_; }             // infinite where one side has a NaN
  // The same, and the root of the mean square of the differences, over that of A's elements.
  double max_rel() const { return Relative(max_abs_); }
  double rms_rel() const;
  // The median of rms_rel of each row by itself: a row of large elements, such as that of an
  // attention sink, counts as any other.
  double median_rms_rel() const;
  // The rows with other bits, by place; those that are not here are equal.
  std::vector<RowDifference> differences() const;
  int64_t max_ulp() const { return max_ulp_; }
  double equal_share() const;  // of the elements; 1 without rows
  const std::optional<ElementDifference>& first() const { return first_; }

 private:
  double Relative(double value) const;

  std::vector<RowDifference> differences_;  // as they came
  int64_t rows_ = 0;
  int64_t not_compared_ = 0;
  int64_t n_elements_ = 0;
  int64_t n_equal_ = 0;
  int64_t max_ulp_ = 0;
  double max_abs_ = 0.0;
  double sum_squares_ = 0.0;  // of A's elements
  double sum_squared_differences_ = 0.0;
  std::optional<ElementDifference> first_;  // by place, then by element
};

// KL(A || B) in nats of the distributions that logits stand for; 0 for equal bits, else NaN where a
// logit is not finite. [n] each
double KlOfLogits(std::span<const float> a, std::span<const float> b);

}  // namespace ng::diff

#endif  // NG_APPS_DIFF_FIGURES_H_
