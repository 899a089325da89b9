// SamplerStage: one step of the chain that turns logits into a choice.
//
// A stage narrows or reweights a set of candidates. The engine then draws one of what is left, by
// softmax over the remaining logits; one remaining candidate is taken without a draw. Ties break to
// the lowest token id everywhere.
//
// All that is random comes from UniformDraw, which is keyed by (seed, request, step). So a result
// never depends on what else is in the batch. A stage with draws of its own takes them from the key
// that Apply is given; nothing else about a sequence is the same in every batch, its slot least.
//
// Implemented by sampler plugins; called by the engine on its own thread ([step]). State belongs to
// a sequence: the engine numbers sequences from 0 and tells the stage when one begins, grows, is
// copied, shrinks and ends. A stage without state implements Apply alone.
#ifndef NG_SAMPLER_H_
#define NG_SAMPLER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ng/candidate_set.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

// What a draw depends on besides the candidates, and all that it depends on.
struct DrawKey {
  int64_t seed = 0;     // sampler.seed
  int64_t request = 0;  // the request's own number, not its place in a batch
  int64_t step = 0;     // 0 chooses the first generated token
  uint32_t stream = 0;  // 0: the engine's own draw; each stage of a chain has one of its own
};

// Uniform in [0, 1) with 53 bits: the n-th draw of a key. Philox4x32-10 with the key `seed` at the
// counter {low(step), high(step) ^ n, low(request), high(request) ^ stream}, so the draws of two
// keys differ while step and request are below 2^32. Always the same number for the same
// arguments.
double UniformDraw(const DrawKey& key, uint32_t n = 0);

// The stream that a chain gives to its stage of this name; never 0. For a stage that calls others:
// with this stream another stage draws what it would draw in the chain itself.
uint32_t DrawStream(std::string_view stage);

// Whether a sequence goes on after a token.
enum class SequenceEnd : int32_t {
  kNo,        // it does, as far as the stage is concerned
  kStage,     // it ends: the stage has what it wants; stop reason "stage"
  kStopText,  // it ends: the text has reached one that ends it; stop reason "stop_text"
};

class SamplerStage {
 public:
  virtual ~SamplerStage() = default;

  // A sequence begins with these tokens. `slot` is free to be used again after Close.
  virtual absl::Status Open(int slot, std::span<const int32_t> prompt_ids) {
    (void)slot, (void)prompt_ids;
    return absl::OkStatus();
  }
  // `token` was appended to the sequence. Says whether the sequence ends with it. Every stage is
  // told of every token; the first one that ends the sequence gives the reason. A stop id comes
  // before it, as the reason "eot".
  virtual absl::StatusOr<SequenceEnd> Accept(int slot, int32_t token) {
    (void)slot, (void)token;
    return SequenceEnd::kNo;
  }
  // `to` begins as a copy of `from`. (Fork and Truncate come with forked and rolled back sequences;
  // the generate loop does neither yet.)
  virtual absl::Status Fork(int from, int to) {
    (void)from, (void)to;
    return absl::OkStatus();
  }
  // The sequence is cut back to its first `n_tokens` tokens, prompt included.
  virtual absl::Status Truncate(int slot, int64_t n_tokens) {
    (void)slot, (void)n_tokens;
    return absl::OkStatus();
  }
  virtual absl::Status Close(int slot) {
    (void)slot;
    return absl::OkStatus();
  }

  // Narrows or reweights. At least one candidate remains, each logit finite or -infinity, and one
  // of them finite; each id was there before, once. What Apply does depends on the sequence's
  // tokens, the key and the candidates alone. It may be called again with the same arguments.
  // Errors: NumericError, in one line, when that cannot be: a logit is NaN or +infinity, or nothing
  // drawable would remain. REQUIRES: candidates is not empty.
  virtual absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) = 0;

  // [load] One line for the end of a run: what the stage has to say about what it did. Empty:
  // nothing.
  virtual std::string Report() const { return {}; }

  // How many bytes at the end of the answer so far are no part of its text: after a token that
  // ended the sequence as kStopText the text that ended it and what follows; otherwise what may be
  // the beginning of such a text, and is not shown until it is known. The text is the bytes of the
  // tokens accepted (PluginContext::token_bytes); stop ids have none.
  virtual absl::StatusOr<int64_t> HeldBytes(int slot) const {
    (void)slot;
    return 0;
  }
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_SAMPLER_H_
