// ModelSpec: what the decoder needs to know about a model. Data, and not a class per family.
//
// A model is an embedding, layers and a head. A layer is a short list of blocks, and a block is an
// operation with norms around it, which adds to the residual stream. What several blocks share is
// there once: tables of RoPE, attentions, feed-forwards, mixtures of experts.
//
// Read from a model's own metadata by its family (families.h); the decoder walks the blocks.
#ifndef NG_CORE_MODEL_SPEC_MODEL_SPEC_H_
#define NG_CORE_MODEL_SPEC_MODEL_SPEC_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "ng/attention_backend.h"
#include "ng/plugin.h"

namespace ng {

enum class NormKind { kNone, kRmsNorm, kLayerNorm };

struct NormSpec {
  NormKind kind = NormKind::kNone;  // kNone: nothing is done
  float eps = 0.0F;
  bool weight = true;
  bool bias = false;
  float offset = 0.0F;  // what the file's weights lack

  bool is_there() const { return kind != NormKind::kNone; }
  bool has_weight() const { return is_there() && weight; }
  bool has_bias() const { return is_there() && bias; }
  bool operator==(const NormSpec&) const = default;
};

// How RoPE's frequencies are stretched over more positions than a model was first trained on.
enum class RopeScalingKind { kNone, kLinear, kLlama3, kYarn, kLongRope };

struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kNone;
  double factor = 1.0;
  // llama3: what turns fewer than low_freq_factor times over the original positions is slowed by
  // the factor, what turns more than high_freq_factor times is left, and in between both blend.
  double low_freq_factor = 0.0;
  double high_freq_factor = 0.0;  // > low_freq_factor
  int64_t original_positions = 0;
  // yarn: the same by pairs; those from low_pair on blend, those from high_pair on are slowed.
  double low_pair = 0.0;
  double high_pair = 0.0;
  std::vector<double> factors = {};  // longrope: [n_dims / 2], what each frequency is divided by
  double magnitude = 1.0;            // cosines and sines are multiplied by it
  // longrope: the factors of a run that goes beyond the original positions, [n_dims / 2].
  std::vector<double> far_factors = {};
  bool far = false;  // the model is as such runs have it

  bool operator==(const RopeScaling&) const = default;
};

struct RopeSpec {
  int64_t n_dims = 0;  // of a head's dimensions the first so many turn; even, above 0
  RopePairing pairing = RopePairing::kInterleaved;
  double theta = 0.0;
  RopeScaling scaling = {};
  bool factors = false;    // each frequency is divided by a factor of its own, in a tensor
  bool backwards = false;  // the other way round
  int64_t n_turning = 0;   // of the pairs the first so many turn, the others stand still; 0: all

  bool operator==(const RopeSpec&) const = default;
};

// Which values of q and k one norm is of, and whether it is before the rotation.
enum class QkNormKind {
  kHeads,           // each head, all with the same weights
  kHeadsAfterRope,  // the same after the rotation
  kEachHead,        // each head, with weights of its own
  kWidth,           // all heads of q together, and all of k
};

// Keys and values that all heads have in one narrow row (multi-head latent attention, DeepSeek-AI
// 2024): the first matrix gives a latent of q, one of k and v, and the part of k that turns, which
// is one for all heads. The latents are normed, and more matrices would make the heads of them.
//
// No head of k or v is made: attention and cache have one head, the latent of k and v and behind it
// the part of k that turns, and the latent is v too. A head's part of q that does not turn goes
// through the head's matrix of k, the other way round, to meet latents; what a head gives is a sum
// of latents, which its matrix of v makes narrow.
struct LatentSpec {
  int64_t q_rank = 0;   // 0: the first matrix gives q itself
  int64_t kv_rank = 0;  // 0: there are no latents
  int rope_dim = 0;     // of a head of q and of k the last so many dimensions, which turn
  NormSpec norm = {};   // of both latents

  bool is_there() const { return kv_rank > 0; }
  bool operator==(const LatentSpec&) const = default;
};

