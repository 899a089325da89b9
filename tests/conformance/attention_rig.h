// Runs an attention backend over sequences of random rows, step by step, as an engine would.
//
// For tests and the conformance suite. A case fixes shapes and data; a list of steps says how the
// tokens are split and batched; the outputs of two lists over one case must have the same bits.
#ifndef NG_TESTS_CONFORMANCE_ATTENTION_RIG_H_
#define NG_TESTS_CONFORMANCE_ATTENTION_RIG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ng/attention_backend.h"
#include "ng/cache_store.h"
#include "ng/executor.h"
#include "ng/isa.h"
#include "ng/plugin.h"
#include "ng/status.h"

namespace ng {

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
  int v_head_dim = 0;  // below head_dim: of each row of V so many elements, by CopyRow only
  int64_t window = 0;
  float soft_cap = 0.0F;
  std::vector<float> sinks = {};         // [n_heads]
  std::vector<float> alibi_slopes = {};  // [n_heads]
  QueryTemperature query_temperature = {};

  int v_width() const { return v_head_dim == 0 ? head_dim : v_head_dim; }
  AttentionSpec Spec() const;  // borrows from the case
  std::string Describe() const;
};

// The rows of one sequence.
struct SequenceData {
  std::vector<float> q;  // [length, n_heads, head_dim]
  std::vector<float> k;  // [length, n_kv_heads, head_dim]
  std::vector<float> v;  // [length, n_kv_heads, head_dim]
};
std::vector<SequenceData> MakeData(const AttentionCase& c);

struct StepEntry {
  int sequence = 0;
  int64_t n_tokens = 0;
};
using Step = std::vector<StepEntry>;

// Each sequence in one step of its own.
std::vector<Step> WholeSteps(const AttentionCase& c);
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

struct AttentionResult {
  std::vector<std::vector<float>> out;       // [n_sequences][length, n_heads, v_head_dim]
  std::vector<std::vector<float>> captured;  // [n_requests][pos + 1]
  std::vector<std::vector<float>> attended;  // [n_sequences][length], where it was asked for
};

// A backend and a store made for one case, with the executor they share.
class AttentionRig {
 public:
  // Errors: what the plugins answered; PluginError when the backend refuses the case.
  static absl::StatusOr<std::unique_ptr<AttentionRig>> Make(const AttentionCase& c,
                                                            const MakeAttention& make_attention,
                                                            const MakeCache& make_cache,
                                                            const PluginContext& context);

  // Opens the sequences, runs the steps on a layer that is not the first, closes the sequences.
  absl::StatusOr<AttentionResult> Run(const std::vector<SequenceData>& data,
                                      const std::vector<Step>& steps,
                                      const std::vector<CaptureRequest>& captures = {},
                                      bool attended = false);

  AttentionBackend& backend() { return *backend_; }

 private:
  struct Progress;  // one call of Run

  explicit AttentionRig(const AttentionCase& c) : case_(c) {}
  absl::Status RunStep(const Step& step, Progress* progress);

  const AttentionCase case_;
  std::unique_ptr<CacheStore> store_;
  std::unique_ptr<AttentionBackend> backend_;
  std::unique_ptr<AttentionPlan> plan_;
};

// The formula in double over rows rounded to the codec; owes nothing to any plugin.
AttentionResult ModelAttention(const AttentionCase& c, const std::vector<SequenceData>& data,
                               const std::vector<CaptureRequest>& captures = {});

// Empty when the values agree within `tolerance` times the size of the numbers, else where not.
std::string FindDifference(const std::vector<std::vector<float>>& got,
                           const std::vector<std::vector<float>>& want, float tolerance);
// Empty when all bits agree.
std::string FindBitDifference(const std::vector<std::vector<float>>& got,
                              const std::vector<std::vector<float>>& want);

}  // namespace ng

#endif  // NG_TESTS_CONFORMANCE_ATTENTION_RIG_H_
