// Decoder: the one decoder-only transformer. ids -> logits, calling attention and cache by layer.
#ifndef NG_CORE_MODEL_DECODER_DECODER_H_
#define NG_CORE_MODEL_DECODER_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/kernels/kernel_table.h"
#include "core/kernels/matmul.h"
#include "core/model/adapters/low_rank_inputs.h"
#include "core/model/load/layer_loader.h"
#include "core/model/ops/layer_attention.h"
#include "core/model/ops/state_store.h"
#include "core/model/ranks/layer_split.h"
#include "core/model/ranks/micro_batches.h"
#include "core/model/ranks/rank_link.h"
#include "core/model/rows/for_rows.h"
#include "core/model/rows/rope.h"
#include "core/model/spec/model_spec.h"
#include "core/model/step/language_model.h"
#include "core/model/step/step_batch.h"
#include "core/model/step/step_sizes.h"
#include "core/model/weights/rank_split.h"
#include "core/model/weights/weights.h"
#include "ng/attention_backend.h"
#include "ng/cache_capabilities.h"
#include "ng/cache_store.h"
#include "ng/executor.h"

namespace ng {

// The parts a decoder works with; all borrowed.
struct DecoderParts {
  Executor* executor = nullptr;
  const KernelTable* kernels = nullptr;
  CacheStore* cache = nullptr;
  StateStore* states = nullptr;
  RankLink* link = nullptr;       // null: this process computes all
  LayerLoader* loader = nullptr;  // of weights that are read in the first step; null: all are there
  std::span<const AdapterWeights> adapters = {};  // StepSequence::adapters is a place in it
  int pieces = 0;          // the most of a step's rows, which take turns; 0: where it gains time
  int64_t max_tokens = 0;  // per sequence, as far as it is known: what to have room for
};

class Decoder final : public LanguageModel {
 public:
  Decoder(const ModelSpec& spec, ModelWeights weights, LayerAttention attention,
          const DecoderParts& parts);

  const ModelShape& shape() const override { return spec_.shape; }
  absl::StatusOr<SequenceId> OpenSequence(std::span<const int32_t> prompt,
                                          int64_t capacity) override;
  void CloseSequence(SequenceId sequence) override;
  int64_t Length(SequenceId sequence) const override;
  int64_t Capacity(SequenceId sequence) const override;
  absl::Status Truncate(SequenceId sequence, int64_t length) override;
  // A second sequence with the same tokens, bit for bit. Errors: as CacheStore::Fork.
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, int64_t capacity);
  int64_t share_tokens() const override;
  int64_t ToBoundary(SequenceId sequence, int64_t begin) const override {
    return cache_plan_.ToBoundary(begin, Context(sequence));
  }
  bool wants_context() const override { return mark_ != nullptr; }
  absl::Status SetContext(SequenceId sequence, int64_t n_tokens) override;
  // As KeepRules has it, by the rule's name. Errors: UsageError for a rule that the cache does not
  // have; as KeepRules::SetRule.
  absl::Status SetKeepRule(SequenceId sequence, std::string_view rule);
  int64_t Context(SequenceId sequence) const override {
    return mark_ == nullptr ? 0 : mark_->Mark(sequence);
  }
  int64_t Gone(SequenceId sequence) const override;
  HeldPositions Held(SequenceId sequence) const override;
  bool tells_missed() const override { return parts_.link == nullptr && attention_.tells_missed(); }
  absl::Status Forward(const StepBatch& batch) override;
  TensorView<const float, 2> logits() const override;
  double read_s() const override {
    return parts_.loader == nullptr ? 0.0 : parts_.loader->seconds();
  }
  // The final norm and the head of rows of the residual stream, as Head does them. hidden:
  // [n, width], logits: [n * vocab_size]. May be called while an observer looks at a point. Errors:
  // UsageError for other sizes.
  absl::Status HeadLogits(const TensorView<const float, 2>& hidden, std::span<float> logits);

 private:
  // A norm of the spec's with its weights.
  struct Norm {
    const NormSpec& spec;
    const NormWeights& weights;
  };

  // A block with its weights and its input, [n_rows, width].
  struct Block {
    const BlockSpec& spec;
    const BlockWeights& w;
    const float* input;
  };