struct SelfAttentionSpec {
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int v_head_dim = 0;  // of v, and of what a head gives; 0: head_dim
  // The layer before whose keys and values are read, which has the same heads and window; -1: this
  // one has its own.
  int keys_of = -1;
  int rope = -1;                         // of ModelSpec::ropes; -1: none
  int64_t window = 0;                    // keys that a query sees, its own included; 0: all
  bool chunks = false;                   // of the window: a query sees those of its own chunk
  double scale = 0.0;                    // of the scores; 0: 1 / sqrt(head_dim)
  double soft_cap = 0.0;                 // of the scores; 0: none
  double clip = 0.0;                     // q, k and v are held within +-clip; 0: they are not
  std::vector<float> alibi_slopes = {};  // [n_heads]; empty: none
  std::vector<float> sinks = {};         // [n_heads], zeros: their values are weights; empty: none
  QueryTemperature temperature = {};
  bool gate = false;  // the result is multiplied by the sigmoid of as many more columns
  // With one: as many heads of k and v as of q, all of which are made of it; no gate, no biases, no
  // norms of heads.
  LatentSpec latent = {};
  NormSpec qk_norm = {};
  QkNormKind qk_norm_kind = QkNormKind::kHeads;
  NormSpec v_norm = {};  // of each head of v, without weights
  // v is k as it was before its norm and rotation: no matrix makes it. With no latents, gate,
  // biases.
  bool v_is_k = false;
  bool qkv_bias = false;
  bool out_bias = false;

  int value_dim() const { return v_head_dim == 0 ? head_dim : v_head_dim; }
  // Of the scores, as it is.
  double score_scale() const {
    return scale == 0.0 ? 1.0 / std::sqrt(static_cast<double>(head_dim)) : scale;
  }
  // The heads as attention and the cache see them, which have another shape with latents.
  int kv_heads() const { return latent.is_there() ? 1 : n_kv_heads; }
  int key_dim() const {
    return latent.is_there() ? static_cast<int>(latent.kv_rank) + latent.rope_dim : head_dim;
  }
  int attended_dim() const {
    return latent.is_there() ? static_cast<int>(latent.kv_rank) : value_dim();
  }
  // Of a head of q and of k the dimensions that do not turn. REQUIRES: there are latents.
  int nope_dim() const { return head_dim - latent.rope_dim; }
  int64_t q_width() const { return int64_t{n_heads} * key_dim(); }
  int64_t k_width() const { return int64_t{kv_heads()} * key_dim(); }
  // The latent is v, and lies in k.
  int64_t v_width() const { return latent.is_there() ? 0 : int64_t{n_kv_heads} * value_dim(); }
  // Of q as the model's matrices make it.
  int64_t own_q_width() const { return int64_t{n_heads} * head_dim; }
  bool has_keys() const { return keys_of < 0; }
  int64_t qkv_width() const { return q_width() + (has_keys() ? k_width() + v_width() : 0); }
  // A row of q, k, v and the gate.
  int64_t row_width() const { return qkv_width() + (gate ? out_width() : 0); }
  // What the first matrix gives: such a row, or the latents.
  int64_t in_width() const {
    if (latent.is_there()) return q_in_width() + latent.kv_rank + latent.rope_dim;
    return row_width() - (v_is_k && has_keys() ? v_width() : 0);
  }
  int64_t q_in_width() const { return latent.q_rank > 0 ? latent.q_rank : own_q_width(); }
  int64_t attended_width() const { return int64_t{n_heads} * attended_dim(); }
  // What the last matrix reads.
  int64_t out_width() const { return int64_t{n_heads} * value_dim(); }
  // Weights of the norm of so many heads of q or of k.
  int64_t qk_norm_values(int of_heads) const {
    const bool each = qk_norm_kind == QkNormKind::kWidth || qk_norm_kind == QkNormKind::kEachHead;
    return int64_t{each ? of_heads : 1} * head_dim;
  }
  bool operator==(const SelfAttentionSpec&) const = default;
};

// kXielu (Huang and Schlag 2024) has four values of its own in each layer.
enum class Activation { kSilu, kGeluErf, kGeluTanh, kRelu, kReluSquared, kXielu };

