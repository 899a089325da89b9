// The token sequences to score, and the windows in which they are fed.
#ifndef NG_APPS_EVAL_TEXTS_H_
#define NG_APPS_EVAL_TEXTS_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/eval/command_line.h"
#include "ng/engine.h"
#include "ng/files.h"
#include "ng/status.h"

namespace ng::eval {

// A text of n tokens gives n - 1 scores: its first token has none, because nothing comes before it.
using Texts = std::vector<std::vector<int32_t>>;

// Errors: UsageError for a text that has nothing to score, or an id outside the vocabulary.
absl::Status CheckText(std::span<const int32_t> ids, const std::string& name,
                       const ModelShape& shape);

// Reads the text or the ids of the command line's file: texts of at least two tokens, all of them
// inside the vocabulary. `stop` ends the wait for a pipe's text. Errors: UsageError naming the file
// and the line; InterruptedError.
absl::StatusOr<Texts> ReadTexts(const CommandLine& line, const Engine& engine,
                                const std::atomic<bool>* stop);

// The overrides with which DrawTexts draws from the model itself: temperature 1, and no id ends a
// text.
std::vector<std::string> DrawingOverrides();

// Draws `n` texts of `n_tokens` with sampler.seed: the first token of each evenly from the
// vocabulary, the others from the model. Loads the engine for cache.max_sequences sequences.
// Errors: UsageError for texts of one token; those of the engine; InterruptedError.
absl::StatusOr<Texts> DrawTexts(Engine& engine, int64_t n, int64_t n_tokens);

// The command line's options for an engine that texts are fed to: run.prefill_chunk is
// kDefaultChunk unless it is set, and where texts are drawn those of DrawingOverrides.
absl::StatusOr<EngineOptions> FeedingOptions(const CommandLine& line, const EngineOptions& given);

// Reads or draws the texts and writes them where the command line asks for that. `inputs` are the
// files that were read so far. Errors: as those above; LimitError for a window that does not fit.
absl::StatusOr<Texts> GetTexts(const CommandLine& line, Engine& engine, const InputLog& inputs,
                               const std::atomic<bool>* stop);

// Writes a line for each text. `stop` ends a wait for the reader of a pipe. Errors: OutputError;
// InterruptedError.
absl::Status WriteTexts(const std::string& path, const Texts& texts, const std::atomic<bool>* stop);

// The tokens that are fed to an empty cache, and the token that follows each of them.
struct Window {
  std::span<const int32_t> fed;
  std::span<const int32_t> targets;  // [fed.size()]
  size_t text = 0;                   // its number
  size_t first = 0;                  // position in the text of the window's first token
};

// Cuts every text after each `n_tokens` tokens; 0: not at all. The token after a cut begins the
// next window, and the last row of the window before is scored on it. The last token of a text is
// not fed. The windows borrow the texts.
std::vector<Window> WindowsOf(const Texts& texts, int64_t n_tokens);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_TEXTS_H_