  // The step, where this process has all layers.
  absl::Status ForwardWhole(const StepBatch& batch);
  // The step, where it has some of them: one piece after the other, each handed on to the next
  // process, and the logits of all from the last one.
  absl::Status ForwardInPieces(const StepBatch& batch);
  // One piece, which has begun. `well`: no process has failed, this one included; others are told
  // with the rows.
  absl::Status ForwardPiece(const StepBatch& piece, bool* well);
  // One piece that somebody looks into: the processes compute it in turn, and each tells the others
  // what there is to see in its layers.
  absl::Status ForwardSeenPiece(const StepBatch& piece, bool* well);
  // Gives a piece the attention rows of the step that are its own.
  void KeepCapturesOf(const StepBatch& step, StepBatch* piece);
  // What follows the embedding, or the rows of the process before.
  absl::Status RunStack(const StepBatch& batch);
  // The layers from `first` to the one before `end`, of all rows or of a piece of them.
  absl::Status RunLayers(const StepBatch& batch, int first, int end);
  // All layers, with the rows in pieces where these can take turns, and gain time by that.
  absl::Status RunLayersInTurns(const StepBatch& batch);
  // The most pieces that the step's rows can be cut into, which take turns.
  int64_t MostPieces(const StepBatch& batch) const;
  // The layers from `first` on.
  absl::Status RunPieces(const StepBatch& batch, int first, int64_t n_pieces);
  // What all rows of the step go through together, pieces or not.
  absl::Status Together(absl::FunctionRef<absl::Status()> all);
  // Lays the batch out in rows and grows the buffers.
  void Begin(const StepBatch& batch);
  // Gives rows_ the tokens of sequences with adapters of their own as the cache lists them.
  void ListTokens(const StepBatch& batch);
  void Embed(const StepBatch& batch);  // tokens, and learned positions, into hidden_
  // What the layers get of the tokens beside the stream, where the model has it.
  absl::Status MakeLayerInputs(const StepBatch& batch);
  absl::Status RunLayer(const StepBatch& batch, int layer);
  // Rows of a step that an observer may look at.
  struct Looked {
    Point point;
    float* data;
    int64_t stride;  // floats from one row to the next
    int64_t n_heads;
    int64_t width;      // of a head, or of the row
    int64_t first = 0;  // of the step's rows the first of these, and how many; -1: all behind it
    int64_t n = -1;
  };
  bool Wants(Point point) const { return wanted_.Has(point); }
  // Whether somebody wants points or attention rows of the step.
  bool IsSeen(const StepBatch& batch) const;
  // Shows the rows to the observer, where it wants them, and tells other processes of them.
  absl::Status Look(const Looked& rows);
  absl::Status Show(const Looked& rows);
  // Between processes that have some of the layers: what there is to see in this one's, the end of
  // that, and the same of another one.
  enum class HookMessage : uint8_t { kPoint, kAttentionRows, kEnd };
  struct HookHeader;
  absl::Status TellPoint(const Looked& rows);
  absl::Status TellAttentionRows(const StepBatch& piece);
  // A header of that rank, and its floats in act_.gathered, on all.
  absl::Status ShareHook(int rank, HookHeader* header);
  absl::Status FollowHooks(const StepBatch& piece, int rank);
  absl::Status LookAt(Point point, std::vector<float>& buffer, int64_t width) {
    return Look({point, buffer.data(), width, 1, width});
  }
  absl::Status LookAtHeads(Point point, const TensorView<float, 3>& rows) {
    return Look({point, rows.data, rows.stride[0], rows.extent[1], rows.extent[2]});
  }
  void WantOf(const StepBatch& batch, int layer);  // from here on
  // A norm of a block's input into act_.shown, where an observer may change it.
  absl::Status ShowNormed(Point point, const Block& block);
  // The same as the matrix w.in reads it; where nobody looks, as Normed makes it.
  absl::StatusOr<MatmulInput> ShownInput(Point point, const Block& block);
  // What a block adds to the stream, without the norm of the stream.
  absl::Status RunBlock(const StepBatch& batch, int layer, const Block& block);
  absl::Status PlanAttention();
  // Anew, where the views of a layer lack other numbers of tokens than the rows say.
  absl::Status PlanSlots();
  absl::Status AttentionBlock(const StepBatch& batch, int layer, const Block& block);
  // From q, k and v of all rows in act_.qkv to what this rank's heads give, [n_rows, its heads,
  // attended_dim]: where it is sent from, or into act_.attended (`sent` is null).
  absl::Status Attend(const StepBatch& batch, int layer, const Block& block, const CutRows* sent);
  absl::Status FeedForwardBlock(int layer, const Block& block);
  absl::Status MixtureBlock(const Block& block);
  absl::Status StateBlock(int layer, const Block& block);
  // For a cache that goes by the attention that tokens got: asks what it wants to be told of the
  // step, makes room for it, and tells it of a layer that has run.
  void LayOutMass();
  std::span<const TensorView<float, 3>> MassOf(int n_kv_heads);
  absl::Status TellMass(int layer);
  // Adds what the queries of a layer missed to the step's rows.
  void AddMissed(const StepBatch& batch, int layer, const TensorView<float, 2>& missed);
  // For a cache that goes by queries before they are rotated: says how each layer rotates them, and
  // tells it of the rows at hand.
  void SetRotations();
  absl::Status TellQueries(int layer, const SelfAttentionSpec& attention);
  absl::Status Head(const StepBatch& batch);
  // Of the logits that this rank computes.
  const PackedMatrix& HeadMatrix() const { return spec_.head.tied ? tied_head_ : weights_.head; }
  // The logits of rows that the head reads, from all ranks.
  absl::Status MakeLogits(const MatmulInput& x, float* logits);
  // Where this rank writes its columns of rows, and putting them together: RankLink's, or nothing.
  float* Own(const CutRows& rows);
  absl::Status Gather(const CutRows& rows) { return Gather(std::span(&rows, 1)); }
  absl::Status Gather(std::span<const CutRows> rows);
  // Shows heads of q, k or v from all ranks. `first`: this rank's first among them.
  struct RankRows {
    std::span<const int64_t> given;
    int n_heads;
    int first;
  };
  // The captures of this rank's heads, as its backend numbers these; and giving what it captured to
  // the others, who have asked for the same.
  std::span<const ProbabilityRow> OwnCaptures(std::span<const ProbabilityRow> all,
                                              const RankHeads& heads);
  absl::Status ShareCaptures(std::span<const ProbabilityRow> all, const RankParts::Attention& part);
  absl::Status LookAtRankHeads(Point point, const TensorView<float, 3>& rows, const RankRows& all);
  // A norm of rows of hidden, which brings nothing of adapters, and any rows [n_rows, w.k],
  // `stride` floats apart, as the kernels of w read them. Valid until the next of either. `first`:
  // where in the input's buffer the rows begin.
  absl::StatusOr<MatmulInput> Normed(const Norm& norm, const float* x, int64_t n_rows,
                                     const PackedMatrix& w, int64_t first = 0);
  absl::StatusOr<MatmulInput> Rounded(const float* x, int64_t stride, const PackedMatrix& w);
  absl::StatusOr<MatmulInput> RoundedRows(const TensorView<const float, 2>& x, RowSets sets,
                                          const PackedMatrix& w);
  // Whether ranks give the rows between the matrices of a block as the second one reads them, which
  // nobody else does then.
  bool GivesRounded(const Block& block, std::span<const int64_t> given, Point point) const;
  // The rows that ranks give so, as w reads them. own: [n_rows, this rank's of `given`].
  absl::StatusOr<MatmulInput> GatherRounded(std::span<const int64_t> given, const float* own,
                                            const PackedMatrix& w);
  void FindLogitRows(const StepBatch& batch);  // of token_rows_
  // The adapters of rows [first, first + n) of those that are computed at a time.
  RowSets SetsOf(int64_t first, int64_t n) const;
  RowSets LogitSetsOf(const StepBatch& batch);
  MatmulCall Product(const PackedMatrix& w, const std::vector<float>& bias,
                     const MatmulInput& x) const {
    return {*parts_.kernels, *parts_.executor, w, bias.empty() ? nullptr : bias.data(), x};
  }
  MatmulInput InputRows(int64_t n_rows, const PackedMatrix& w);  // in the buffer, not yet filled
  // Pieces may be at different matrices, so each has room for the widest rows.
  std::byte* InputRoom() { return act_.input.data() + first_row_ * input_rows_.block; }
  // hidden += norm of the block's out(x * w^T (+ bias))
  absl::Status AddProduct(const Block& block, const MatmulInput& x);
  // From what the first matrix made in act_.latent to q and k in act_.qkv: latents and what turns.
  absl::Status ProjectLatents(const SelfAttentionSpec& attention, const BlockWeights& w);
  // Rows of heads, each `head_stride` floats behind the one before.
  struct HeadRows {
    float* data;
    int64_t stride;  // from one row to the next
    int64_t head_stride;
  };
  // Each head of x times its own matrix.
  absl::Status MultiplyHeads(std::span<const MatrixPair> heads, PackedMatrix MatrixPair::*matrix,
                             const HeadRows& x, const HeadRows& out);
  // What attention gave, times its gate.
  absl::Status Gate(const SelfAttentionSpec& attention, float* attended);
  absl::Status AddRows(const Block& block);  // the same of what is in act_.added
  // Rows [n_rows, n] in place, where the norm is there.
  absl::Status NormRows(const Norm& norm, int64_t n, float* rows);
  // One row, of n values.
  void Apply(const Norm& norm, const float* x, int64_t n, float* out) const;
  void ApplyOrCopy(const Norm& norm, const float* x, int64_t n, float* out) const;
  // q and k in qkv, by their rows' positions.
  absl::Status NormAndRotate(const BlockSpec& block, const BlockWeights& w);
  // The norms over all heads of q and of k, of all ranks.
  absl::Status NormOverRanks(const BlockSpec& block, const BlockWeights& w);
  // The values of v in one row of qkv, where they are made of k or normed; k is as it came.
  void MakeValues(const SelfAttentionSpec& attention, const BlockWeights& w, float* heads) const;
  // The norms of q and k in one row of qkv.
  void NormHeads(const RankParts::Attention& part, const BlockWeights& w, float* heads) const;
  void FinishLogits(int64_t n_rows, float* logits) const;  // scale and soft cap
  // body(row, worker), on this thread when there are few rows, else spread over the executor.
  template <typename Body>
  absl::Status ForRows(int64_t n_rows, Body&& body) {
    return ng::ForRows(*parts_.executor, n_rows, std::forward<Body>(body));
  }
  // The rows at hand of a buffer of the step's rows.
  float* At(std::vector<float>& buffer, int64_t width) {
    return buffer.data() + first_row_ * width;
  }
  TensorView<float, 2> Rows(std::vector<float>& buffer, int64_t width);  // [n_rows_, width]

