// CacheStore: keeps the keys and values of many sequences, outside the model.
//
// Implemented by cache plugins; called by the engine, on its own thread ([step] or [load]).
// All memory is reserved by create; nothing is allocated between Open and Close.
//
// The life of a step: for each layer the engine calls Append with the new rows of every sequence
// (keys already rotated), then hands View()s to the attention backend; after the last layer it
// calls Commit once, and only then do lengths move. A step that is abandoned before Commit leaves
// every length as it was; its rows are overwritten by the next Append.
#ifndef NG_CACHE_STORE_H_
#define NG_CACHE_STORE_H_

#include <cstdint>
#include <span>
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
};

// New rows of one sequence within a step. Rows [row_begin, row_begin + n_tokens) of the step's
// tensors are its tokens at positions [start_pos, start_pos + n_tokens).
struct SequenceRows {
  SequenceId sequence = 0;
  int64_t start_pos = 0;
  int64_t n_tokens = 0;
  int64_t row_begin = 0;
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
  // before anything is written. REQUIRES: start_pos == Length(sequence); sequences are distinct.
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
};

}  // namespace ng

#endif  // NG_CACHE_STORE_H_
