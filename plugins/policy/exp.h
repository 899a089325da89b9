// The exponential for softmaxes of scores, alike on every machine.
#ifndef NG_PLUGINS_POLICY_EXP_H_
#define NG_PLUGINS_POLICY_EXP_H_

#include <cmath>

namespace ng {

// e^x for x <= 0, to an error of about 2^-52, of operations that every machine rounds alike: a C
// library's own differs from one to the next. A NaN stays one.
inline double ExpOfNonPositive(double x) {
  if (!(x > -700.0)) return std::isnan(x) ? x : 0.0;
  constexpr double kLn2High = 0x1.62e42fee00000p-1;  // its last bits are 0: products are exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  const double n = std::nearbyint(x * 0x1.71547652b82fep+0);
  const double r = (x - n * kLn2High) - n * kLn2Low;  // |r| <= ln(2) / 2
  double sum = 1.0;
  for (int i = 14; i > 0; --i) sum = 1.0 + sum * (r / i);
  return std::ldexp(sum, static_cast<int>(n));
}

}  // namespace ng

#endif  // NG_PLUGINS_POLICY_EXP_H_
