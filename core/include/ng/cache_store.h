// CacheStore: keeps the keys and values of many sequences, outside the model.
//
// Implemented by cache plugins; called by the engine, on its own thread ([step] or [load]).
// All memory is reserved by create; nothing is allocated between Open and Close. What create need
// not write it leaves untouched: weights are read before the first token comes.
//
// The life of a step: for each layer the engine calls Append with the new rows of every sequence
// (keys already rotated), then hands View()s to the attention backend; after the last layer it
// calls Commit once, and only then do lengths move. A step that is abandoned before Commit leaves
// every length as it was; its rows are overwritten by the next Append.
//
// Snapshots: what a sequence holds in one layer can be taken out as bytes and put into another
// sequence, of this store or of another one with the same shape and codecs. This image is tile by
// tile of 16 tokens, the K tiles of all kv heads and then their V tiles, each as layout "tiles16"
// (ng/kv_view.h) has it, whatever the store's own layout is; rows that no token has, in the last
// tile, are those of zeros. So equal contents make equal bytes.
#ifndef NG_CACHE_STORE_H_
#define NG_CACHE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ng/kv_view.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

namespace ng {

// What a store must hold.
struct CacheSpec {
  int n_layers = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int64_t max_tokens = 0;  // per sequence
  int max_sequences = 0;   // open at the same time
  Codec codec_k = Codec::kF32;
  Codec codec_v = Codec::kF32;
  // What the attention backend reads, by preference; borrowed for the call. The store uses the
  // first that it writes; kLayoutAny leaves the choice to the store.
  std::span<const std::string_view> layouts;
};

// What a store would do with a spec.
struct CachePlan {
  std::string_view layout;      // static text
  int64_t bytes = 0;            // reserved by create, in all
  int64_t bytes_per_token = 0;  // K and V of one token in all layers
  // Prompts that begin alike share what they have in common, in pieces of so many tokens; 0: they
  // do not.
  int64_t share_tokens = 0;
  // Of ExportLayer's image, what 16 tokens take; 0: the store keeps no snapshots.
  int64_t image_tile_bytes = 0;
};

// What a store of pages has done since it was made. A store without pages has nothing to say.
struct CacheStats {
  int64_t n_pages = 0;  // in all; 0: the store has no pages
  int64_t page_tokens = 0;
  int64_t pages_held = 0;       // by open sequences
  int64_t most_pages_held = 0;  // at one time, and the slots in them that no token was in: of the
  int64_t most_held_empty = 0;  // last page of every sequence that has it alone
  int64_t prompt_tokens = 0;    // that OpenFor was asked for
  int64_t shared_tokens = 0;    // of these, found
  int64_t copied_pages = 0;     // shared ones that somebody wrote to
  int64_t dropped_pages = 0;    // kept for sharing, then needed for something else
};

// New rows of one sequence within a step. Rows [row_begin, row_begin + n_tokens) of the step's
// tensors are its tokens at positions [start_pos, start_pos + n_tokens).
struct SequenceRows {
  SequenceId sequence = 0;
  int64_t start_pos = 0;
  int64_t n_tokens = 0;
  int64_t row_begin = 0;
  // Their ids, for a store that shares prefixes; empty: not known. Within a store the same ids from
  // position 0 on always have the same keys and values.
  std::span<const int32_t> tokens = {};  // [n_tokens] or empty
};

enum class KvPart { kKey, kValue };

class CacheStore {
 public:
  virtual ~CacheStore() = default;

  // [load] As returned by the factory's plan for the same spec.
  virtual CachePlan plan() const = 0;

  // [step] Opens an empty sequence that may grow to `capacity` tokens.
  // Errors: LimitError when capacity > max_tokens or nothing is free, with the numbers.
  virtual absl::StatusOr<SequenceId> Open(int64_t capacity) = 0;

  // [step] Gives the sequence's memory back. REQUIRES: `sequence` is open (here and below).
  virtual void Close(SequenceId sequence) = 0;

  // [step] Tokens committed, and how many the sequence may hold.
  virtual int64_t Length(SequenceId sequence) const = 0;
  virtual int64_t Capacity(SequenceId sequence) const = 0;

  // [step] Forgets the tokens from `length` on. Errors: RuntimeError when length is negative or
  // above Length().
  virtual absl::Status Truncate(SequenceId sequence, int64_t length) = 0;

  // [step] Opens a second sequence with the same tokens, bit for bit. Errors: as Open, and when
  // capacity < Length(sequence).
  virtual absl::StatusOr<SequenceId> Fork(SequenceId sequence, int64_t capacity) = 0;

  // [step] Writes the rows' keys and values of one layer, converting each row once to the codec.
  // k, v: [n_rows, n_kv_heads, head_dim]
  // Errors: LimitError "cache overflow: ..." when a row would lie beyond its sequence's capacity,
  // before anything is written; alike when a sequence writes to what it shares with another one and
  // has been truncated since it was opened, and the store has nothing left for the copy.
  // REQUIRES: start_pos == Length(sequence); sequences are distinct.
  virtual absl::Status Append(int layer, std::span<const SequenceRows> rows,
                              const TensorView<const float, 3>& k,
                              const TensorView<const float, 3>& v) = 0;

  // [step] Moves each sequence's length past its rows. REQUIRES: every layer has been appended.
  virtual absl::Status Commit(std::span<const SequenceRows> rows) = 0;

  // [step] The first `length` tokens of a sequence in one layer. REQUIRES: length <= Length() plus
  // what has been appended to this layer since the last Commit.
  virtual KvView View(int layer, SequenceId sequence, int64_t length) const = 0;

  // [worker] Decodes one stored row exactly as every reader must see it; slow, for `reference` and
  // tests. out: [head_dim]
  virtual void CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
                       float* out) const = 0;

  // [step] Opens a sequence for a text that begins with `prompt`. A store that shares prefixes
  // begins it with the tokens of the prompt that it has keys and values of, as they were committed:
  // Length() says how many, whole pieces of plan().share_tokens, and fewer than the prompt has, for
  // the last one's logits are still to be computed. Errors: as Open.
  virtual absl::StatusOr<SequenceId> OpenFor(std::span<const int32_t> prompt, int64_t capacity) {
    (void)prompt;
    return Open(capacity);
  }

  // [step]
  virtual CacheStats stats() const { return {}; }

  // [load] One line for the end of a run: what the store has to say about what it did. Empty:
  // nothing.
  virtual std::string Report() const { return {}; }

  // [step] Writes the image of all Length() tokens in one layer. image: their whole tiles, of
  // plan().image_tile_bytes each. Errors: RuntimeError when it has another size; PluginError where
  // the store keeps no snapshots (here and below).
  virtual absl::Status ExportLayer(int layer, SequenceId sequence,
                                   std::span<std::byte> image) const {
    (void)layer, (void)sequence, (void)image;
    return PluginError("keeps no snapshots");
  }

  // [step] As Append for the rows of one sequence that are stored already: takes their tiles in
  // place of floats, bit for bit; row_begin means nothing. image: the tiles of tokens
  // [start_pos, start_pos + n_tokens), of which the last may hold more rows than are wanted.
  // Errors: as Append; RuntimeError unless start_pos is a multiple of 16 and the image has the size
  // of the tiles.
  virtual absl::Status ImportLayer(int layer, const SequenceRows& rows,
                                   std::span<const std::byte> image) {
    (void)layer, (void)rows, (void)image;
    return PluginError("keeps no snapshots");
  }
};

}  // namespace ng

#endif  // NG_CACHE_STORE_H_
