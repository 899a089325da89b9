// What the steps of a tokenizer.json may do for one text, so that their cost grows as the text
// does: by how many bytes they may make it longer, and how long their patterns may search.
// Published tokenizers take a small part of it. Thread: one at a time.
#ifndef NG_CORE_TEXT_PIPELINE_STEP_BUDGET_H_
#define NG_CORE_TEXT_PIPELINE_STEP_BUDGET_H_

#include <cstddef>
#include <cstdint>

#include "core/text/regex/regex.h"

namespace ng {

class StepBudget {
 public:
  explicit StepBudget(size_t text_bytes)
      : growth_(kGrowth * (static_cast<int64_t>(text_bytes) + kLeastBytes)),
        searching_{kLeastSearching + kSearching * static_cast<int64_t>(text_bytes)} {}

  // Counts the bytes that `to` is longer than `from`. Returns false when that is too much.
  bool Grow(size_t from, size_t to) {
    if (to > from) growth_ -= static_cast<int64_t>(to - from);
    return growth_ >= 0;
  }
  SearchSteps& searching() { return searching_; }

 private:
  static constexpr int64_t kGrowth = 64;  // times as long; NFKD makes up to 11 of one
  static constexpr int64_t kLeastBytes = 1024;
  static constexpr int64_t kLeastSearching = 20'000'000;  // some tenths of a second
  static constexpr int64_t kSearching = 64;  // a published pattern takes up to 20 for each byte

  int64_t growth_;
  SearchSteps searching_;
};

}  // namespace ng

#endif  // NG_CORE_TEXT_PIPELINE_STEP_BUDGET_H_
