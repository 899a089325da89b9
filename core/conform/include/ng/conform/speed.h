// How long a part takes beside another one of its kind: both run in turn in one process, on one
// thread, and the medians count.
#ifndef NG_CONFORM_SPEED_H_
#define NG_CONFORM_SPEED_H_

#include <string>

#include "ng/conform/attention.h"
#include "ng/conform/cache.h"
#include "ng/conform/sampler.h"
#include "ng/status.h"

namespace ng::conform {

struct SpeedRatio {
  std::string of;         // what was timed
  double own_us = 0.0;    // median
  double other_us = 0.0;  // median

  double ratio() const { return own_us / other_us; }  // above 1: the part is slower
};

// Errors: what the parts answered. A quick subject is measured for a shorter time.
absl::StatusOr<SpeedRatio> CompareSpeed(const AttentionSubject& own, const AttentionSubject& other);
absl::StatusOr<SpeedRatio> CompareSpeed(const CacheSubject& own, const CacheSubject& other);
absl::StatusOr<SpeedRatio> CompareSpeed(const SamplerSubject& own, const SamplerSubject& other);

}  // namespace ng::conform

#endif  // NG_CONFORM_SPEED_H_
