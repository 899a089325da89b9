#include "apps/view/lens.h"

#include <algorithm>

#include "ng/likely_tokens.h"
#include "ng/tensor_view.h"

namespace ng::view {

absl::StatusOr<std::vector<float>> LogitsOf(Engine& engine, const CapturedPoint& out, int64_t begin,
                                            int64_t n) {
  std::vector<float> logits(static_cast<size_t>(n * engine.model_shape().vocab_size));
  const TensorView<const float, 2> rows = {out.rows.data() + begin * out.n_values,
                                           {n, out.n_values}};
  NG_RETURN_IF_ERROR(engine.HeadLogits(rows, logits));
  return logits;
}

absl::StatusOr<Lens> ReadLens(Engine& engine, std::span<const CapturedPoint> outs,
                              const AnswerPositions& answer, const std::atomic<bool>* stop) {
  const auto vocab_size = static_cast<size_t>(engine.model_shape().vocab_size);
  const int64_t n = std::ssize(answer.chosen);
  Lens lens;
  for (int64_t i = 0; i < n; ++i) lens.positions.push_back(answer.first + i);
  for (const CapturedPoint& out : outs) {
    lens.layers.push_back(out.at.layer);
    std::vector<TopIds>& top = lens.top.emplace_back();
    std::vector<int64_t>& rank = lens.rank.emplace_back();
    for (int64_t begin = 0; begin < n; begin += kRowsAtOnce) {
      if (stop != nullptr && stop->load()) return InterruptedError("interrupted");
      const int64_t n_rows = std::min(kRowsAtOnce, n - begin);
      NG_ASSIGN_OR_RETURN(const std::vector<float> logits, LogitsOf(engine, out, begin, n_rows));
      for (int64_t i = 0; i < n_rows; ++i) {
        const auto row = std::span(logits).subspan(static_cast<size_t>(i) * vocab_size, vocab_size);
        top.push_back(LikelyTokens(row, kTopTokens));
        rank.push_back(RankOf(row, answer.chosen[static_cast<size_t>(begin + i)]));
      }
    }
  }
  return lens;
}

}  // namespace ng::view
