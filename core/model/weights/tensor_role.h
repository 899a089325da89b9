// The places in the decoder that weights go to, and where in a model one is.
#ifndef NG_CORE_MODEL_WEIGHTS_TENSOR_ROLE_H_
#define NG_CORE_MODEL_WEIGHTS_TENSOR_ROLE_H_

namespace ng {

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

}  // namespace ng

#endif  // NG_CORE_MODEL_WEIGHTS_TENSOR_ROLE_H_
