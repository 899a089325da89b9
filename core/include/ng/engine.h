// Engine: a config, a model, its plugins and their threads, ready to generate; for programs that
// embed ng. `ng-run` is a thin main over it.
//
//   ng::EngineOptions options;
//   options.config_file = "demo.ini";
//   options.overrides = {"sampler.chain=greedy"};
//   NG_ASSIGN_OR_RETURN(auto engine, ng::Engine::Open(options));   // config, plugins, metadata
//   NG_ASSIGN_OR_RETURN(auto ids, engine->Encode("To be", {}));
//   const ng::GenerateRequest request{ids, engine->default_max_new_tokens()};
//   NG_RETURN_IF_ERROR(engine->Load(ng::Needs(std::span(&request, 1))));  // memory, weights
//   NG_ASSIGN_OR_RETURN(auto done, engine->Generate(std::span(&request, 1), {}));
//
// Open checks everything that can be checked without reading weights; Load reserves the cache and
// reads the weights, or says which limit forbids it.
//
// Thread: one engine is used by one thread at a time. Only the stop flag may be set from others.
#ifndef NG_ENGINE_H_
#define NG_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/cache_capabilities.h"
#include "ng/cache_store.h"
#include "ng/kv_view.h"
#include "ng/plugin.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

namespace ng {

class Config;

struct Progress {
  std::string_view phase;  // "load", "prefill"
  int64_t done = 0;        // in the phase's own unit: bytes, tokens
  int64_t total = 0;
};

struct EngineOptions {
  std::string config_file;             // may be empty: defaults and overrides only
  std::vector<std::string> overrides;  // "section.key=value", the last of a key wins
  // Read often; once true, work stops at the next token (or layer, or tensor) with
  // InterruptedError or stop_reason "interrupted". May be null. Not owned.
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const Progress&)> progress;  // called on the engine's thread; may be empty
  // Told what the user should know though it is no error (a key that nobody reads, fewer threads
  // than asked for): one line without its end, each once. Called on the engine's thread; may be
  // empty.
  std::function<void(std::string_view)> warning;
  // A config.json of any family: its shape runs with weights that are made up, always the same, and
  // without a tokenizer. model.path and tokenizer.path must then be unset. Empty: a model file.
  std::string random_weights;
};

struct GenerateRequest {
  std::vector<int32_t> prompt_ids;
  int64_t max_new_tokens = 0;  // <= 0 gives the prompt back
  // An open sequence from OpenSequence that holds a prefix of the prompt, at least one token
  // shorter than it; the rest is fed, the generated tokens but the last too, and it stays open: how
  // a conversation goes on. Empty: one of the run's own.
  std::optional<SequenceId> sequence;
  // A cache snapshot whose tokens the prompt begins with: their keys and values are read from it
  // and not computed, except for the prompt's last token, which has logits to give. Empty: none.
  std::string load_cache = {};
  // Where a snapshot of the prompt's tokens is written when all of them have been fed. Empty:
  // nowhere.
  std::string save_cache = {};
};

// What a run must have room for.
struct RunNeeds {
  int64_t max_tokens = 0;  // prompt + max_new of the longest request
  int max_sequences = 1;
  // GenerateOptions::capture_logits will be set, or LogitRows::kAll asked for.
  bool prompt_logits = false;
  // Tokens of the longest prompt, fed to one sequence at a time; 0: as many as max_tokens.
  int64_t max_prompt = 0;
  bool snapshots = false;  // of the cache will be loaded or saved: Load then hashes the weights
};
RunNeeds Needs(std::span<const GenerateRequest> requests);

// One head's attention probabilities for one query, from the computation that made its output.
struct AttentionRow {
  int layer = 0;
  int head = 0;
  std::vector<float> probs;  // [pos + 1]
};

// The step that chose generated token `step` (from 0). Taken from the raw f32 logits, before the
// sampler chain.
struct StepRecord {
  int64_t step = 0;
  int32_t token_id = 0;
  double logprob = 0.0;                          // of token_id, nats
  double entropy = 0.0;                          // of the distribution, nats
  std::vector<std::pair<int32_t, float>> top_k;  // {id, probability}, 10 or vocab_size entries
  std::vector<AttentionRow> attn_rows;           // of the query whose logits chose the token
};

// Why a request ended. Where several hold, the first of this list counts: a stop id, then what a
// sampler stage said of the last token, then the number of tokens.
enum class StopReason { kEot, kStage, kStopText, kMaxNewTokens, kInterrupted, kError };
std::string_view StopReasonName(StopReason reason);  // "eot", "max_new_tokens", ...

struct Timings {
  double load_s = 0.0;         // Open and Load of this engine
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
};

// Tensors kept on request, rows flattened.
struct CapturedTensors {
  std::vector<float> logits;         // [prompt_len, vocab_size]
  std::vector<float> decode_logits;  // [n_generated, vocab_size], row s chose token s
  // Rows of the traced layers and heads for queries 0, 1, ... of all ids, the last one included as
  // far as positions exist; ordered by (pos, layer, head), probs [pos + 1] each.
  std::vector<AttentionRow> attn_full;
};

