// CacheStore: keeps the keys and values of many sequences, outside the model.
//
// To change what is kept, or where, derive from ContiguousTileStore or TileStore
// (ng/tile_store.h), which write and read rows in every codec. This interface is for who stores
// rows in another way.
//
// Implemented by cache plugins; called by the engine, on its own thread: [load] before the first
// step and after the last one, [step] within a step or between two. What is marked [worker] is
// called by the Executor's threads too, many at once.
//
// All memory is reserved by create; nothing is allocated between Open and Close. What create need
// not write it leaves untouched: weights are read before the first token comes.
//
// The life of a step: for each layer the engine calls Append with the new rows of every sequence
// (keys already rotated), then hands View()s to the attention backend; after the last layer it
// calls Commit once, and only then do lengths move. A step that is abandoned before Commit leaves
// every length as it was; its rows are overwritten by the next Append.
//
// This is all that a store must do. What only some stores can do has an interface of its own in
// ng/cache_capabilities.h: sharing prefixes, snapshots, statistics, going by attention or
// by queries, marks, rules.
#ifndef NG_CACHE_STORE_H_
#define NG_CACHE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "ng/kv_view.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

#pragma GCC visibility push(default)
namespace ng {

// What a store must hold.
struct CacheSpec {
  int n_layers = 0;
  int n_kv_heads = 0;
  int n_heads = 0;         // of queries, the most of any layer; 0: not known
  int head_dim = 0;        // of K, and of V where v_head_dim is 0
  int64_t max_tokens = 0;  // per sequence
  int max_sequences = 0;   // open at the same time
  Codec codec_k = Codec::kF32;
  Codec codec_v = Codec::kF32;
  // What the attention backend reads, by preference; borrowed for the call. The store uses the
  // first that it writes; kLayoutAny leaves the choice to the store.
  std::span<const std::string_view> layouts = {};
  // The most new tokens of one sequence in one step. A store that keeps fewer than max_tokens may
  // refuse a longer step: LimitError from Append, before anything is written. 0: as many as
  // max_tokens.
  int64_t max_step_tokens = 0;
  // The most tokens of a sequence in a step with drafts, after which the last of them may be
  // truncated; 0: nothing is drafted.
  int64_t draft_tokens = 0;
  // A query looks at so many tokens at most, its own among them; 0: at all. A store need not hold
  // what no later query sees: with Length() tokens committed, those before Length() - window + 1.
  // Its views then have KvView::first. A store that does not look at this field holds all.
  int64_t window = 0;
  // Of V, where that is not the width of K; 0: it is. Only a store whose plan has `v_head_dim` is
  // given another width than head_dim.
  int v_head_dim = 0;
  // V of a token is the first value_dim() numbers of its K. A store that looks at this holds K
  // alone where both have one codec, and its plan has `v_in_k`; any other store holds V too.
  bool v_in_k = false;
  // Which layers these are of all that the run's stores have, rising; borrowed for the call. Empty:
  // 0, 1, ...
  std::span<const int> layers = {};  // [n_layers] or empty
  int n_run_layers = 0;              // of all that the run's stores have; 0: n_layers

