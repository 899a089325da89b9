// How much work the making of one grammar may take, in steps of some nanoseconds: states, edges and
// values that are looked at. It is shared by all that takes part, so that no grammar takes more
// than about half a second, whatever it is made of.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_BUDGET_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_BUDGET_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "ng/status.h"

namespace ng::grammar {

class Budget {
 public:
  static constexpr int64_t kSteps = 30'000'000;

  // `stop` (PluginContext's, may be null): once it is true, nothing is left.
  explicit Budget(const std::atomic<bool>* stop = nullptr) : stop_(stop) {}
  // For a part that must not take more than so much of it. What it has spent is spent here, too,
  // when that is told.
  Budget Within(int64_t steps) const {
    Budget part(stop_);
    part.most_ = part.left_ = std::min(steps, left_);
    return part;
  }
  int64_t spent() const { return most_ - left_; }

  // Whether there is still something left afterwards.
  bool Spend(size_t n) {
    left_ -= static_cast<int64_t>(n);
    if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) stopped_ = true;
    return left_ >= 0 && !stopped_;
  }
  // Errors: UsageError when all is spent; InterruptedError.
  absl::Status status() const {
    if (stopped_) return InterruptedError("was told to stop");
    if (left_ >= 0) return absl::OkStatus();
    return UsageError(absl::StrCat("takes more than ", most_, " steps to be made"));
  }

 private:
  int64_t most_ = kSteps;
  int64_t left_ = kSteps;
  const std::atomic<bool>* stop_;
  bool stopped_ = false;
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_BUDGET_H_