// What kXielu is made of: its alpha_p and alpha_n before their softplus, beta and eps.
inline constexpr int kXieluValues = 4;

// With the heads that every layer has.
inline SelfAttentionSpec AttentionOfShape(const ModelShape& shape) {
  return {.n_heads = shape.n_heads, .n_kv_heads = shape.n_kv_heads, .head_dim = shape.head_dim};
}

// activation(gate) * up, or activation(up) where there is no gate; then down.
struct FeedForwardSpec {
  int64_t width = 0;  // the inner one
  Activation activation = Activation::kSilu;
  bool gated = true;
  bool bias = false;
  // silu(slope * gate) / slope * (up + up_offset), of a gate of at most `limit` and an up within
  // +-limit; 0: no limit. REQUIRES: with any of these a gate, and silu.
  float slope = 1.0F;
  float up_offset = 0.0F;
  float limit = 0.0F;

  bool plain_gate() const { return slope == 1.0F && up_offset == 0.0F && limit == 0.0F; }
  // What the first matrix gives: 16 columns of gate and 16 of up in turn, so that one worker has
  // both, or up alone.
  int64_t gate_up_width() const { return gated ? (width + 15) / 16 * 32 : width; }
  bool operator==(const FeedForwardSpec&) const = default;
};

// Which experts a row goes to, and the weight of each. Computed in f32 from the row's own logits,
// so nothing depends on the other rows of a step. Of equal scores the expert with the lower index
// wins.
struct RouterSpec {
  int n_experts = 0;
  int n_used = 0;               // experts of each row
  bool sigmoid = false;         // of each logit by itself; else the softmax of all
  bool bias = false;            // of the logits
  bool selection_bias = false;  // added to the scores that are compared, and not to the weights
  int n_groups = 1;             // of experts, all of one size
  int n_groups_used = 1;        // those whose best scores have the largest sums
  int n_best = 2;               // of a group's scores so many: 2 or 1
  bool normalised = false;      // a row's weights are divided by their sum
  float least_sum = 0.0F;       // ... or by this where it is larger
  float added_to_sum = 0.0F;    // before they are divided by it
  float scale = 1.0F;           // of the weights
  float logit_scale = 1.0F;
  bool expert_scales = false;  // a weight is multiplied by a value of its expert
  // The weights are of what the experts read, and logits are compared, not scores.
  bool weighs_input = false;

  int group_size() const { return n_experts / n_groups; }
  bool operator==(const RouterSpec&) const = default;
};

// A feed-forward for each expert. A row gets the sum of its experts, each times its weight, from
// the best score down; then, where there is a shared one for all rows, that.
struct MixtureSpec {
  RouterSpec router = {};
  FeedForwardSpec expert = {};
  FeedForwardSpec shared = {};  // width 0: none
  bool shared_gate = false;     // times the sigmoid of one more logit of the router
  // Gemma 4's: router and shared feed-forward read rows of norms of their own, and what the shared
  // one and the experts give is normed before both are added. All or none; only with a shared one.
  NormSpec router_norm = {};
  NormSpec shared_norm = {};
  NormSpec shared_after = {};
  NormSpec experts_after = {};

  bool has_shared() const { return shared.width > 0; }
  bool norms_apart() const { return router_norm.is_there(); }
  int n_logits() const { return router.n_experts + (shared_gate ? 1 : 0); }
  bool operator==(const MixtureSpec&) const = default;
};

enum class StateKind {
  kShortConv,  // LFM2's (Liquid AI 2025): a convolution between two gates
  kDeltaRule,  // gated delta networks (Yang et al. 2024), as Qwen3-Next has them
  kMamba2,     // Dao and Gu 2024
};