  int value_dim() const { return v_head_dim == 0 ? head_dim : v_head_dim; }
  // The most tokens of a sequence that must be held at one time, those of a step among them.
  int64_t held_tokens() const {
    if (window == 0 || max_step_tokens == 0 || max_step_tokens >= max_tokens) return max_tokens;
    return window - 1 >= max_tokens - max_step_tokens ? max_tokens : window - 1 + max_step_tokens;
  }
  // The first token that a query may see which comes behind `length` tokens.
  int64_t FirstSeen(int64_t length) const {
    return window == 0 || length < window ? 0 : length - window + 1;
  }
};

// What a store would do with a spec.
struct CachePlan {
  std::string_view layout;      // static text
  int64_t bytes = 0;            // of memory, reserved by create, in all
  int64_t bytes_per_token = 0;  // K and V of one token in all layers, at least 1
  // Prompts that begin alike share what they have in common, in pieces of so many tokens; 0: they
  // do not. Above 0 only with the capability PrefixSharing.
  int64_t share_tokens = 0;
  // What 16 tokens take in an image of one layer; above 0 only with the capability Snapshots.
  int64_t image_tile_bytes = 0;
  // The name of what is stored, for users, where it is none of ng's codecs: "e4m3". Empty: the
  // spec's codecs. A store with a codec of its own refuses every spec but the default, f32.
  std::string codec = {};
  int64_t disk_bytes = 0;  // of files that create makes
  // The store may drop tokens, or round them by what was attended. What a token sees may then
  // depend on how its text was split into steps, and users are told so. Such a store shares no
  // prefixes and keeps no snapshots.
  bool approximate = false;
  // Some tokens may be gone: views may have KvView::present. Only if approximate. Only backends
  // that list the feature "holes" can run with it.
  bool holes = false;
  // The store has the capability AttendedMass. Only backends that list the feature "attended" can
  // run with it.
  bool attended = false;
  // The store has the capability PlainQueries. Models whose queries have no such rows are refused.
  bool queries = false;
  // The store looks at CacheSpec::v_head_dim: rows of V have that width. A store that leaves this
  // out keeps V as wide as K, and models in which the two differ are refused.
  bool v_head_dim = false;
  // V is not held, it is read out of K: views have KvView::v_in_k. Only where the spec has v_in_k.
  bool v_in_k = false;
  // What is held of a sequence changes only in a Commit that brings its length to a multiple of so
  // many tokens, and by positions, keys and values alone. So no step goes past such a place: the
  // engine cuts every step there, and a step with drafts ends before it. Truncate to before one may
  // be an UnsupportedError. 0: what is held never changes.
  int64_t boundary_tokens = 0;
  // The most slots of a sequence in any layer. Above 0 tokens leave for good at boundaries, and
  // views may have KvView::gone, of other numbers in other layers. Only with boundary_tokens or
  // `mark`, and only backends that list the feature "slots" can run with it. Such a store shares no
  // prefixes, and of its sequences there are images of the whole alone (sequence_images).
  int64_t slots = 0;
  // Kv heads of a layer may hold different numbers of tokens: views may have KvView::heads. `slots`
  // is then what they hold on the average, and this the most slots of one head. Only with `slots`,
  // and only backends that list the feature "head_slots" can run with it. 0: all hold as many.
  int64_t head_slots = 0;
  // The store has the capability SequenceImages.
  bool sequence_images = false;
  // The mark of a sequence, which the store is told by its capability ContextMark, is a boundary
  // too: what is held changes in the Commit that brings the length there.
  bool mark = false;

  // The tokens from `length` on that a step may bring at most, of a sequence with this mark (0: it
  // has none).
  int64_t ToBoundary(int64_t length, int64_t mark_at = 0) const {
    const int64_t most = boundary_tokens == 0 ? std::numeric_limits<int64_t>::max()
                                              : boundary_tokens - length % boundary_tokens;
    return mark && mark_at > length && mark_at - length < most ? mark_at - length : most;
  }

  // The most slots of one kv head of a sequence; 0: as many as the sequence has tokens.
  int64_t most_slots() const { return head_slots > 0 ? head_slots : slots; }

  bool operator==(const CachePlan&) const = default;
};

// New rows of one sequence within a step. Rows [row_begin, row_begin + n_tokens) of the step's
// tensors are its tokens at positions [start_pos, start_pos + n_tokens).
struct SequenceRows {
  SequenceId sequence = 0;
  int64_t start_pos = 0;
  int64_t n_tokens = 0;
  int64_t row_begin = 0;
  // Their ids, for a store that shares prefixes; empty: not known. Within a store the same ids from
  // position 0 on always have the same keys and values. Tokens that are computed with adapters of
  // their own have ids behind the vocabulary's.
  std::span<const int32_t> tokens = {};  // [n_tokens] or empty
  // For backends: of the tokens before start_pos so many have left the layers that are read
  // (KvView::gone). Stores are told nothing here.
  int64_t gone = 0;
  // For backends: of each kv head, where these hold different numbers (KvView::heads).
  std::span<const HeadSlots> heads = {};  // [n_kv_heads] or empty
  // For backends: of so many tokens, the last ones, AttentionRun::attended is asked for.
  int64_t mass_tokens = 0;

