// The perplexity of one config, and how far the predictions of another config are from it.
//
// Every key and value is read back from the cache, also within one chunk: a token's row of logits
// comes from what the store gives for it and for the tokens before it. So a row has the same bits
// for every run.prefill_chunk, and so has every figure here.
#ifndef NG_APPS_EVAL_EVALUATE_H_
#define NG_APPS_EVAL_EVALUATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "apps/eval/texts.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::eval {

// How the candidate differs from the reference, over all scored tokens.
struct Difference {
  double perplexity = 0.0;    // the candidate's
  double kl_mean = 0.0;       // mean of KL(reference || candidate), in nats
  double kl_p99 = 0.0;        // the smallest KL that 99 % of the tokens do not exceed
  double equal_argmax = 0.0;  // share of tokens; among equal logits the lowest id counts
};

struct Evaluation {
  double perplexity = 0.0;               // exp of the mean of -log p(token)
  std::optional<Difference> difference;  // with a candidate
};

// A long window is fed in chunks of so many tokens where run.prefill_chunk says nothing: rows of
// logits are kept for one chunk only.
inline constexpr int64_t kDefaultChunk = 256;

// The figures are about cached keys and values: UsageError for a run without a cache.
absl::Status CheckUsesCache(const Engine& engine);
// That, and UsageError for another vocabulary than the reference's.
absl::Status CheckCandidate(const Engine& reference, const Engine& candidate);
// Tokens that fit a sequence; 0: no limit.
int64_t TokenLimit(const Engine& engine);
// Checks what an engine will be fed, before its weights are read. Errors: those of CheckRequest.
absl::Status CheckFits(const Engine& engine, const Window& longest);
// REQUIRES: there is one.
const Window& LongestOf(std::span<const Window> windows);

// What to feed, and where to report the progress.
struct Job {
  std::span<const Window> windows;
  std::function<void(const Progress&)> progress;
  const std::atomic<bool>* stop = nullptr;  // that of the engines; read at every token; or null

  int64_t n_scored() const;  // tokens
};

// Feeds the same windows to both engines, chunk by chunk, and keeps no row longer than its chunk.
// `candidate` may be null. Errors: NumericError naming text, token and engine; those of the
// engines; InterruptedError. REQUIRES: both are loaded with room for one more sequence of the
// longest window, and have the same vocabulary.
absl::StatusOr<Evaluation> Evaluate(Engine& reference, Engine* candidate, const Job& job);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_EVALUATE_H_
