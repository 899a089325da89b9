// Texts on a method's engine beside the full cache's: what is lost behind the places where tokens
// have left.
#ifndef NG_APPS_EVAL_MEASURE_RUN_TEXT_H_
#define NG_APPS_EVAL_MEASURE_RUN_TEXT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/eval/evaluate.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::eval {

// Sums over tokens of a text that follow each other.
struct TextBlock {
  int64_t n = 0;
  double full = 0.0;  // of -log p, nats
  double nll = 0.0;   // the same of the method
  double kl = 0.0;    // KL(full || method)
  int64_t equal = 0;  // tokens whose most probable next one is the same
};

struct TextResult {
  // Of the tokens that count: where tokens leave, those computed when some had left; else all.
  std::vector<TextBlock> blocks;
  int64_t n_scored = 0;  // of these
  int64_t n_all = 0;     // of all that were fed
  bool evicts = false;
};

// At most so many tokens are in a block.
inline constexpr int64_t kBlockTokens = 64;

// Errors: as Evaluate.
absl::StatusOr<TextResult> RunTexts(Engine& full, Engine& method, const Job& job);

// How many tokens of a window are its context where a text has none: half of it.
int64_t ContextTokens(const Window& window);
// The same for each rule by which the method's cache lets tokens go at the end of a context
// (Engine::SetKeepRule), which is read once for all of them. The tokens behind it count. Errors: as
// Evaluate. REQUIRES: room for two sequences in both.
absl::StatusOr<std::vector<TextResult>> RunTextsBehind(Engine& full, Engine& method, const Job& job,
                                                       std::span<const std::string> rules);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_MEASURE_RUN_TEXT_H_
