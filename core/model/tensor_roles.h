// The places in the decoder that weights go to, as a table: what each is called, its shape, where
// it is kept, and which type of its block's it decides.
#ifndef NG_CORE_MODEL_TENSOR_ROLES_H_
#define NG_CORE_MODEL_TENSOR_ROLES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/model/model_spec.h"

namespace ng {

struct ModelWeights;
struct Place;
struct WeightTypes;

// The first group occurs once. The second belongs to the attention block of a layer, the third to
// a state in place of attention, the fourth to its feed-forward block or mixture, and the last four
// to the block of its input.
enum class TensorRole {
  kTokenEmbedding,
  kPositions,
  kHead,
  kRopeFactors,
  kFinalNorm,
  kFinalNormBias,
  kEmbeddingNorm,
  kEmbeddingNormBias,
  kHeadBias,
  kLayerEmbedding,  // of the layers' input, its matrix and norm
  kLayerProjection,
  kLayerInputNorm,
  kAttnNorm,  // or that of a state in its place
  kAttnNormBias,
  kAttnPostNorm,  // of what the block adds, or of the stream behind it
  kAttnPostNormBias,
  kQkv,  // one tensor, or kQ, kK and kV
  kQ,
  kQAndGate,  // a head of q, then its gate
  kK,
  kV,
  kQDown,  // of latents: their first matrix, the norm behind it, and the second
  kQDownNorm,
  kQUp,
  kKvDown,
  kKvDownNorm,
  kKvUp,  // of each head k's rows, then v's: bound as the next two
  kKUp,   // of a head
  kVUp,
  kQkvBias,  // one tensor, or kQBias, kKBias and kVBias
  kQBias,
  kKBias,
  kVBias,
  kQNorm,
  kQNormBias,
  kKNorm,
  kKNormBias,
  kAttnGate,
  kAttnInnerNorm,  // of what the output reads
  kAttnOut,
  kAttnOutBias,
  kSinks,
  kStateIn,  // one tensor; or the next four; or two, of each group of heads together
  kStateInBias,
  kStateConvIn,  // q, k and v
  kStateGate,
  kStateWrite,  // how much of a value is written
  kStateStep,
  kStateGroups,  // q, k, v and gate
  kStateValues,  // write and step
  kStateConv,
  kStateConvBias,
  kStateDecayLog,
  kStateStepBias,
  kStateSkip,
  kStateNorm,
  kStateOut,
  kStateOutBias,
  kMlpNorm,
  kMlpNormBias,
  kMlpPostNorm,
  kMlpPostNormBias,
  kMlpFactor,  // of the stream behind it
  kMlpGateUp,  // one tensor, gate first, or kMlpGate and kMlpUp
  kMlpGate,
  kMlpGateBias,
  kMlpUp,
  kMlpUpBias,
  kMlpInnerNorm,  // of what down reads
  kMlpAlphaP,     // of xielu: one value each
  kMlpAlphaN,
  kMlpBeta,
  kMlpEps,
  kMlpDown,
  kMlpDownBias,
  kRouter,
  kRouterBias,
  kSelectionBias,     // [n_experts], or the next
  kSelectionBiasRow,  // [1, n_experts]
  kSharedGateUp,  // of the feed-forward that all rows share, as those of a layer without experts
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kSharedRouter,  // its weight
  kExpertGateUp,  // of one expert, the same
  kExpertGateUpBias,
  kExpertGate,
  kExpertGateBias,
  kExpertUp,
  kExpertUpBias,
  kExpertDown,
  kExpertDownBias,
  kExpertScales,
  kRouterNorm,  // of norms apart: what router and shared feed-forward read, what both results
                // become
  kSharedNorm,
  kSharedPostNorm,
  kExpertsPostNorm,
  kLayerInputGate,
  kLayerInputOut,
  kLayerInputPostNorm,
  kLayerInputFactor,
};

// Where in a model: a layer, and an expert of it, or a head. -1: in none.
struct TensorSite {
  int layer = -1;
  int expert = -1;
};

// "attention norm bias"
std::string_view RoleTitle(TensorRole role);
// Whether it is held as a packed matrix, and not as values of f32.
bool IsMatrix(TensorRole role);
// Whether a matmul adds it to its products, or a router to its scores: without it nothing is added.
bool IsAddedBias(TensorRole role);
// The shape of a role's tensor, [outputs, inputs] of a matrix; empty where the model or the layer
// has none. `layer` says nothing for a role that occurs once.
std::vector<int64_t> RoleShape(TensorRole role, const ModelSpec& spec, int layer);
// How many experts a layer has; 0: it is no mixture.
int ExpertsOf(const ModelSpec& spec, int layer);
// Whether each expert has its own.
bool IsOfExpert(TensorRole role);
// How many have their own of a role, experts or heads; 0: it is the layer's or the model's.
int CopiesOf(TensorRole role, const ModelSpec& spec, int layer);
// Where its weights are kept. REQUIRES: it has a shape.
Place RolePlace(TensorRole role, const ModelSpec& spec, const TensorSite& at,
                ModelWeights& weights);
// Sets the types of the matrix that the role is, or is a part of. Of no matrix and of the router,
// which is f32: none. Experts of several types are held as f32, which has all their values; so are
// q and a gate of another type.
void SetRoleType(TensorRole role, const ModelSpec& spec, const TensorSite& at, WeightType type,
                 WeightTypes& types);

}  // namespace ng

#endif  // NG_CORE_MODEL_TENSOR_ROLES_H_
