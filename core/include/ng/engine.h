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
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/answer_reader.h"
#include "ng/cache_capabilities.h"
#include "ng/cache_store.h"
#include "ng/chat_template.h"
#include "ng/config.h"
#include "ng/engine_options.h"
#include "ng/fingerprint.h"
#include "ng/isa.h"
#include "ng/plugin.h"
#include "ng/plugins.h"
#include "ng/point.h"
#include "ng/request.h"
#include "ng/run_plan.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

class Generation;
class Probe;
struct NamedOutput;

class Engine {
 public:
  // The config that Open would use. It has the options of the plugins that it names; their
  // libraries are opened. Of the model it reads only what its makers say of sampling. Errors: 2
  // config, 3 those files, 4 plugins.
  static absl::StatusOr<Config> ReadConfig(const EngineOptions& options);
  // The plugins that the config's folders offer. Opens none of them. Errors: 2 config, 4 folders.
  static absl::StatusOr<PluginHost> FindPlugins(const EngineOptions& options);

  // Errors: 2 config, 4 plugins and combinations that cannot run, 3 model or tokenizer files.
  static absl::StatusOr<std::unique_ptr<Engine>> Open(const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Reserves the cache and loads the weights. Errors: LimitError with bytes needed and available,
  // before weights are read; ModelFileError; InterruptedError.
  absl::Status Load(const RunNeeds& needs);

  // Writes the model's weights as the kernels read them, for model.packed: reads and packs all of
  // them, as Load does. Errors: UsageError where the weights are packed or random already;
  // ModelFileError, LimitError, OutputError, InterruptedError.
  absl::Status PackWeights(const std::string& path) const;
  // Whether model.packed holds what packing the model's files again gives: reads all of both.
  // Errors: UsageError without model.packed; ModelFileError, LimitError, InterruptedError.
  absl::Status VerifyPackedWeights() const;

  // Changes the config to what it would be with these overrides behind those of EngineOptions; what
  // an earlier call has set is gone. Only what a next call of Generate reads can change; CanSet
  // says of a key if it can: sampler.*, run.max_new_tokens, run.on_full, run.system, run.date,
  // run.template.*. Errors: UsageError for any other key, and those of Open; then nothing has
  // changed. References to config() end.
  absl::Status Set(std::span<const std::string> overrides);
  static bool CanSet(std::string_view key);

  const Config& config() const;
  const ModelShape& model_shape() const;
  std::string_view family() const;  // of the model, as its files call it: "llama"
  // The layers that have attention, rising: those that can be traced. In most models all of them.
  std::span<const int> attention_layers() const;
  // Where a step can be looked at, in the order in which a token meets it (ng/point.h).
  const std::vector<PointShape>& points() const;
  IsaLevel isa() const;
  int threads() const;
  // This process among those of the run, its ranks (fabric.name): 0 of 1 without others. All of
  // them make the same calls. Only rank 0 prints and writes.
  int rank() const;
  int ranks() const;
  // The groups of ranks that requests are dealt to (fabric.groups). Those of a group compute the
  // same tokens.
  int groups() const;
  // Of several ranks, which all call this at the same place: the first error that any of them
  // gives, on all of them; those above rank 0 have it as ToldElsewhere. After it no rank computes
  // anything more. Open, Load and Generate agree likewise about their own errors. With one rank:
  // `own`.
  absl::Status Agree(const absl::Status& own);
  // The text of rank 0 on all ranks, which all call this at the same place. With one rank it does
  // nothing. Errors: RuntimeError where a rank is missing.
  absl::Status ShareText(std::string* text);
  int64_t default_max_new_tokens() const;     // run.max_new_tokens
  std::span<const int32_t> stop_ids() const;  // run.stop_ids or the model's own
  // What the model's own metadata would have the sampler do and sampler.chain does not, as half a
  // sentence: "generation_config.json's temperature 0.6, top_p 0.9 are not used". Empty: nothing.
  const std::string& unused_sampling() const;
  // The files that the config's probes write when a run ends, for CheckOutputs (ng/files.h).
  std::vector<NamedOutput> probe_outputs() const;
  // What a run would take; reads no weights and reserves nothing. That it fits is for CheckMemory
  // to say. Errors: LimitError beyond the model's context or what the cache can hold; PluginError.
  absl::StatusOr<RunPlan> Plan(const RunNeeds& needs) const;
  // What --dry-run prints: config with origins, plugins, model, bytes needed and available. kAll:
  // also what becomes of each tensor.
  using Detail = DescribeDetail;
  absl::StatusOr<std::string> Describe(const RunNeeds& needs, Detail detail = Detail::kAll) const;

  // Whether the model has a chat template: EncodeMessage and EncodeConversation need one.
  bool has_chat_template() const;

  // Text. Without a tokenizer: UsageError. Encode adds the begin and end tokens that the
  // tokenizer's own files and those beside it ask for (a SentencePiece .model by itself and a
  // meta.pkl say nothing of them).
  bool has_tokenizer() const;
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text,
                                              const TokenizeOptions& options) const;
  // Bytes of the ids; special tokens appear as their literals. May end within a UTF-8 character.
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const;
  // [vocab_size], empty without a tokenizer; 1: a special, control or unknown token, whose bytes
  // are no text of the model's.
  std::span<const uint8_t> special_tokens() const;
  // [vocab_size], the bytes of each token; empty without a tokenizer.
  std::span<const std::string_view> token_bytes() const;
  // The most bytes that a prompt's text is read of: more than any text has whose tokens fit, as far
  // as that is known, and no more than a part of the memory there is.
  int64_t max_prompt_bytes() const;
  // One user turn (after run.system, if any) through the chat template, generation prompt included.
  // `tools`: those of a Conversation. As with must_fit.
  absl::StatusOr<std::vector<int32_t>> EncodeMessage(std::string_view message,
                                                     const std::string& tools = {}) const;
  // A whole conversation, which begins with run.system if that is set and no system text is there.
  // `fed`: as ChatTemplate::Encode (ng/chat_template.h). As with must_fit.
  absl::StatusOr<std::vector<int32_t>> EncodeConversation(const Conversation& conversation,
                                                          std::span<const int32_t> fed = {}) const;
  // Of a conversation's ids so many stand before what its last user message says: that message's
  // context. 0: nothing was said before it, nor by run.system. Errors: as EncodeConversation.
  absl::StatusOr<int64_t> ContextOf(const Conversation& conversation,
                                    std::span<const int32_t> ids) const;
  // A reader of the answer to a conversation, as ChatTemplate::ReadAnswer; the engine outlives it.
  absl::StatusOr<std::unique_ptr<AnswerReader>> ReadAnswer(const Conversation& conversation) const;
  // As ChatTemplate::CallGrammar.
  absl::StatusOr<std::string> CallGrammar(const Conversation& conversation,
                                          const CallChoice& choice) const;
  // As ChatTemplate::NotWritten.
  absl::StatusOr<std::string> NotWritten(const Conversation& conversation) const;
  // As ChatTemplate::ThoughtsGrammar.
  absl::StatusOr<std::string> ThoughtsGrammar(const Conversation& conversation) const;
  // The date that the chat template writes into a conversation, "2026-11-22"; empty where it writes
  // none. Without run.date it is another one every day.
  const std::string& template_date() const;

