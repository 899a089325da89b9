// The logits of an engine for one token of a window after the other.
#ifndef NG_APPS_EVAL_ROWS_H_
#define NG_APPS_EVAL_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "apps/eval/texts.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::eval {

// How many tokens the engine's cache has let go since Load; 0 where it lets none go.
absl::StatusOr<int64_t> TokensGone(const Engine& engine);

// The seconds that the engine's cache took to score tokens and let them go, since Load; 0 where it
// does not count them.
absl::StatusOr<double> ScoringSeconds(const Engine& engine);

// run.prefill_chunk, or kDefaultChunk where nothing sets it; 0: a whole window.
int64_t ChunkOf(const Config& config);

// A chunk is fed when the rows of the chunk before are used up. So rows of two engines can be
// compared whatever their chunks are. Engine and window are borrowed.
class WindowRows {
 public:
  WindowRows(Engine& engine, const Window& window);
  ~WindowRows();
  WindowRows(const WindowRows&) = delete;
  WindowRows& operator=(const WindowRows&) = delete;

  absl::Status Open();
  // The same for a window of which rows behind a context are wanted: reads all of it but its last
  // token, whose rows nobody gets. The cache is told of the context where it asks.
  absl::Status OpenBehind(int64_t n_context);
  // The sequence of `other`, which has been read to the same place; its tokens leave by a rule of
  // the cache (Engine::SetKeepRule), empty: its own.
  absl::Status Fork(const WindowRows& other, const std::string& rule);

  // The next token's row, [vocab_size]; valid until the next call. Errors: NumericError; those of
  // the engine. REQUIRES: opened, and a token is left.
  absl::StatusOr<std::span<const float>> Next();

  // Whether other tokens of the window had left the cache when the last row was computed.
  bool after_eviction() const { return after_eviction_; }

 private:
  absl::Status Feed();

  Engine& engine_;
  const Window& window_;
  size_t chunk_;  // 0: the whole window
  size_t fed_ = 0;
  std::optional<SequenceId> sequence_;
  TensorView<const float, 2> logits_;  // [chunk, vocab_size], the engine's
  int64_t row_ = 0;                    // the next row of logits_
  int64_t gone_at_open_ = 0;
  bool after_eviction_ = false;
};

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_ROWS_H_