// A block that keeps a state of fixed size in place of keys and values. The first matrix gives
// columns that a convolution over the last tokens goes over, a gate, and a few values for each
// head. A head holds a matrix [key_dim, value_dim]; with each token it fades, a product of the
// token's key and value is added, and the token's query reads it. A short convolution has no heads.
//
// Tokens go through it one after the other, however a text is split into steps (G1).
struct StateSpec {
  StateKind kind = StateKind::kShortConv;
  int64_t taps = 0;  // a convolution is over so many tokens, the last one included
  bool conv_bias = false;
  int64_t conv_width = 0;  // its columns
  int n_heads = 0;
  int n_groups = 0;  // of heads, which share a query and a key
  bool heads_in_turn =
      false;  // head i is of group i mod n_groups; else a group's heads lie together
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  bool in_bias = false;
  bool out_bias = false;
  NormSpec norm = {};       // of what each head gives, or with kMamba2 each group of heads
  float least_step = 0.0F;  // kMamba2: bounds of a token's step
  float largest_step = 0.0F;

  // What the heads give, which is what the last matrix reads.
  int64_t out_width() const { return n_heads == 0 ? conv_width : n_heads * value_dim; }
  int64_t key_width() const { return n_groups * key_dim; }
  // Values for each head behind the gate: the step, and with kDeltaRule before it how much of the
  // value is written.
  int64_t head_values() const {
    return kind == StateKind::kShortConv ? 0
                                         : int64_t{n_heads} * (kind == StateKind::kMamba2 ? 1 : 2);
  }
  // A row of the first matrix: the columns of the convolution, the gate, the values; of a short
  // convolution those columns and two gates.
  int64_t in_width() const {
    return kind == StateKind::kShortConv ? 3 * conv_width
                                         : conv_width + out_width() + head_values();
  }
  // Of one sequence: the rows that a convolution still needs, and the matrices of the heads.
  int64_t state_floats() const {
    return (taps - 1) * conv_width + int64_t{n_heads} * key_dim * value_dim;
  }
  bool operator==(const StateSpec&) const = default;
};

// kLayerInput: a feed-forward without a gate, whose inner values are multiplied by what the layer
// gets of the token beside the stream (LayerInputSpec).
enum class Operation { kAttention, kFeedForward, kMixture, kState, kLayerInput };

// What a block reads: the stream, or what the block before it read, so that both work in parallel.
enum class BlockInput { kStream, kOfBlockBefore };

// stream = stream_norm(stream + scale * after(operation(before(input)))). A norm that is not there
// leaves its rows as they are. `inner` is of the rows that the second matrix of attention or of a
// feed-forward reads.
struct BlockSpec {
  Operation operation = Operation::kAttention;
  int part = 0;  // of ModelSpec::attentions, feed_forwards, mixtures or states
  NormSpec before = {};
  NormSpec inner = {};
  NormSpec after = {};
  NormSpec stream_norm = {};
  BlockInput input = BlockInput::kStream;
  float scale = 1.0F;
  bool stream_factor = false;  // then the stream is multiplied by a value of the file

  // Tokens meet each other in it: attention, or what is in its place.
  bool mixes() const {
    return operation == Operation::kAttention || operation == Operation::kState;
  }
  // What it computes can be added to the stream at once.
  bool adds_directly() const { return !after.is_there() && scale == 1.0F; }
  bool operator==(const BlockSpec&) const = default;
};
// At most one block of attention or of a state, one of a feed-forward or a mixture, and one of a
// layer's input.
using LayerSpec = std::vector<BlockSpec>;

struct EmbeddingSpec {
  float scale = 1.0F;           // of the token's
  bool positions = false;       // one is there for each position, and added to the token's
  bool sinusoids = false;       // of the positions: they are computed, else learned
  int64_t position_offset = 0;  // rows of the positions' tensor that come before position 0
  NormSpec norm = {};

  bool operator==(const EmbeddingSpec&) const = default;
};

// What layers get of a token beside the stream, as Gemma 4 has it: of a second embedding, of so
// many values for each layer, the token's times `scale`; and a matrix times what the embedding
// gives, times `projection_scale`, of which the values of each layer are normed. Their sum over the
// root of 2.
struct LayerInputSpec {
  int64_t width = 0;       // of each layer; 0: there is none
  int64_t vocab_size = 0;  // at least the model's
  float scale = 1.0F;
  float projection_scale = 1.0F;
  NormSpec norm = {};

