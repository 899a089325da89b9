// How sure a mean is: intervals that hold it in 95 of 100 draws, by the bootstrap.
#ifndef NG_APPS_EVAL_MEASURE_INTERVALS_H_
#define NG_APPS_EVAL_MEASURE_INTERVALS_H_

#include <span>

namespace ng::eval {

struct Interval {
  double value = 0.0;  // of what was measured
  double low = 0.0;    // 2.5 % of the draws are below
  double high = 0.0;   // 2.5 % are above
};

// The mean of values, of which draws take as many with replacement: always the same draws. Give
// differences of two measurements of the same things for a paired interval. REQUIRES: at least one.
Interval MeanInterval(std::span<const double> values);

// The ratio of two sums over the same blocks: sums[i] / weights[i], drawn by blocks.
Interval RatioInterval(std::span<const double> sums, std::span<const double> weights);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_MEASURE_INTERVALS_H_
