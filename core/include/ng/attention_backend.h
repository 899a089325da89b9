// AttentionBackend: scaled dot-product attention of new queries over cached keys and values.
//
// To try a rule of your own (which keys a query sees, what becomes of a score), derive from
// RuleAttention (ng/rule_attention.h), which does all of what follows. This interface is for who
// computes attention in another way: faster, or from another layout.
//
//   out[t, h] = sum_j softmax_j(scale * q[t, h] . k[j, h_kv]) v[j, h_kv],  0 <= j <= pos(t)
//
// with h_kv = h / (n_heads / n_kv_heads). Masking follows from positions alone: a query at absolute
// position p attends to keys 0..p of its own sequence, as far as they are held, and to
// nothing else. (Vaswani et al. 2017;
// grouped heads: Ainslie et al. 2023.) What a model wants beyond this is a field of AttentionSpec.
//
// Bit contract: out[t, h] depends on q[t, h] and the stored keys and values 0..p only; never on how
// the tokens were split into steps, on the other sequences or heads of the batch, or on threads.
//
// Implemented by attention plugins; called by the engine, on its own thread: [load] before the
// first step and after the last one, [step] within a step. Work is spread with the Executor given
// at create.
#ifndef NG_ATTENTION_BACKEND_H_
#define NG_ATTENTION_BACKEND_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ng/cache_store.h"
#include "ng/kv_view.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

#pragma GCC visibility push(default)
namespace ng {

// The query at position p is multiplied by 1 + coefficient * log(1 + floor((p + offset) / length)).
// Llama 4 has offset 1, Ministral 3 has offset 0.
struct QueryTemperature {
  double coefficient = 0.0;  // 0: the query stays as it is
  int64_t length = 1;        // > 0
  int64_t offset = 1;

  double At(int64_t pos) const {
    if (coefficient == 0.0) return 1.0;
    const int64_t n_lengths = (pos + offset) / length;
    return 1.0 + coefficient * std::log1p(static_cast<double>(n_lengths));
  }
  bool operator==(const QueryTemperature&) const = default;
};

// What a layer asks of attention. A field that says "none" by default is a feature: the engine
// refuses a backend that does not list the feature where a model sets the field, so a backend need
// not look at fields that it does not list. The spans are borrowed and outlive backend and plans.
//
// With all of them, the score of key j for the query at position p and head h is
//   s = scale * temperature(p) * q . k[j]
//   s = soft_cap * tanh(s / soft_cap)            where there is a soft cap
//   s = s - alibi_slopes[h] * (p - j)            where there are slopes
// over the keys max(0, p - window + 1)..p, or 0..p without a window, or those of the chunk of
// `window` keys that p is in. A sink is one more score of
// the softmax, which has no value: it takes its share, so that the others add to less than 1.
struct AttentionSpec {
  int layer = 0;  // the first of the layers that ask for this
  int n_heads = 0;
  int n_kv_heads = 0;  // n_heads is a multiple
  int head_dim = 0;    // of Q and K
  int v_head_dim = 0;  // of V and out; most models: head_dim
  float scale = 0.0F;  // usually 1 / sqrt(head_dim)

  int64_t window = 0;                        // keys that a query sees, its own among them; 0: all
  float soft_cap = 0.0F;                     // 0: none
  bool chunks = false;                       // the window is a chunk: it begins at a multiple
  std::span<const float> sinks = {};         // [n_heads]; empty: none
  std::span<const float> alibi_slopes = {};  // [n_heads]; empty: none
  QueryTemperature query_temperature = {};   // coefficient 0: none
  // V is the first v_head_dim numbers of K, and views may hold K alone (KvView::v_in_k). Set only
  // for a backend that lists the feature; with any other V is held apart.
  bool v_in_k = false;

  // The first key that the query at `pos` sees; it never moves to the left.
  int64_t FirstKey(int64_t pos) const {
    if (window == 0 || pos < window) return 0;
    return chunks ? pos - pos % window : pos - window + 1;
  }
};

// The names of features, for AttentionBackend::features. The first eight are fields of the spec.
inline constexpr std::string_view kFeatureWindow = "window";
inline constexpr std::string_view kFeatureSoftCap = "soft_cap";
inline constexpr std::string_view kFeatureSinks = "sinks";
inline constexpr std::string_view kFeatureAlibi = "alibi";
inline constexpr std::string_view kFeatureQueryTemperature = "query_temperature";
inline constexpr std::string_view kFeatureChunkedWindow = "chunked_window";
inline constexpr std::string_view kFeatureVHeadDim = "v_head_dim";  // may differ from head_dim
inline constexpr std::string_view kFeatureVInK = "v_in_k";          // reads V out of K
inline constexpr std::string_view kFeatureHoles = "holes";          // reads views that lack tokens
inline constexpr std::string_view kFeatureAttended = "attended";    // fills AttentionRun::attended
inline constexpr std::string_view kFeatureSlots = "slots";    // reads views whose tokens have left
inline constexpr std::string_view kFeatureMissed = "missed";  // fills AttentionRun::missed
// Reads views whose kv heads hold different numbers of tokens.
inline constexpr std::string_view kFeatureHeadSlots = "head_slots";
// All of them.
inline constexpr std::string_view kAttentionFeatures[] = {kFeatureWindow,
                                                          kFeatureSoftCap,
                                                          kFeatureSinks,
                                                          kFeatureAlibi,
                                                          kFeatureQueryTemperature,
                                                          kFeatureChunkedWindow,
                                                          kFeatureVHeadDim,
                                                          kFeatureVInK,
                                                          kFeatureHoles,
                                                          kFeatureAttended,
                                                          kFeatureSlots,
                                                          kFeatureMissed,
                                                          kFeatureHeadSlots};

// How the cache stores what the backend reads, and what it wants of the backend.
struct CacheFormat {
  std::string_view layout;
  Codec codec_k = Codec::kF32;
  Codec codec_v = Codec::kF32;
  bool holes = false;       // views may lack tokens (kFeatureHoles)
  bool attended = false;    // the store is told what was attended to (kFeatureAttended)
  bool slots = false;       // views may have KvView::gone (kFeatureSlots)
  bool head_slots = false;  // and KvView::heads (kFeatureHeadSlots)
};

// How a backend does a step, made by its NewPlan, filled by its Plan and read by its Run. A backend
// that needs more than this derives a plan of its own and casts: it is given no other plans than
// those that it made itself. Owned by the engine, which reuses it for every step.
class AttentionPlan {
 public:
  explicit AttentionPlan(const AttentionSpec& asked) : spec(asked) {}
  virtual ~AttentionPlan() = default;
  AttentionPlan(const AttentionPlan&) = delete;
  AttentionPlan& operator=(const AttentionPlan&) = delete;

