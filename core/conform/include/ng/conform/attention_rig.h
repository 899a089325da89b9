// Runs an attention backend over sequences of random rows, step by step, as an engine would.
//
// A case fixes shapes and data. A list of steps says how the tokens are split and batched; the
// outputs of two lists over one case must have the same bits. The rig lends memory with a fence
// around it and q and out with gaps between their rows, and reports what a backend must not do with
// them.
#ifndef NG_CONFORM_ATTENTION_RIG_H_
#define NG_CONFORM_ATTENTION_RIG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ng/attention_backend.h"
#include "ng/cache_store.h"
#include "ng/conform/executor.h"
#include "ng/executor.h"
#include "ng/isa.h"
#include "ng/plugin.h"
#include "ng/status.h"

namespace ng::conform {

using MakeAttention =
    std::function<absl::StatusOr<std::unique_ptr<AttentionBackend>>(const PluginContext&)>;
using MakeCache = std::function<absl::StatusOr<std::unique_ptr<CacheStore>>(const PluginContext&,
                                                                            const CacheSpec&)>;

struct AttentionCase {
  int n_heads = 1;
  int n_kv_heads = 1;
  int head_dim = 1;
  Codec codec_k = Codec::kF32;
  Codec codec_v = Codec::kF32;
  std::vector<int64_t> lengths = {};  // tokens of each sequence
  uint32_t seed = 0;
  // Features of the spec; what is 0 or empty is not asked for.
  int v_head_dim = 0;   // 0: head_dim
  bool v_in_k = false;  // V is the first of K; with a v_head_dim
  int64_t window = 0;
  bool chunks = false;  // of the window
  float soft_cap = 0.0F;
  std::vector<float> sinks = {};         // [n_heads]
  std::vector<float> alibi_slopes = {};  // [n_heads]
  QueryTemperature query_temperature = {};
  bool holes = false;       // the cache lacks the tokens that IsHole names
  bool slots = false;       // tokens leave, as HeldAt says
  bool head_slots = false;  // with slots: other numbers in each kv head
  // For ModelAttention alone, of backends with a rule of their own.
  int64_t first = 0;  // so many first keys are seen in spite of the window
  int64_t top_k = 0;  // so many keys of the largest scores are seen; 0: all

  int v_width() const { return v_head_dim == 0 ? head_dim : v_head_dim; }
  AttentionSpec Spec() const;  // borrows from the case
  std::string Describe() const;
  std::string Codecs() const;  // "f32/int8"
};

// The tokens that a store with holes has dropped from every sequence, as soon as they are written.
constexpr bool IsHole(int64_t token) { return token % 3 == 1 || token / 16 == 1; }

// Where tokens leave a store with slots, and which ones: a third in each kv head; or, where heads
// are `uneven`, none in the first, a fourth in the next, and so on. A query at `pos` sees those
// that are held at its time.
inline constexpr int64_t kSlotBoundary = 48;
constexpr bool Leaves(int kv_head, int64_t token, bool uneven) {
  return uneven ? token % 4 < kv_head % 4 : token % 3 == kv_head % 3;
}
constexpr bool HeldAt(int64_t pos, int kv_head, int64_t token, bool uneven) {
  return token >= pos / kSlotBoundary * kSlotBoundary || !Leaves(kv_head, token, uneven);
}

// The rows of one sequence.
struct SequenceData {
  std::vector<float> q;  // [length, n_heads, head_dim]
  std::vector<float> k;  // [length, n_kv_heads, head_dim]
  std::vector<float> v;  // [length, n_kv_heads, v_head_dim]
};
std::vector<SequenceData> MakeData(const AttentionCase& c);

struct StepEntry {
  int sequence = 0;
  int64_t n_tokens = 0;
};
using Step = std::vector<StepEntry>;

// Each sequence in one step of its own.
std::vector<Step> WholeSteps(const AttentionCase& c);
// All sequences in one step, the last one first.
std::vector<Step> OneStep(const AttentionCase& c);
// Every token in a step of its own.
std::vector<Step> TokenSteps(const AttentionCase& c);
// All but the last tokens of every sequence in one step, then those side by side, one by one.
std::vector<Step> LastTokenSteps(const AttentionCase& c, int64_t n_last);
// Random chunks of random sequences, side by side.
std::vector<Step> RandomSteps(const AttentionCase& c, std::mt19937* random);

struct CaptureRequest {
  int sequence = 0;
  int64_t pos = 0;
  int head = 0;
};

// What a run is asked for beside the output.
struct RunRequests {
  std::vector<CaptureRequest> captures = {};
  bool attended = false;
  bool missed = false;
  bool abandon = false;  // before each step, one with other rows that is not committed
  std::function<int64_t()> count_allocations = {};
};

struct AttentionResult {
  std::vector<std::vector<float>> out;       // [n_sequences][length, n_heads, v_head_dim]
  std::vector<std::vector<float>> captured;  // [n_requests][pos + 1]
  // What tokens got, added row by row, where it was asked for. [n_sequences][n_kv_heads, length]
  std::vector<std::vector<float>> attended;
  // What queries missed, where it was asked for. [n_sequences][length, n_heads]
  std::vector<std::vector<float>> missed;
  std::vector<int64_t> allocations;  // [n_steps] of Plan and Run, where they are counted
};

// A backend and a store made for one case, with the executor they share.
class AttentionRig {
 public:
  // Errors: what the parts answered; PluginError when the backend refuses the case or does not read
  // the store's layout.
  static absl::StatusOr<std::unique_ptr<AttentionRig>> Make(const AttentionCase& c,
                                                            const MakeAttention& make_attention,
                                                            const MakeCache& make_cache,
                                                            const PluginContext& context);