  int64_t GoneOf(int kv_head) const {
    return heads.empty() ? gone : heads[static_cast<size_t>(kv_head)].gone;
  }
};

enum class KvPart { kKey, kValue };

class CacheStore {
 public:
  virtual ~CacheStore() = default;

  // [load] As returned by the factory's plan for the same spec.
  virtual CachePlan plan() const = 0;

  // [step] Opens an empty sequence that may grow to `capacity` tokens. Its id is in
  // [0, max_sequences) and names no other open sequence.
  // Errors: LimitError when capacity > max_tokens or nothing is free, with the numbers.
  virtual absl::StatusOr<SequenceId> Open(int64_t capacity) = 0;

  // [step] Gives the sequence's memory back. REQUIRES: `sequence` is open (here and below).
  virtual void Close(SequenceId sequence) = 0;

  // [step] Tokens committed, and how many the sequence may hold.
  virtual int64_t Length(SequenceId sequence) const = 0;
  virtual int64_t Capacity(SequenceId sequence) const = 0;

  // [step] Forgets the tokens from `length` on. Every store can go back to 0.
  // Errors: RuntimeError when length is negative or above Length(). UnsupportedError when the store
  // cannot go back to this length, because it has dropped tokens that are needed there. The
  // sequence then stays as it was; the caller may truncate it to 0 and feed the tokens again.
  virtual absl::Status Truncate(SequenceId sequence, int64_t length) = 0;

  // [step] Opens a second sequence with the same tokens, bit for bit. Errors: as Open, and when
  // capacity < Length(sequence).
  virtual absl::StatusOr<SequenceId> Fork(SequenceId sequence, int64_t capacity) = 0;

  // [step] Writes the rows' keys and values of one layer, converting each row once to the codec.
  // k: [n_rows, n_kv_heads, head_dim]; v: [n_rows, n_kv_heads, value_dim], where the spec has
  // v_in_k the first numbers of k
  // Errors: LimitError "cache overflow: ..." when a row would lie beyond its sequence's capacity,
  // before anything is written; alike when a sequence writes to what it shares with another one and
  // has been truncated since it was opened, and the store has nothing left for the copy.
  // REQUIRES: start_pos == Length(sequence); sequences are distinct; no row is beyond the next
  // boundary of the plan.
  virtual absl::Status Append(int layer, std::span<const SequenceRows> rows,
                              const TensorView<const float, 3>& k,
                              const TensorView<const float, 3>& v) = 0;

  // [step] Moves each sequence's length past its rows. REQUIRES: every layer has been appended.
  virtual absl::Status Commit(std::span<const SequenceRows> rows) = 0;

  // [step] The first `length` tokens of a sequence in one layer, as far as they are held. REQUIRES:
  // length <= Length() plus what has been appended to this layer since the last Commit.
  virtual KvView View(int layer, SequenceId sequence, int64_t length) const = 0;

  // [worker] Decodes one stored row exactly as every reader must see it; slow, for `reference` and
  // tests. out: [head_dim], or of V [value_dim]. REQUIRES: view.Holds(kv_head, token).
  virtual void CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
                       float* out) const = 0;

  // [load] One line for the end of a run: what the store has to say about what it did. Empty:
  // nothing.
  virtual std::string Report() const { return {}; }

  // [load] The capability of this name as a pointer to its interface, which lives as long as the
  // store; null: the store has no such capability. The answer is the same at every call. A store
  // answers with OfferCapability, callers ask with CapabilityOf (both in ng/cache_capabilities.h),
  // and a store that wraps another one may forward the call.
  virtual void* Capability(std::string_view name) {
    (void)name;
    return nullptr;
  }
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_CACHE_STORE_H_
