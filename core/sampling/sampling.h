// From logits to a token: the chain of sampler stages, the draw that ends it, and what a step's
// record says about the logits.
//
// Used by the generate loop on the engine's thread. Errors carry "sampler chain a,b,c: ".
#ifndef NG_CORE_SAMPLING_SAMPLING_H_
#define NG_CORE_SAMPLING_SAMPLING_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "ng/candidate_set.h"
#include "ng/isa.h"
#include "ng/request.h"
#include "ng/sampler.h"
#include "ng/status.h"

namespace ng {

// How many of the best tokens a record has.
inline constexpr int kRecordedTop = 10;

// The candidate at `uniform` in the cumulative softmax of the logits, walked in rising order of id.
// Lists the candidates and leaves them in that order. `scratch` holds size() values or more.
// Errors: MaxLogit's. REQUIRES: candidates not empty, 0 <= uniform < 1.
absl::StatusOr<int32_t> DrawCandidate(CandidateSet& candidates, double uniform,
                                      std::span<double> scratch);

struct ChainStage {
  std::string name;  // as sampler.chain spells it
  std::unique_ptr<SamplerStage> stage;
};

class SamplerChain {
 public:
  // Allocates what Choose needs. Without stages, Choose draws from the logits as they are.
  SamplerChain(std::vector<ChainStage> stages, int64_t vocab_size,
               IsaLevel isa = IsaLevel::kScalar);

  // Forwarded to every stage in order. A failed Open or Fork leaves the slot closed in all of them;
  // Close reaches all of them and returns the first error. Accept gives the first reason to end.
  absl::Status Open(int slot, std::span<const int32_t> prompt_ids);
  absl::StatusOr<SequenceEnd> Accept(int slot, int32_t token);
  // The most bytes that a stage holds back at the end of the answer (SamplerStage::HeldBytes).
  absl::StatusOr<int64_t> HeldBytes(int slot) const;
  absl::Status Fork(int from, int to);
  absl::Status Truncate(int slot, int64_t n_tokens);
  absl::Status Close(int slot);

  // Applies the stages, each with a stream of its own, and draws. Does not Accept the token.
  // Allocates nothing. Errors: a stage's own; NumericError when what the stages leave cannot be
  // drawn from; PluginError when a stage leaves no candidate, or one outside the vocabulary. What a
  // stage has left behind is said of that stage, also where a later one finds it.
  // `stages`, where it is given, gets what each stage has left: looking allocates, and changes
  // nothing. REQUIRES: all logits finite.
  absl::StatusOr<int32_t> Choose(int slot, std::span<const float> logits,  // [vocab_size]
                                 const DrawKey& key, std::vector<StageRecord>* stages = nullptr);

  // What stage `i` of the chain has to say about the run.
  std::string ReportOf(size_t i) const { return stages_[i].stage->Report(); }
  // What all stages have to say, with their names: "top_k: ...".
  std::vector<std::string> Reports() const;

  // "sampler chain temperature,top_k"
  const std::string& description() const { return description_; }

 private:
  using StageCall = absl::FunctionRef<absl::Status(SamplerStage& stage)>;
  absl::Status Annotated(const absl::Status& status) const;
  absl::Status BeginAll(int slot, StageCall begin);
  absl::Status CloseFirst(size_t n_stages, int slot);
  absl::Status Apply(const ChainStage& stage, int slot, const DrawKey& key,
                     CandidateSet& candidates) const;
  StageRecord Look(const ChainStage& stage, const CandidateSet& candidates);
  // Whether what a stage has left can be drawn from.
  absl::Status CheckLeft(const CandidateSet& candidates) const;
  absl::StatusOr<int32_t> Draw(CandidateSet& candidates, double uniform);
  // The error of the first of these stages that leaves what it must not; else `found`.
  absl::Status Blame(size_t n_stages, int slot, std::span<const float> logits, const DrawKey& key,
                     const absl::Status& found);

  std::vector<ChainStage> stages_;
  std::string description_;
  CandidateStorage storage_;
  std::vector<double> scratch_;    // [vocab_size]
  std::vector<Candidate> looked_;  // [vocab_size] once somebody looks
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

// The token's logprob, bit for bit as ComputeStepStats has it, and those of the `top_n` most
// probable ones. REQUIRES: as above.
TokenLogprob ComputeLogprob(std::span<const float> logits,  // [vocab_size]
                            int32_t token, int64_t top_n);

}  // namespace ng

#endif  // NG_CORE_SAMPLING_SAMPLING_H_
