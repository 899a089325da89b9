// The token sequences to score, and the windows that they are fed in.
#ifndef NG_APPS_EVAL_TEXTS_H_
#define NG_APPS_EVAL_TEXTS_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/eval/command_line.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::eval {

// A text of n tokens gives n - 1 scores: of all but its first, which nothing comes before.
using Texts = std::vector<std::vector<int32_t>>;

// The text or the ids of the command line's file, at least two tokens each, inside the vocabulary.
// `stop` ends the wait for a pipe's text. Errors: UsageError naming the file and the line;
// InterruptedError.
absl::StatusOr<Texts> ReadTexts(const CommandLine& line, const Engine& engine,
                                const std::atomic<bool>* stop);

// What must be in a config for DrawTexts to draw from the model as it is: at temperature 1, and no
// id ends a text.
std::vector<std::string> DrawingOverrides();

// `n` texts of `n_tokens`, the first token of each drawn evenly from the vocabulary, the others by
// the model, all by sampler.seed. Loads the engine for as many sequences as cache.max_sequences
// says. Errors: UsageError for texts of one token; those of the engine; InterruptedError.
absl::StatusOr<Texts> DrawTexts(Engine& engine, int64_t n, int64_t n_tokens);

// A line for each text. `stop` ends a wait for the reader of a pipe. Errors: OutputError;
// InterruptedError.
absl::Status WriteTexts(const std::string& path, const Texts& texts, const std::atomic<bool>* stop);

// Tokens that an empty cache is fed with, and what follows each of them.
struct Window {
  std::span<const int32_t> fed;
  std::span<const int32_t> targets;  // [fed.size()]
  size_t text = 0;                   // its number
  size_t first = 0;                  // of the text's tokens, the window's first
};

// Every text cut after each `n_tokens` tokens; 0: whole. The token after a cut begins the next
// window, and is what the last row of this one is scored on; the last token of a text is not fed.
// The windows borrow the texts.
std::vector<Window> WindowsOf(const Texts& texts, int64_t n_tokens);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_TEXTS_H_