  const AttentionSpec spec;
  int64_t scratch_floats = 0;  // that Run needs for this step
  int64_t bytes = 0;           // of memory that the plan itself holds
};

// A request for the probabilities of one query and head, exactly as used for its output; 0 for the
// keys that the query does not see.
struct ProbabilityRow {
  int32_t sequence = 0;  // index into the step's rows
  int64_t pos = 0;       // absolute position of the query
  int32_t head = 0;
  float* out = nullptr;  // [pos + 1], the caller's
};

// The rows of `sorted` (AttentionRun::captures) that ask for one query and head; all must be
// filled.
std::span<const ProbabilityRow> FindCaptures(std::span<const ProbabilityRow> sorted,
                                             int32_t sequence, int64_t pos, int32_t head);

// One layer of a step. All of it is the engine's, valid during the call.
struct AttentionRun {
  int layer = 0;
  std::span<const SequenceRows> rows;  // as given to Plan
  TensorView<const float, 3> q;        // [n_rows, n_heads, head_dim], rotated
  std::span<const KvView> views;       // one per entry of rows
  TensorView<float, 3> out;            // [n_rows, n_heads, v_head_dim]
  std::span<float> scratch;            // at least plan.scratch_floats, 64-byte aligned
  // Sorted by (sequence, pos, head); usually empty. The same query and head may be there several
  // times: each of these rows must be filled.
  std::span<const ProbabilityRow> captures;
  // Where the probabilities go that the last mass_tokens queries of each entry of rows give to the
  // slots of its view, each the sum over the heads that share the kv head: [mass_tokens,
  // n_kv_heads, n_slots], to be filled, with 0 for what a query does not see and behind the slots
  // of a kv head that has fewer. Bit contract: a row
  // depends on what its outputs depend on. Empty: nobody asks. (kFeatureAttended)
  std::span<const TensorView<float, 3>> attended;
  // Of a backend that does not read all that a query sees: the share of its attention that what was
  // not read would have had, 0 to 1. [n_rows, n_heads], to be filled; without data nobody asks.
  // (kFeatureMissed)
  TensorView<float, 2> missed = {};
};

class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;

  // [load] The cache layouts it reads, by preference; at least one. Static text.
  virtual std::span<const std::string_view> layouts() const = 0;

  // [load] The features that it implements, of the names above. Static text.
  virtual std::span<const std::string_view> features() const { return {}; }

  // [load] Of the keys that a query sees it reads so many of each kv head at most; 0: all of them.
  virtual int64_t most_keys() const { return 0; }

  // [load] OK when a layer with this spec can run over this cache, else one line saying which part
  // cannot and what could. Asked before weights load, and only where features() lists all that spec
  // and format set: what is left to judge is codec, layout and sizes.
  virtual absl::Status Supports(const AttentionSpec& spec, const CacheFormat& format) const = 0;

  // [load] An empty plan for layers with this spec. Called once for each distinct spec of a model.
  virtual absl::StatusOr<std::unique_ptr<AttentionPlan>> NewPlan(const AttentionSpec& spec) = 0;

  // [step] Fills the plan for a step; called once a step and plan, and again before a layer of
  // which other numbers of tokens have left than of the one before. It allocates only where the
  // plan has not been as large before. Also called before weights load, of steps that may come, for
  // what they would need. `rows` is borrowed for the call; Run gets the same again. Where tokens
  // have left, SequenceRows::gone says how many, or SequenceRows::heads of which head: the keys of
  // an entry are its view's slots.
  virtual absl::Status Plan(std::span<const SequenceRows> rows, AttentionPlan& plan) = 0;

  // [step] Computes one layer. The views hold every key up to each sequence's last new token.
  virtual absl::Status Run(const AttentionPlan& plan, const AttentionRun& run) = 0;

  // [load] One line for the end of a run: what the backend has to say about what it did. Empty:
  // nothing.
  virtual std::string Report() const { return {}; }
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_ATTENTION_BACKEND_H_