  bool is_there() const { return width > 0; }
  bool operator==(const LayerInputSpec&) const = default;
};

struct HeadSpec {
  NormSpec norm = {};  // before it
  bool tied = true;    // it is the token embedding
  bool bias = false;
  float scale = 1.0F;     // of the logits
  float soft_cap = 0.0F;  // logit = soft_cap * tanh(logit / soft_cap); 0: none

  bool as_they_are() const { return scale == 1.0F && soft_cap == 0.0F; }

  bool operator==(const HeadSpec&) const = default;
};

// Which of the processes of a run this one is (model/weights/rank_split.h).
struct RankSplit {
  int rank = 0;
  int ranks = 1;
};

// Which of the layers this process has, where several have some each (model/ranks/layer_split.h).
struct LayerSplit {
  int rank = 0;
  int ranks = 1;
  int first = 0;  // of its layers
  int end = 0;
  int64_t bytes = 0;  // that the file has of all this

  int n_layers() const { return end - first; }
  bool begins() const { return rank == 0; }        // it has the embedding
  bool ends() const { return rank == ranks - 1; }  // it has the head
  bool Has(int layer) const { return ranks == 1 || (layer >= first && layer < end); }
};

struct ModelSpec {
  std::string family;  // "niels-gpt"
  ModelShape shape;    // its heads are those of every layer
  int64_t width = 0;   // the residual stream
  // A run's last token, which nothing follows, needs no position.
  bool last_without_position = false;
  // RoPE may have other factors for runs beyond shape.max_positions. All positions of such a run
  // turn by them, so a run has one or the other from its start. This many positions it may have
  // then; 0: there are no such factors.
  int64_t far_positions = 0;

  EmbeddingSpec embedding;
  LayerInputSpec layer_input;
  std::vector<RopeSpec> ropes;                 // all distinct
  std::vector<SelfAttentionSpec> attentions;   // all distinct
  std::vector<FeedForwardSpec> feed_forwards;  // all distinct
  std::vector<MixtureSpec> mixtures;           // all distinct
  std::vector<StateSpec> states;               // all distinct
  std::vector<LayerSpec> layers;               // [n_layers]
  HeadSpec head;
  // What of all this is held and computed here. The rest of the spec is the whole model's.
  RankSplit split;
  LayerSplit layer_split;  // the layers that others have have no blocks

  bool has_embedding() const { return layer_split.begins() || (head.tied && layer_split.ends()); }
  bool has_head() const { return layer_split.ends(); }

