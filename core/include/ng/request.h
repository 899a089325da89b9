// What an engine is asked to do, and what it answers: requests and options in, completions and
// records out. All of them are plain values.
#ifndef NG_REQUEST_H_
#define NG_REQUEST_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/cache_store.h"
#include "ng/plugin.h"
#include "ng/point.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

#pragma GCC visibility push(default)
namespace ng {

struct GenerateRequest {
  std::vector<int32_t> prompt_ids;
  int64_t max_new_tokens = 0;  // <= 0 gives the prompt back
  // An open sequence from OpenSequence that holds a prefix of the prompt, at least one token
  // shorter than it; the rest is fed, the generated tokens but the last too, and it stays open: how
  // a conversation goes on. Empty: one of the run's own.
  std::optional<SequenceId> sequence = {};
  // How many of the prompt's last tokens are the beginning of the answer. An answer that was cut
  // then goes on as if it had not been: the sampler's stages are told of these tokens as of chosen
  // ones, and the draws and StepRecord::step go on counting. They are part of the prompt otherwise.
  int64_t n_answered = 0;
  // A cache snapshot whose tokens the prompt begins with: their keys and values are read from it
  // and not computed, except for the prompt's last token, which has logits to give. Empty: none.
  std::string load_cache = {};
  // Where a snapshot of the prompt's tokens is written when all of them have been fed. Empty:
  // nowhere.
  std::string save_cache = {};
  // The request's own sampler settings, "sampler.top_k.k=40" each, over those of the config:
  // any sampler.* key, the chain and the seed too. Errors: UsageError for another key, for one that
  // its chain does not use, and those of Open. Empty: the config's.
  std::vector<std::string> settings = {};
  // One of model.named_adapters, which this request is computed with besides model.adapters. It
  // shares keys and values with requests of the same adapter alone. Empty: none.
  std::string adapter = {};
  // The number of its draws (DrawKey::request). -1: its place among the requests of the run.
  int64_t draw = -1;
  // How many of the most probable tokens StepRecord::top_logprobs has; the record then has the
  // logprob, too. -1: neither.
  int64_t top_logprobs = -1;
  // StepRecord::logprob, entropy and top_k, as GenerateOptions::steps gives them to all requests.
  bool steps = false;
  // So many of the prompt's first tokens are its context; a question, or a turn of a chat, stands
  // behind them. Where the cache lets tokens go at this place (Engine::wants_context) a request
  // without it is refused, and else it changes nothing. 0: run.context_tokens; with a `sequence`
  // that has been told its context, that one.
  int64_t context_tokens = 0;
  // As top_logprobs, of the prompt's tokens, in Completion::prompt_logprobs: all of them are fed
  // then, some at a time, also with max_new_tokens = 0. -1: off. REQUIRES:
  // RunNeeds::prompt_logprobs at Load.
  int64_t prompt_top_logprobs = -1;
};

// What the model says of a token at its place, from the raw f32 logits, before the sampler chain.
struct TokenLogprob {
  int32_t token_id = 0;
  double logprob = 0.0;                         // of token_id, nats
  std::vector<std::pair<int32_t, double>> top;  // {id, logprob}, falling, equal ones by rising id
};

// One head's attention probabilities for one query, from the computation that made its output.
struct AttentionRow {
  int layer = 0;
  int head = 0;
  std::vector<float> probs;  // [pos + 1]
};

// What a stage of the sampler chain left of a step's candidates.
struct StageRecord {
  std::string name;                            // as sampler.chain spells it
  int64_t n_left = 0;                          // that can be drawn: their logits are not -infinity
  std::vector<std::pair<int32_t, float>> top;  // the best 10 of them, {id, softmax of what is left}
};

// The attention rows of one query, in all traced layers and heads. Borrowed for the call.
struct QueryRows {
  std::span<const int32_t> ids;        // [pos + 1] up to the query's own
  std::span<const AttentionRow> rows;  // ordered by (layer, head), probs [pos + 1] each
};

// The step that chose generated token `step` (from 0). Taken from the raw f32 logits, before the
// sampler chain.
// The attention that one query would have given to what its backend did not read, as shares of all
// that each of its heads gives in each layer. Tokens that the cache does not hold are not counted.
struct MissedAttention {
  double mean = 0.0;  // of layers and heads
  double most = 0.0;
  int layer =
      -1;  // that missed most, and its head; the first of equal ones; -1: nothing was missed
  int head = -1;
};

struct StepRecord {
  int64_t step = 0;
  int32_t token_id = 0;
  double logprob = 0.0;                          // of token_id, nats
  double entropy = 0.0;                          // of the distribution, nats
  std::vector<std::pair<int32_t, float>> top_k;  // {id, probability}, 10 or vocab_size entries
  std::vector<StageRecord> stages;               // of the chain, in its order
  std::vector<AttentionRow> attn_rows;           // of the query whose logits chose the token
  // With a drafter: whether it had proposed the token, so that its step was saved. The only field
  // that is another one than in a run without a drafter.
  std::optional<bool> drafted = {};
  uint64_t logits_hash = 0;  // of the bits of the f32 logits that chose the token
  // Bytes at the end of the answer, this token's included, that must not be shown yet: they may
  // begin a text that ends it. What shows text as it comes holds them back.
  int64_t held_bytes = 0;
  // As TokenLogprob::top: so many as GenerateRequest::top_logprobs asks for.
  std::vector<std::pair<int32_t, double>> top_logprobs;
  // Of the query whose logits chose the token, where the attention backend tells it
  // (attention.sparse.measure), in a run of one process.
  std::optional<MissedAttention> missed = {};
};

// Which tokens are held of a request when others have just left. Borrowed for the call.
struct HeldPositions {
  int64_t length = 0;  // tokens that it has had by now
  struct Head {
    int layer = 0;  // from 0, among the layers that keep keys and values
    int kv_head = 0;
    std::vector<int32_t> positions;  // rising
  };
  std::vector<Head> heads;  // of all layers and kv heads, in their order
};

// Why a request ended. Where several hold, the first of this list counts: a stop id, then what a
// sampler stage said of the last token, then the number of tokens.
enum class StopReason { kEot, kStage, kStopText, kMaxNewTokens, kInterrupted, kError };
std::string_view StopReasonName(StopReason reason);  // "eot", "max_new_tokens", ...

struct Timings {
  double load_s = 0.0;         // Open and Load of this engine, and what a step reads of weights
  double prefill_s = 0.0;      // from admission to the logits of the last prompt token
  int64_t prefill_tokens = 0;  // prompt tokens, without those shared and loaded
  int64_t shared_tokens = 0;   // prompt tokens that the cache had from others that began alike
  int64_t loaded_tokens = 0;   // prompt tokens from a snapshot
  double decode_s = 0.0;       // from there to the last token, a snapshot's writing left out
  int64_t decode_tokens = 0;   // tokens chosen by decode steps: all generated but the first
  // Of the steps that fed this request, its share by the tokens fed: while its prompt was, and
  // afterwards. Those of all requests of a run add up to the run's time, however they took turns.
  double prefill_share_s = 0.0;
  double decode_share_s = 0.0;
  // With a drafter: the decode steps, the tokens that they fed beyond the newest one, and those of
  // them that were kept.
  int64_t decode_steps = 0;
  int64_t drafted_tokens = 0;
  int64_t kept_tokens = 0;
};

// The rows of a point, of every position that was fed: the prompt and what was generated, without
// the last token, which nothing follows.
struct CapturedPoint {
  PointAt at;
  int64_t n_values = 0;     // of a row (PointShape::values); 0: nothing was fed
  std::vector<float> rows;  // [n_fed, n_values]
};

// Tensors kept on request, rows flattened.
struct CapturedTensors {
  std::vector<float> logits;         // [prompt_len, vocab_size]
  std::vector<float> decode_logits;  // [n_generated, vocab_size], row s chose token s
  // Rows of the traced layers and heads for queries 0, 1, ... of all ids, the last one included as
  // far as positions exist; ordered by (pos, layer, head), probs [pos + 1] each.
  std::vector<AttentionRow> attn_full;
  std::vector<CapturedPoint> points;  // as GenerateOptions::capture_points has them
};

struct Completion {
  std::vector<int32_t> ids;  // prompt + generated, eot included
  int64_t prompt_len = 0;
  StopReason stop_reason = StopReason::kMaxNewTokens;
  Timings timings;
  CapturedTensors captured;
  // With kStopText: the bytes at the end of the ids' text that are left out of the answer, which
  // are the text that ended it and what follows. Else 0.
  int64_t held_bytes = 0;
  // With GenerateRequest::prompt_top_logprobs: of the prompt's tokens behind the first one. Where
  // the request brought a sequence, of those behind the first that was fed.
  std::vector<TokenLogprob> prompt_logprobs;
};

// A token that a program gives in place of the sampler's choice.
struct GivenToken {
  int32_t token = 0;
  bool last = false;  // the request ends with it
};

// What to look at while generating. Off by default, and off costs nothing.
struct GenerateOptions {
  bool steps = false;           // call on_step with complete records
  bool stages = false;          // and with what each stage of the sampler chain left
  bool logits_hash = false;     // and with StepRecord::logits_hash
  bool capture_logits = false;  // every prompt row
  bool capture_decode_logits = false;
  bool capture_attn_full = false;            // rows of every position, the last id by an extra pass
  std::vector<PointAt> capture_points = {};  // all distinct, and among Engine::points
  std::vector<PointAt> look_at = {};         // likewise; on_point is called for them
  // Positions of capture_points before this one are left out.
  int64_t capture_points_from = 0;
  std::vector<int> trace_layers;  // rows of these go into StepRecord::attn_rows; rising, each once
  std::vector<int> trace_heads;   // likewise; empty: all heads
  // Called on the engine's thread after each token of request `index`; the record holds only step,
  // token_id and held_bytes, the traced rows, and what is asked for above and by the request. An
  // error stops the run and is returned. May be empty.
  std::function<absl::Status(int index, const StepRecord& record)> on_step;
  // Called with the rows that capture_attn_full would keep, query by query, as soon as the step
  // that made them is done. May be empty.
  std::function<void(int index, const QueryRows& query)> on_attn_rows;
  // Called when request `index` is finished, in order of finishing; after an error or an
  // interruption also for those that are not, with their stop_reason. May be empty.
  std::function<absl::Status(int index, const Completion& completion)> on_done;
  // Called on the engine's thread within each step, for each point of look_at as it is made. The
  // rows are those of all requests that the step feeds, by TokenRow::request; they are read and not
  // changed. What is shared or loaded has no rows, what is computed again comes again. With `norm`
  // or `logits` in look_at every token that is fed has a row there. An error stops the run and is
  // returned.
  std::function<absl::Status(const PointRows& rows)> on_point;
  // Says token `step` of request `index` in place of the sampler chain and the stop ids, which are
  // not asked; max_new_tokens are still the most. The logits may then hold anything. Called on the
  // engine's thread when the step is due; an error stops the run and is returned. May be empty.
  std::function<absl::StatusOr<GivenToken>(int index, int64_t step)> next_token;
  // Called with lines that say what each step writes to the cache and reads from it, layer by
  // layer. May be empty.
  std::function<void(std::string_view line)> on_cache_debug;
  int cache_debug_layer = -1;  // -1: all layers
  // Called whenever tokens of request `index` have left the cache, before its next token is chosen.
  // An error stops the run and is returned. May be empty.
  std::function<absl::Status(int index, const HeldPositions& held)> on_left = {};
  // Called when all of the prompt of request `index` has been fed, before its first token is
  // chosen; the completion has the timings of the prompt and prompt_logprobs. May be empty.
  std::function<void(int index, const Completion& completion)> on_prompt = {};
  // Where it is set, what is wrong with one request (its settings, NaN in its logits, a stage of
  // its sampler chain, a snapshot) ends this request alone: on_failed is called, then on_done with
  // StopReason::kError, and the run goes on.
  std::function<void(int index, const absl::Status& error)> on_failed = {};
};

struct TokenizeOptions {
  bool parse_special = false;  // literals of special tokens become the special ids
  // The text is to be a prompt: once it has more tokens than any prompt may, a LimitError says so
  // and the rest of it is not looked at.
  bool must_fit = false;
};

// Checks that the ids are in the vocabulary. Errors: UsageError naming the id and where it is.
absl::Status CheckIds(const ModelShape& shape, std::span<const int32_t> ids);

// Checks that prompt + max_new tokens fit a limit, of the model or of the program; `limit_name`
// says which limit it is ("T_max", "conversation tokens"). Errors: LimitError with all numbers, and
// what to lower.
absl::Status CheckCap(int64_t prompt_len, int64_t max_new_tokens, int64_t limit,
                      std::string_view limit_name);

// Which of a step's tokens get logits: the last one of each sequence, or every one.
enum class LogitRows { kLast, kAll };

// In the order of the step's sequences and their tokens.
struct StepLogits {
  TensorView<const float, 2> logits;  // [n_sequences or n_tokens, vocab_size]; until the next step
};

// A sequence that was opened from a snapshot, and the tokens that it holds.
struct LoadedSequence {
  SequenceId sequence = 0;
  std::vector<int32_t> ids;
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_REQUEST_H_
