// What the model would say after a layer, at the positions of an answer: rows of a point
// layer<L>.out through the final norm and the head.
#ifndef NG_APPS_VIEW_LENS_H_
#define NG_APPS_VIEW_LENS_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/view/page.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::view {

// How many of the most probable tokens the page shows.
inline constexpr int64_t kTopTokens = 10;

// The logits of rows [begin, begin + n) of the point, n being at most kRowsAtOnce. Errors: those of
// Engine::HeadLogits.
inline constexpr int64_t kRowsAtOnce = 16;
absl::StatusOr<std::vector<float>> LogitsOf(Engine& engine, const CapturedPoint& out, int64_t begin,
                                            int64_t n);  // [n * vocab_size]

// Where the tokens of an answer were chosen.
struct AnswerPositions {
  int64_t first = 0;
  std::span<const int32_t> chosen;  // [n]
};
// The first n rows of each point. Errors: InterruptedError once `stop`, which may be null, is set.
absl::StatusOr<Lens> ReadLens(Engine& engine, std::span<const CapturedPoint> outs,
                              const AnswerPositions& answer, const std::atomic<bool>* stop);

}  // namespace ng::view

#endif  // NG_APPS_VIEW_LENS_H_