struct Completion {
  std::vector<int32_t> ids;  // prompt + generated, eot included
  int64_t prompt_len = 0;
  StopReason stop_reason = StopReason::kMaxNewTokens;
  Timings timings;
  CapturedTensors captured;
};

// What to look at while generating. Off by default, and off costs nothing.
struct GenerateOptions {
  bool steps = false;           // call on_step with complete records
  bool capture_logits = false;  // every prompt row
  bool capture_decode_logits = false;
  bool capture_attn_full = false;  // rows of every position, the last id by an extra pass
  std::vector<int> trace_layers;   // rows of these layers go into StepRecord::attn_rows
  std::vector<int> trace_heads;    // empty: all heads
  // Called on the engine's thread after each token of request `index`; the record holds only step
  // and token_id unless `steps` is set, and the traced rows in any case. An error stops the run and
  // is returned. May be empty.
  std::function<absl::Status(int index, const StepRecord& record)> on_step;
  // Called when request `index` is finished, in order of finishing; after an error or an
  // interruption also for those that are not, with their stop_reason. May be empty.
  std::function<absl::Status(int index, const Completion& completion)> on_done;
  // Called with each of seed 001's cache debug lines. May be empty.
  std::function<void(std::string_view line)> on_cache_debug;
  int cache_debug_layer = -1;  // -1: all layers
};

struct TokenizeOptions {
  bool parse_special = false;  // literals of special tokens become the special ids
  // The text is to be a prompt: once it has more tokens than any prompt may, a LimitError says so
  // and the rest of it is not looked at.
  bool must_fit = false;
};

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

// What the steps of a loaded model must read and compute, from its sizes alone: what a measured
// time is held against.
struct StepCost {
  std::string_view weights;           // the type most are held as: "f32", "bf16", ...; static text
  int64_t weight_bytes = 0;           // read by every step, whatever its batch
  int64_t cache_bytes_per_token = 0;  // keys and values of one cached token, in all layers
  int64_t row_multiply_adds = 0;      // in the layers' matrices, for each row
  int64_t logit_multiply_adds = 0;    // in the head, for each row that has logits
};

// What the weights take, packed as the kernels read them.
struct WeightSizes {
  int64_t embedding_bytes = 0;
  int64_t head_bytes = 0;    // 0: the head is the embedding
  int64_t layer_bytes = 0;   // the layers' matrices
  int64_t vector_bytes = 0;  // norms, biases, learned positions, factors of RoPE

  int64_t matrix_bytes() const;
  int64_t bytes() const;  // in all
};

// What a run takes, known before anything is loaded: what Load reserves and checks. Tensors that a
// run keeps on request are not in it.
struct RunPlan {
  int64_t max_tokens = 0;  // that each sequence has room for
  int max_sequences = 0;   // open at the same time
  Codec codec_k = Codec::kF32;
  Codec codec_v = Codec::kF32;
  WeightSizes weights;
  CachePlan cache;                 // what the store says that it will reserve
  int64_t load_scratch_bytes = 0;  // while weights are read; given back before the first step
  int64_t activation_bytes = 0;    // buffers of the largest step, attention's scratch, rotations
  int64_t program_bytes = 0;       // resident by now: code, plugins, tokenizer, metadata
  int64_t available_bytes = 0;     // what this machine and the process's cgroup still give
  StepCost step;
  // Where it does not fit: what would make it fit, computed, or that nothing does.
  std::string remedy;

  // The peak on top of program_bytes. A cache is reserved first and used after the load, so its
  // memory and the load's scratch are not there at the same time.
  int64_t needed_bytes() const;
};
// Errors: LimitError with the bytes of each part, the bytes available and the remedy, when
// needed_bytes are more.
absl::Status CheckMemory(const RunPlan& plan);