  // Checks a request against the vocabulary, the model's context and cache.max_tokens, and the
  // header of the snapshot that it loads, without computing anything. Errors: UsageError (empty
  // prompt, id outside the vocabulary, a prompt that does not begin with the snapshot's ids),
  // LimitError ("prompt P + max_new_tokens N = S > ..."), ModelFileError (as LoadSequence; what
  // needs the weights is checked by Generate, before anything is computed).
  absl::Status CheckRequest(const GenerateRequest& request) const;

  // What every bit of a run's keys and values depends on besides its ids: ng's version, the
  // instruction set level, the attention backend, codecs, and hashes of model and tokenizer.
  // RuntimeError unless Load was told of RunNeeds::identity or of snapshots.
  absl::StatusOr<std::vector<IdentityField>> Identity() const;

  // What the run is made of. Reads the plugins' libraries. RuntimeError as Identity; PluginError.
  absl::StatusOr<RunFingerprint> Fingerprint() const;

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
  // by on_done. RuntimeError before Load. With several groups of ranks each group takes the next
  // requests when it has room for them. The callbacks are called on rank 0, request by request in
  // their order; the completions of the other ranks say only whether the run was interrupted.
  // UsageError for what looks into the steps of another group: every callback but on_step and
  // on_done.
  absl::StatusOr<std::vector<Completion>> Generate(std::span<const GenerateRequest> requests,
                                                   const GenerateOptions& options);

  // The same one step at a time (ng/generation.h). The options are copied. Errors: those that
  // Generate finds before anything is computed; RuntimeError while another one, or a Session, has
  // the engine. Until it is gone Generate, Load and Set are refused likewise.
  absl::StatusOr<std::unique_ptr<Generation>> Begin(std::vector<GenerateRequest> requests,
                                                    GenerateOptions options);

