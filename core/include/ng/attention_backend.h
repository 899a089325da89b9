// AttentionBackend: scaled dot-product attention of new queries over cached keys and values.
//
//   out[t, h] = sum_j softmax_j(scale * q[t, h] . k[j, h_kv]) v[j, h_kv],  0 <= j <= pos(t)
//
// with h_kv = h / (n_heads / n_kv_heads). Masking follows from positions alone: a query at absolute
// position p attends to keys 0..p of its own sequence and to nothing else. (Vaswani et al. 2017;
// grouped heads: Ainslie et al. 2023.)
//
// Bit contract: out[t, h] depends on q[t, h] and the stored keys and values 0..p only; never on how
// the tokens were split into steps, on the other sequences or heads of the batch, or on threads.
//
// Implemented by attention plugins; called by the engine on its own thread ([step]); work is
// spread with the Executor given at create.
#ifndef NG_ATTENTION_BACKEND_H_
#define NG_ATTENTION_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/cache_store.h"
#include "ng/kv_view.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

namespace ng {

// What a layer asks of attention. Anything beyond plain causal attention is a named need; Supports
// refuses every name it does not know, so a new one can never be ignored silently.
struct AttentionSpec {
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  float scale = 0.0F;                       // usually 1 / sqrt(head_dim)
  std::span<const std::string_view> needs;  // e.g. "window"; borrowed, outlives the backend
};

// How the cache stores what the backend reads.
struct CacheFormat {
  std::string_view layout;
  Codec codec_k = Codec::kF32;
  Codec codec_v = Codec::kF32;
};

// One piece of work: queries [query_begin, query_end) (token offsets within the sequence's rows) of
// the heads that share `kv_head`, over keys [key_begin, key_end).
struct AttentionItem {
  int32_t sequence = 0;  // index into the step's rows
  int32_t kv_head = 0;
  int64_t query_begin = 0;
  int64_t query_end = 0;
  int64_t key_begin = 0;
  int64_t key_end = 0;
  // Where several items share the keys of the same queries: the backend's place in the scratch, in
  // floats, for what each of them got. -1: this item has all the keys that its queries see.
  int64_t partials = -1;
};

// Filled by Plan, owned by the engine and reused between steps, so that nothing is allocated once
// it has grown. `rows` is borrowed from the engine for the step.
struct AttentionPlan {
  AttentionSpec spec;
  std::span<const SequenceRows> rows;
  std::vector<AttentionItem> items;
  int64_t scratch_floats = 0;  // what Run needs, in all
  int64_t worker_floats = 0;   // of these, each worker's own
};

// A request for the probabilities of one query and head, exactly as used for its output.
struct ProbabilityRow {
  int32_t sequence = 0;  // index into the step's rows
  int64_t pos = 0;       // absolute position of the query
  int32_t head = 0;
  float* out = nullptr;  // [pos + 1], the caller's
};

struct AttentionRun {
  TensorView<const float, 3> q;              // [n_rows, n_heads, head_dim], rotated
  std::span<const KvView> views;             // one per entry of plan.rows
  TensorView<float, 3> out;                  // [n_rows, n_heads, head_dim]
  std::span<float> scratch;                  // at least plan.scratch_floats, 64-byte aligned
  std::span<const ProbabilityRow> captures;  // sorted by (sequence, pos, head); usually empty
};

class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;

  // [load] The cache layouts it reads, by preference. Static text.
  virtual std::span<const std::string_view> layouts() const = 0;

  // [load] OK when a layer with this spec can run over this cache, else one line saying which part
  // cannot and what could. Asked before weights load.
  virtual absl::Status Supports(const AttentionSpec& spec, const CacheFormat& format) const = 0;

  // [step] Splits a step into work items; once per step and distinct spec. Also before weights
  // load, of steps that may come, for what they would need.
  virtual absl::Status Plan(const AttentionSpec& spec, std::span<const SequenceRows> rows,
                            AttentionPlan* plan) = 0;

  // [step] Computes one layer. The views hold every key up to each sequence's last new token.
  virtual absl::Status Run(const AttentionPlan& plan, const AttentionRun& run) = 0;

  // [load] One line for the end of a run: what the backend has to say about what it did. Empty:
  // nothing.
  virtual std::string Report() const { return {}; }
};

}  // namespace ng

#endif  // NG_ATTENTION_BACKEND_H_