class Engine {
 public:
  // Errors: 2 config, 4 plugins and combinations that cannot run, 3 model or tokenizer files.
  static absl::StatusOr<std::unique_ptr<Engine>> Open(const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Reserves the cache and loads the weights. Errors: LimitError with bytes needed and available,
  // before weights are read; ModelFileError; InterruptedError.
  absl::Status Load(const RunNeeds& needs);

  const Config& config() const;
  const ModelShape& model_shape() const;
  IsaLevel isa() const;
  int threads() const;
  int64_t default_max_new_tokens() const;     // run.max_new_tokens
  std::span<const int32_t> stop_ids() const;  // run.stop_ids or the model's own
  // What the model's own metadata would have the sampler do and sampler.chain does not, as half a
  // sentence: "generation_config.json's temperature 0.6, top_p 0.9 are not used". Empty: nothing.
  const std::string& unused_sampling() const;
  // What a run would take; reads no weights and reserves nothing. That it fits is for CheckMemory
  // to say. Errors: LimitError beyond the model's context or what the cache can hold; PluginError.
  absl::StatusOr<RunPlan> Plan(const RunNeeds& needs) const;
  // What --dry-run prints: config with origins, plugins, tensors, bytes needed and available.
  absl::StatusOr<std::string> Describe(const RunNeeds& needs) const;

  // Text. Without a tokenizer: UsageError. Encode adds the begin and end tokens that the
  // tokenizer's own files and those beside it ask for (a SentencePiece .model by itself and a
  // meta.pkl say nothing of them).
  bool has_tokenizer() const;
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text,
                                              const TokenizeOptions& options) const;
  // Bytes of the ids; special tokens appear as their literals. May end within a UTF-8 character.
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const;
  // The most bytes that a prompt's text is read of: more than any text has whose tokens fit, as far
  // as that is known, and no more than a part of the memory there is.
  int64_t max_prompt_bytes() const;
  // One user turn (after run.system, if any) through the chat template, generation prompt included.
  // As with must_fit.
  absl::StatusOr<std::vector<int32_t>> EncodeMessage(std::string_view message) const;
  // What the user's next turn adds to a conversation whose last answer has ended with eot.
  absl::StatusOr<std::vector<int32_t>> EncodeNextTurn(std::string_view message) const;

  // Checks a request against the vocabulary, the model's context and cache.max_tokens, and the
  // header of the snapshot that it loads, without computing anything. Errors: UsageError (empty
  // prompt, id outside the vocabulary, a prompt that does not begin with the snapshot's ids),
  // LimitError ("prompt P + max_new_tokens N = S > ..."), ModelFileError (as LoadSequence; what
  // needs the weights is checked by Generate, before anything is computed).
  absl::Status CheckRequest(const GenerateRequest& request) const;

  // RuntimeError before Load.
  absl::StatusOr<StepCost> CostOfStep() const;
  // What the cache has counted since Load; empty before Load, and where the cache counts nothing.
  // Errors: PluginError.
  absl::StatusOr<std::vector<Statistic>> CacheStatistics() const;
  // What the plugins have to say about what they did, a line each: "attention differ: ...".
  absl::StatusOr<std::vector<std::string>> Reports() const;

  // Runs all requests as one ragged batch; results in the order of the requests. Those that the
  // cache has no room for wait until others finish, and those that begin like one whose prompt is
  // being computed until they can share that. On an error the finished requests have been reported
  // by on_done. RuntimeError before Load.
  absl::StatusOr<std::vector<Completion>> Generate(std::span<const GenerateRequest> requests,
                                                   const GenerateOptions& options);

  // Step by step, for programs with a loop of their own; RuntimeError before Load. Sequences are
  // named by what OpenSequence returned, until CloseSequence.
  absl::StatusOr<SequenceId> OpenSequence(int64_t capacity);
  // These two do nothing, and say 0, for a sequence that is not open.
  void CloseSequence(SequenceId sequence);
  int64_t SequenceLength(SequenceId sequence) const;
  // Forgets the tokens from `length` on. Errors: UsageError unless 0 <= length <= SequenceLength;
  // UnsupportedError where the cache cannot go back to this length: the sequence is as it was, it
  // can be truncated to 0 and fed again.
  absl::Status TruncateSequence(SequenceId sequence, int64_t length);
  // Errors (seed 000): "batch size mismatch", "cache must be empty", "prompt length exceeds T_max".
  absl::StatusOr<StepLogits> Prefill(std::span<const SequenceId> sequences,
                                     std::span<const std::vector<int32_t>> prompts);
  // The same for sequences that may hold tokens already: a prompt in chunks, a next turn.
  absl::StatusOr<StepLogits> Extend(std::span<const SequenceId> sequences,
                                    std::span<const std::vector<int32_t>> tokens,
                                    LogitRows rows = LogitRows::kLast);
  // Consumes exactly one token per sequence. Errors: "batch size mismatch", "cache overflow".
  absl::StatusOr<StepLogits> DecodeStep(std::span<const SequenceId> sequences,
                                        std::span<const int32_t> tokens);

  // Snapshots: the keys and values of a sequence in a file. What is fed to the sequence that a
  // snapshot was loaded into gives the same bits as what is fed to the one that it was saved from.
  // Both need RunNeeds::snapshots at Load (else RuntimeError) and a cache that keeps snapshots.
  //
  // Writes the file beside its place and renames it. ids: [SequenceLength], the tokens that the
  // sequence has been fed, at least one; the engine does not keep them. Errors: UsageError for
  // another number of ids or one outside the vocabulary, OutputError.
  absl::Status SaveSequence(SequenceId sequence, std::span<const int32_t> ids,
                            const std::string& path);
  // Opens a sequence with the file's tokens. Errors: ModelFileError when the file is damaged or was
  // made with another model, tokenizer, weight type, instruction set level, attention backend,
  // cache codec or build of ng; LimitError as OpenSequence, and when capacity is less than its
  // tokens.
  absl::StatusOr<LoadedSequence> LoadSequence(const std::string& path, int64_t capacity);

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ng

#endif  // NG_ENGINE_H_