  // The most tokens of a run, prompt and new ones; 0: unbounded.
  int64_t context() const {
    return shape.max_positions == 0 ? 0 : shape.max_positions + (last_without_position ? 1 : 0);
  }
  // The model of runs beyond shape.max_positions. REQUIRES: far_positions > 0. A tensor of factors
  // is for its file to exchange (UseLongContext, model_file.h).
  void UseLongContext() {
    shape.max_positions = std::exchange(far_positions, 0);
    for (RopeSpec& rope : ropes) {
      RopeScaling& scaling = rope.scaling;
      if (!scaling.far_factors.empty()) scaling.factors = std::exchange(scaling.far_factors, {});
      scaling.far = true;
    }
  }
  // A tensor has the factors of long runs, and this is the model of such.
  bool has_far_tensor() const {
    return std::ranges::any_of(
        ropes, [](const RopeSpec& rope) { return rope.factors && rope.scaling.far; });
  }
  // The narrowest window of any layer; 0: none has one.
  int64_t window() const {
    int64_t narrowest = 0;
    for (const SelfAttentionSpec& attention : attentions) {
      if (narrowest == 0 || (attention.window > 0 && attention.window < narrowest)) {
        narrowest = attention.window;
      }
    }
    return narrowest;
  }
  const SelfAttentionSpec& AttentionOf(const BlockSpec& block) const {
    return attentions[static_cast<size_t>(block.part)];
  }
  const FeedForwardSpec& FeedForwardOf(const BlockSpec& block) const {
    return feed_forwards[static_cast<size_t>(block.part)];
  }
  const MixtureSpec& MixtureOf(const BlockSpec& block) const {
    return mixtures[static_cast<size_t>(block.part)];
  }
  const StateSpec& StateOf(const BlockSpec& block) const {
    return states[static_cast<size_t>(block.part)];
  }
  // The values that all layers get of a token together.
  int64_t LayerInputWidth() const { return layer_input.width * shape.n_layers; }
  // What the second matrix of a block reads; 0: it is a mixture.
  int64_t InnerWidthOf(const BlockSpec& block) const {
    switch (block.operation) {
      case Operation::kAttention:
        return AttentionOf(block).out_width();
      case Operation::kFeedForward:
      case Operation::kLayerInput:
        return FeedForwardOf(block).width;
      case Operation::kState:
        return StateOf(block).out_width();
      case Operation::kMixture:
        return 0;
    }
    return 0;
  }
  // The block of a layer that does this; null where it has none.
  const BlockSpec* Find(size_t layer, Operation operation) const {
    const LayerSpec& blocks = layers[layer];
    const auto found = std::ranges::find(blocks, operation, &BlockSpec::operation);
    return found == blocks.end() ? nullptr : &*found;
  }
  // The layers that do this, rising.
  std::vector<int> LayersWith(Operation operation) const {
    std::vector<int> found;
    for (size_t i = 0; i < layers.size(); ++i) {
      if (Find(i, operation) != nullptr) found.push_back(static_cast<int>(i));
    }
    return found;
  }

  // The layer of the cache that each layer with attention reads. The cache holds those that have
  // keys of their own, and numbers them so.
  std::vector<int> CacheLayers() const {
    std::vector<int> all(layers.size());
    std::vector<int> attending;
    int n_held = 0;
    for (const int layer : LayersWith(Operation::kAttention)) {
      const BlockSpec& block = *Find(static_cast<size_t>(layer), Operation::kAttention);
      const SelfAttentionSpec& attention = AttentionOf(block);
      const int held =
          attention.has_keys() ? n_held++ : all[static_cast<size_t>(attention.keys_of)];
      all[static_cast<size_t>(layer)] = held;
      attending.push_back(held);
    }
    return attending;
  }

  // What a layer is made of. A state is in place of attention, a mixture in place of the
  // feed-forward.
  struct LayerParts {
    const SelfAttentionSpec& attention;
    const FeedForwardSpec& feed_forward;
    const MixtureSpec* mixture = nullptr;
    const StateSpec* state = nullptr;
  };
  // Adds a layer whose blocks of attention and feed-forward have these parts.
  void AddLayer(LayerSpec blocks, const LayerParts& parts) {
    for (BlockSpec& block : blocks) {
      if (block.operation == Operation::kAttention && parts.state == nullptr) {
        block.part = IndexIn(&attentions, parts.attention);
      } else if (block.operation == Operation::kAttention) {
        block.operation = Operation::kState;
        block.part = IndexIn(&states, *parts.state);
      } else if (parts.mixture == nullptr) {
        block.part = IndexIn(&feed_forwards, parts.feed_forward);
      } else {
        block.operation = Operation::kMixture;
        block.part = IndexIn(&mixtures, *parts.mixture);
      }
    }
    layers.push_back(std::move(blocks));
  }

  // The place of a value in a list of distinct ones, which gets it where it has not.
  template <typename Part>
  static int IndexIn(std::vector<Part>* distinct, const Part& wanted) {
    const auto found = std::ranges::find(*distinct, wanted);
    const auto index = static_cast<int>(found - distinct->begin());
    if (found == distinct->end()) distinct->push_back(wanted);
    return index;
  }
};

// A layer of attention and feed-forward, each with that norm before it.
inline LayerSpec PreNormLayer(const NormSpec& norm) {
  return {{.operation = Operation::kAttention, .before = norm},
          {.operation = Operation::kFeedForward, .before = norm}};
}

}  // namespace ng

#endif  // NG_CORE_MODEL_SPEC_MODEL_SPEC_H_