  // Step by step, for programs with a loop of their own; RuntimeError before Load. Sequences are
  // named by what OpenSequence returned, until CloseSequence.
  absl::StatusOr<SequenceId> OpenSequence(int64_t capacity);
  // These two do nothing, and say 0, for a sequence that is not open.
  void CloseSequence(SequenceId sequence);
  int64_t SequenceLength(SequenceId sequence) const;
  // The most tokens that the next Extend with LogitRows::kAll takes of a sequence: fewer than all
  // where the cache takes no more at once, or changes behind them. 0 before Load.
  int64_t MostLogitRows(SequenceId sequence) const;
  // Forgets the tokens from `length` on. Errors: UsageError unless 0 <= length <= SequenceLength;
  // UnsupportedError where the cache cannot go back to this length: the sequence is as it was, it
  // can be truncated to 0 and fed again.
  absl::Status TruncateSequence(SequenceId sequence, int64_t length);
  // Whether the cache lets tokens go where the context of a text ends. Then requests say where that
  // is (GenerateRequest::context_tokens), and sequences must be told before they are fed.
  bool wants_context() const;
  // The first `n_tokens` of a sequence are its context. Without this run.context_tokens are. Where
  // the cache does not ask, nothing happens. Errors: UsageError for n_tokens < 1; UnsupportedError
  // where it is too late: the sequence holds as many tokens, or has had another context.
  absl::Status SetContext(SequenceId sequence, int64_t n_tokens);
  // Of several rules that the cache has (cache.budget.rules) the sequence goes by this one,
  // "knorm:256", at the end of its context. So a context is fed once up to its last token, and a
  // fork for each rule is fed the rest. Errors: UsageError for a rule that the cache does not have;
  // UnsupportedError where tokens have left already.
  absl::Status SetKeepRule(SequenceId sequence, std::string_view rule);
  // Opens a second sequence with the tokens of this one; what is fed to either gives the bits that
  // it would give without the other. Errors: as OpenSequence; UsageError for a sequence that is not
  // open; LimitError when `capacity` is less than its tokens.
  absl::StatusOr<SequenceId> ForkSequence(SequenceId sequence, int64_t capacity);
  // Feeds a whole prompt to each sequence, which must be empty. Errors: UsageError ("batch size
  // mismatch", "cache must be empty"), LimitError ("prompt length exceeds T_max").
  absl::StatusOr<StepLogits> Prefill(std::span<const SequenceId> sequences,
                                     std::span<const std::vector<int32_t>> prompts);
  // The same for sequences that may hold tokens already: a prompt in chunks, a next turn. Where the
  // cache holds no more than a sliding window, many tokens are fed in several steps, of which some
  // may have been done when an error comes.
  absl::StatusOr<StepLogits> Extend(std::span<const SequenceId> sequences,
                                    std::span<const std::vector<int32_t>> tokens,
                                    LogitRows rows = LogitRows::kLast);
  // Consumes exactly one token per sequence. Errors: "batch size mismatch", "cache overflow".
  absl::StatusOr<StepLogits> DecodeStep(std::span<const SequenceId> sequences,
                                        std::span<const int32_t> tokens);
  // Tells the probes of the config that what was fed step by step is all, so that they write what
  // they have gathered. Generate tells them itself. Errors: the probes' own, OutputError among
  // them.
  absl::Status EndRun();
  // Puts a probe behind those of probe.chain, for every step from now on until RemoveProbe, those
  // of sequences fed step by step among them. OnPoint alone is called. While one that edits is
  // there nothing is shared between requests, and what is fed then is in no snapshot, whose
  // identity says nothing of it: saving it is a UsageError. The host has no guard around it.
  // Errors: UsageError for a point that the model has not, for every_token, identity and files,
  // with several ranks, and for edits where run.on_full = recompute; RuntimeError while a
  // Generation or a Session has the engine.
  absl::Status AddProbe(std::unique_ptr<Probe> probe);
  // Destroys one that was added; nothing happens where it was not. RuntimeError as AddProbe.
  absl::Status RemoveProbe(const Probe* probe);
  // What the final norm and the head make of rows of the residual stream, such as those of a point
  // layer<L>.out: of the last layer's the step's own logits, bit for bit. The logits of the last
  // step stay. hidden: [n, width], logits: [n * vocab_size], both the caller's. Errors: UsageError
  // for other sizes; RuntimeError before Load.
  absl::Status HeadLogits(const TensorView<const float, 2>& hidden, std::span<float> logits);

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
  friend class Generation;
  friend class Session;
  struct __attribute__((visibility("hidden"))) State;
  explicit Engine(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_ENGINE_H_
