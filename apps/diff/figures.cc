#include "apps/diff/figures.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "apps/common/divergence.h"

namespace ng::diff {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The floats in their order, as whole numbers.
int64_t Rank(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  return bits < 0 ? -1 - (int64_t{bits} & 0x7fffffff) : int64_t{bits};
}

double SumOfSquares(std::span<const float> values) {
  double sum = 0.0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

// What is relative to a root of a mean square.
double Ratio(double value, double rms) {
  const double ratio = value == 0.0 ? 0.0 : value / rms;
  return std::isnan(ratio) ? kInfinity : ratio;
}

}  // namespace

int64_t UlpsBetween(float a, float b) { return std::abs(Rank(a) - Rank(b)); }

void Figures::Add(RowPlace place, std::span<const float> a, std::span<const float> b) {
  const auto n = static_cast<int64_t>(a.size());
  ++rows_;
  n_elements_ += n;
  const double squares = SumOfSquares(a);
  sum_squares_ += squares;
  if (std::memcmp(a.data(), b.data(), a.size_bytes()) == 0) {
    n_equal_ += n;
    return;
  }
  double squared_differences = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const int64_t ulps = UlpsBetween(a[i], b[i]);
    if (ulps == 0) {
      ++n_equal_;
      continue;
    }
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    max_abs_ = std::max(max_abs_, std::isnan(difference) ? kInfinity : difference);
    squared_differences += difference * difference;
    max_ulp_ = std::max(max_ulp_, ulps);
    if (!first_ || place < first_->place) {
      first_ = ElementDifference{place, static_cast<int64_t>(i), a[i], b[i]};
    }
  }
  sum_squared_differences_ += squared_differences;
  differences_.push_back({place, Ratio(std::sqrt(squared_differences), std::sqrt(squares))});
}

double Figures::Relative(double value) const {
  return Ratio(value, std::sqrt(sum_squares_ / static_cast<double>(n_elements_)));
}

double Figures::rms_rel() const {
  if (n_elements_ == 0) return 0.0;
  return Relative(std::sqrt(sum_squared_differences_ / static_cast<double>(n_elements_)));
}

double Figures::median_rms_rel() const {
  if (rows_ == 0) return 0.0;
  std::vector<double> rows(static_cast<size_t>(rows_));  // those of equal bits are 0
  for (size_t i = 0; i < differences_.size(); ++i) rows[i] = differences_[i].rms_rel;
  const auto middle = rows.begin() + std::ssize(rows) / 2;
  std::ranges::nth_element(rows, middle);
  if (rows.size() % 2 == 1) return *middle;
  return (*std::max_element(rows.begin(), middle) + *middle) / 2.0;
}

std::vector<RowDifference> Figures::differences() const {
  std::vector<RowDifference> sorted = differences_;
  std::ranges::sort(sorted, [](const RowDifference& one, const RowDifference& other) {
    return one.place < other.place;
  });
  return sorted;
}

double Figures::equal_share() const {
  return n_elements_ == 0 ? 1.0 : static_cast<double>(n_equal_) / static_cast<double>(n_elements_);
}

double KlOfLogits(std::span<const float> a, std::span<const float> b) {
  if (std::memcmp(a.data(), b.data(), a.size_bytes()) == 0) return 0.0;
  const auto finite = [](float logit) { return std::isfinite(logit); };
  if (!std::ranges::all_of(a, finite) || !std::ranges::all_of(b, finite)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return KlDivergence(a, LogTotal(a), b, LogTotal(b));
}

}  // namespace ng::diff