  // Opens the sequences, runs the steps on a layer that is not the first, closes the sequences.
  // Errors: what the parts answered; RuntimeError for what the backend must not do.
  absl::StatusOr<AttentionResult> Run(const std::vector<SequenceData>& data,
                                      const std::vector<Step>& steps,
                                      const RunRequests& requests = {});

  // The same with the keys and values as the store has them: what its CopyRow gives.
  absl::StatusOr<std::vector<SequenceData>> AsStored(const std::vector<SequenceData>& data);

  AttentionBackend& backend() { return *backend_; }
  CacheStore& store() { return *store_; }

 private:
  struct Progress;  // one call of Run
  struct StepRows;  // what a step feeds

  explicit AttentionRig(const AttentionCase& c) : case_(c) {}
  absl::Status CheckFits(const AttentionBackend& backend) const;
  absl::Status OpenAll(const std::vector<SequenceData>& data, Progress* progress);
  StepRows RowsOf(const Step& step, const Progress& progress, float factor) const;
  absl::Status RunStep(const Step& step, bool commit, Progress* progress);
  // As much of the step as goes up to the boundaries of the store; the rest stays in `step`.
  Step CutOff(Step* step, const Progress& progress) const;
  // Plan and Run, and what the backend has done to the memory that it was lent.
  absl::Status Attend(const AttentionRun& run, Progress* progress);

  const AttentionCase case_;
  const UnevenExecutor* executor_ = nullptr;  // null: it is another one
  std::unique_ptr<CacheStore> store_;
  std::unique_ptr<AttentionBackend> backend_;
  std::unique_ptr<AttentionPlan> plan_;
};

// The formula in double over rows rounded to the case's codecs; owes nothing to any part.
AttentionResult ModelAttention(const AttentionCase& c, const std::vector<SequenceData>& data,
                               const std::vector<CaptureRequest>& captures = {});

// Empty when the values agree within `tolerance` times the size of the numbers, else where not.
std::string FindDifference(const std::vector<std::vector<float>>& got,
                           const std::vector<std::vector<float>>& want, float tolerance);
// Empty when all bits agree.
std::string FindBitDifference(const std::vector<std::vector<float>>& got,
                              const std::vector<std::vector<float>>& want);

}  // namespace ng::conform

#endif  // NG_CONFORM_ATTENTION_RIG_H_
