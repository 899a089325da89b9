#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "ng/sampler.h"

namespace ng {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Integers in the order of the logits: a total order, in which -0 equals +0 and NaN comes after
// +infinity.
int32_t Ordered(float logit) {
  constexpr int32_t kMagnitude = 0x7fffffff;
  const auto bits = std::bit_cast<int32_t>(logit + 0.0F);  // the sum turns -0 into +0
  const bool nan = (bits & kMagnitude) > std::bit_cast<int32_t>(kInfinity);
  return nan ? std::numeric_limits<int32_t>::max() : bits ^ ((bits >> 31) & kMagnitude);
}

// By falling logit, equal logits by rising id: one comparison of 64 bits.
bool Before(const Candidate& a, const Candidate& b) {
  const auto rank = [](const Candidate& c) {
    return (static_cast<int64_t>(Ordered(c.logit)) << 32) - c.id;
  };
  return rank(a) > rank(b);
}

}  // namespace

void CandidateSet::SortByLogit() {
  std::sort(items_.begin(), items_.end(), Before);
  dense_ = false;
}

// The best candidates seen so far gather at the front. Whenever they fill the room there, the worse
// part is dropped and the k-th best becomes the bar that later ones must reach. Each drop costs
// O(room) and follows room - k candidates that reached the bar, so the whole is linear for any
// order.
void CandidateSet::KeepTop(int64_t k) {
  constexpr int64_t kLeastRoom = 64;
  if (k < size()) {
    const auto first = items_.begin();
    const int64_t room = std::min(size(), std::max(2 * k, kLeastRoom));
    int64_t kept = room;
    float bar = -kInfinity;
    const auto drop = [&] {
      std::nth_element(first, first + (k - 1), first + kept, Before);
      kept = k;
      bar = first[k - 1].logit;
    };
    drop();
    for (const Candidate& candidate : items_.subspan(room)) {
      if (candidate.logit < bar) continue;
      first[kept++] = candidate;
      if (kept == room) drop();
    }
    drop();
    items_ = items_.first(k);
  }
  SortByLogit();
}

void CandidateSet::KeepFirst(int64_t n) {
  if (n == size()) return;
  items_ = items_.first(n);
  dense_ = false;
}

void CandidateSet::KeepAtLeast(double bar) {
  int64_t kept = 0;
  for (const Candidate candidate : items_) {  // a copy: the store may not be read back
    items_[kept] = candidate;
    kept += candidate.logit >= bar ? 1 : 0;
  }
  KeepFirst(kept);
}

absl::StatusOr<float> CandidateSet::MaxLogit() const {
  float max = -kInfinity;
  for (const Candidate& candidate : items_) {
    if (candidate.logit <= max) continue;  // false for NaN too
    if (!(candidate.logit < kInfinity)) {
      return NumericError(absl::StrCat("the logit of token ", candidate.id, " is ",
                                       std::isnan(candidate.logit) ? "nan" : "inf",
                                       ", must be finite or -inf"));
    }
    max = candidate.logit;
  }
  if (max > -kInfinity) return max;
  return NumericError(
      absl::StrCat("no token can be drawn: all ", size(), " candidates have logit -inf"));
}

}  // namespace ng
