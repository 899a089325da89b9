// From logits to a token: the chain of sampler stages, the draw that ends it, and what a step's
// record says about the logits.
//
// Used by the generate loop on the engine's thread. Errors carry "sampler chain a,b,c: ".
#ifndef NG_CORE_RUNTIME_SAMPLING_H_
#define NG_CORE_RUNTIME_SAMPLING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/kernels/kernel_table.h"
#include "core/runtime/dense_logits.h"
#include "ng/sampler.h"
#include "ng/status.h"

namespace ng {

// What a draw depends on besides the candidates, and all that it depends on.
struct DrawKey {
  int64_t seed = 0;
  int64_t sequence = 0;  // the request's own number, not its place in a batch
  int64_t step = 0;      // 0 chooses the first generated token
};

// Uniform in [0, 1) with 53 bits: Philox4x32-10 with key `seed` at counter (sequence, step).
double UniformDraw(const DrawKey& key);

// The candidate at `uniform` in the cumulative softmax of the logits, walked in rising order of id.
// Lists the candidates and leaves them in that order. `scratch` holds size() values or more.
// Errors: MaxLogit's. REQUIRES: candidates not empty, 0 <= uniform < 1.
absl::StatusOr<int32_t> DrawCandidate(CandidateSet& candidates, double uniform,
                                      std::span<double> scratch);

// Makes a call into a stage and reports what it throws; GuardPlugin bound to the stage's plugin.
using StageGuard = std::function<absl::Status(absl::FunctionRef<absl::Status()> call)>;

struct ChainStage {
  std::string name;  // as sampler.chain spells it
  std::unique_ptr<SamplerStage> stage;
  StageGuard guard;  // empty: the stage is trusted not to throw
};

class SamplerChain {
 public:
  // Allocates what Choose needs. Without stages, Choose draws from the logits as they are.
  SamplerChain(std::vector<ChainStage> stages, int64_t vocab_size,
               const KernelTable& kernels = ScalarKernels());

  // Forwarded to every stage in order. A failed Open or Fork leaves the slot closed in all of them;
  // Close reaches all of them and returns the first error.
  absl::Status Open(int slot, std::span<const int32_t> prompt_ids);
  absl::Status Accept(int slot, int32_t token);
  absl::Status Fork(int from, int to);
  absl::Status Truncate(int slot, int64_t n_tokens);
  absl::Status Close(int slot);

  // Applies the stages and draws. Does not Accept the token. Allocates nothing.
  // Errors: a stage's own; NumericError when what the stages leave cannot be drawn from.
  // REQUIRES: all logits finite (AllFinite).
  absl::StatusOr<int32_t> Choose(int slot, std::span<const float> logits,  // [vocab_size]
                                 const DrawKey& key);

  // What stage `i` of the chain has to say about the run.
  std::string ReportOf(size_t i) const { return stages_[i].stage->Report(); }

  // "sampler chain temperature,top_k"
  const std::string& description() const { return description_; }

 private:
  using StageCall = absl::FunctionRef<absl::Status(SamplerStage& stage)>;
  absl::Status Call(ChainStage& stage, StageCall call) const;
  absl::Status CallAll(StageCall call);
  absl::Status BeginAll(int slot, StageCall begin);
  absl::Status CloseFirst(size_t n_stages, int slot);

  std::vector<ChainStage> stages_;
  std::string description_;
  DenseLogits logits_;
  std::vector<double> scratch_;  // [vocab_size]
};

// What a step's record says about the logits that chose its token, by softmax in double.
struct StepStats {
  double logprob = 0.0;                        // of the token, nats
  double entropy = 0.0;                        // nats
  std::vector<std::pair<int32_t, float>> top;  // {id, probability}, falling, ties by rising id
};

// `top_n` is cut to the vocabulary's size.
// REQUIRES: all logits finite, 0 <= token < vocab_size, top_n >= 0.
StepStats ComputeStepStats(std::span<const float> logits,  // [vocab_size]
                           int32_t token, int top_n);

// Whether no value is NaN or infinite.
bool AllFinite(std::span<const float> values);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_SAMPLING_H_