  ModelSpec spec_;
  ModelWeights weights_;
  DecoderParts parts_;
  RankParts ranks_;
  PackedMatrix tied_head_;  // the embedding, or this rank's outputs of it
  LayerAttention attention_;
  // The cache's; null: it has not the capability.
  PrefixSharing* const sharing_;
  AttendedMass* const mass_wanted_;
  PlainQueries* const queries_wanted_;
  const CachePlan cache_plan_;
  ContextMark* const mark_;       // null: the cache has no use of it
  KeepRules* const rules_;        // null: tokens leave by one rule, or none
  const bool slots_;              // of its tokens some may have left
  std::vector<RopeTable> ropes_;  // of each of the spec's
  // Of each layer: its number among those with attention, or with a state. [n_layers]
  std::vector<int> numbers_;
  std::vector<int> cache_layers_;  // that those with attention read, by number
  WidestRows input_rows_;          // the widest that a matmul reads

  // Who looks into the step, at which points of the layer at hand.
  StepObserver* observer_ = nullptr;
  int layer_ = -1;
  PointSet wanted_;
  std::vector<TokenRow> token_rows_;  // [n_rows]; behind the layers [n_logit_rows]

  // The step at hand. Buffers only ever grow, so a decode step allocates nothing.
  // Its rows that are computed now: all, or the piece whose turn it is.
  int64_t first_row_ = 0;
  int64_t n_rows_ = 0;
  MicroBatches* turns_ = nullptr;  // null: the rows are not in pieces
  int64_t n_logit_rows_ = 0;
  StepPieces pieces_;               // where this process has some of the layers
  int64_t first_logit_row_ = 0;     // of the piece at hand, among those of the step
  std::vector<SequenceRows> rows_;  // [n_sequences]
  std::vector<int64_t> row_pos_;    // [n_rows]
  std::vector<int32_t> row_sets_;   // [n_rows] of adapters; empty: all rows have the first
  std::vector<int32_t> listed_;     // [n_rows], of ListTokens
  std::vector<KvView> views_;       // [n_sequences]
  Activations act_;
  LowRankInputs low_rank_;
  std::vector<float> scratch_;  // the attention backend's
  std::vector<float> queries_;  // [n_rows, q_width] of a layer, before RoPE, where they are wanted
  std::vector<float> mass_;     // what queries give to slots, one sequence after the other
  std::vector<float> missed_;   // [n_rows, n_heads] of a layer, where it is wanted
  std::vector<ProbabilityRow> own_captures_;
  std::vector<std::vector<ProbabilityRow>> seen_rows_;  // [n_layers] of a piece
  std::vector<TensorView<float, 3>> masses_;            // [n_sequences] of a layer, in mass_

  std::vector<int32_t> logit_sets_;  // [n_logit_rows], as row_sets_

  // Of HeadLogits; empty where nobody calls it.
  std::vector<float> head_normed_;     // [n, width]
  std::vector<std::byte> head_input_;  // the same as the head's kernels read it
};

}  // namespace ng

#endif  // NG_CORE_MODEL_DECODER_DECODER_H_
