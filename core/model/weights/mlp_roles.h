// The roles in a feed-forward, a mixture of experts, or the block of a layer's input, in the order
// of TensorRole.
#ifndef NG_CORE_MODEL_WEIGHTS_MLP_ROLES_H_
#define NG_CORE_MODEL_WEIGHTS_MLP_ROLES_H_

#include "core/model/weights/role_row.h"

namespace ng::roles {

// The gate, or the up part when there is one.
inline Place Half(Place place, const FeedForwardSpec& feed_forward, bool up) {
  if (feed_forward.gated) place.order = RowOrder::kInterleaved;
  place.first = up && feed_forward.gated ? kBlockColumns : 0;
  return place;
}

// The feed-forwards that there are: of a block, of all rows beside experts, of an expert.
struct Dense {
  static const FeedForwardSpec& Spec(const Site& at) { return at.model.FeedForwardOf(*at.block); }
  static MatrixPair& Weights(const Site&, BlockWeights& w) { return w; }
};
struct Shared {
  static const FeedForwardSpec& Spec(const Site& at) { return at.mixture().shared; }
  static MatrixPair& Weights(const Site&, BlockWeights& w) { return w; }
};
struct Expert {
  static const FeedForwardSpec& Spec(const Site& at) { return at.mixture().expert; }
  static MatrixPair& Weights(const Site& at, BlockWeights& w) {
    return w.experts[static_cast<size_t>(at.expert)];
  }
};

// Shapes and places in one of them.
template <class Which>
struct Mlp {
  static bool Gated(const Site& at) { return Which::Spec(at).gated; }
  static Shape GateUp(const Site& at) {
    const int64_t width = Which::Spec(at).width;
    return If(width > 0 && Gated(at), {2 * width, at.model.width});
  }
  static Place GateUpPlace(const Site& at, BlockWeights& w) {
    return {.matrix = &Which::Weights(at, w).in,
            .order = RowOrder::kHalves,
            .unit = Which::Spec(at).width};
  }
  static Shape GateUpBias(const Site& at) {
    return If(Which::Spec(at).bias && Gated(at), {2 * Which::Spec(at).width});
  }
  static Place GateUpBiasPlace(const Site& at, BlockWeights& w) {
    Place place = BiasValues(at, w);
    place.order = RowOrder::kHalves;
    place.unit = Which::Spec(at).width;
    return place;
  }
  static Shape Gate(const Site& at) { return If(Gated(at), Up(at)); }
  static Place GatePlace(const Site& at, BlockWeights& w) {
    return Half(Rows(Which::Weights(at, w).in), Which::Spec(at), false);
  }
  static Shape GateBias(const Site& at) { return If(Gated(at), UpBias(at)); }
  static Place GateBiasPlace(const Site& at, BlockWeights& w) {
    return Half(BiasValues(at, w), Which::Spec(at), false);
  }
  static Shape Up(const Site& at) {
    const int64_t width = Which::Spec(at).width;
    return If(width > 0, {width, at.model.width});
  }
  static Place UpPlace(const Site& at, BlockWeights& w) {
    return Half(Rows(Which::Weights(at, w).in), Which::Spec(at), true);
  }
  static Shape UpBias(const Site& at) { return If(Which::Spec(at).bias, {Which::Spec(at).width}); }
  static Place UpBiasPlace(const Site& at, BlockWeights& w) {
    return Half(BiasValues(at, w), Which::Spec(at), true);
  }
  static Shape Down(const Site& at) {
    const int64_t width = Which::Spec(at).width;
    return If(width > 0, {at.model.width, width});
  }
  static Place DownPlace(const Site& at, BlockWeights& w) {
    return Rows(Which::Weights(at, w).out);
  }
  static Shape DownBias(const Site& at) { return If(Which::Spec(at).bias, {at.model.width}); }
  static Place DownBiasPlace(const Site& at, BlockWeights& w) {
    return Values(Which::Weights(at, w).out_bias, at.model.width);
  }

 private:
  static Place BiasValues(const Site& at, BlockWeights& w) {
    return Values(Which::Weights(at, w).in_bias, Which::Spec(at).gate_up_width());
  }
};

inline Shape XieluValue(const Site& at) {
  return If(Dense::Spec(at).activation == Activation::kXielu, {1});
}
template <int kIndex>
Place XieluPlace(const Site&, BlockWeights& w) {
  return Values(w.xielu, kXieluValues, kIndex);
}

inline Place SelectionBiasPlace(const Site& at, BlockWeights& w) {
  return Values(w.selection_bias, at.router().n_experts);
}

template <NormSpec MixtureSpec::*kNorm>
Shape NormApart(const Site& at) {
  return If((at.mixture().*kNorm).has_weight(), {at.model.width});
}
template <NormSpec MixtureSpec::*kNorm, NormWeights BlockWeights::*kWeights>
Place NormApartPlace(const Site& at, BlockWeights& w) {
  return NormValues(at.mixture().*kNorm, (w.*kWeights).weight, at.model.width);
}

inline constexpr BlockRow kMlpRows[] = {
    {kMlpNorm, kMlp, "mlp norm", BeforeWeight, BeforeWeightPlace},
    {kMlpNormBias, kMlp, "mlp norm bias", BeforeBias, BeforeBiasPlace},
    {kMlpPostNorm, kMlp, "norm after mlp", PostWeight, PostWeightPlace},
    {kMlpPostNormBias, kMlp, "norm after mlp bias", PostBias, PostBiasPlace},
    {kMlpFactor, kMlp, "layer scalar", StreamFactor, StreamFactorPlace},
    {kMlpGateUp, kFeedForward, "mlp gate and up", Mlp<Dense>::GateUp, Mlp<Dense>::GateUpPlace,
     kIn0 | kIn1},
    {kMlpGate, kFeedForward, "mlp gate", Mlp<Dense>::Gate, Mlp<Dense>::GatePlace, kIn0},
    {kMlpGateBias, kFeedForward, "mlp gate bias", Mlp<Dense>::GateBias, Mlp<Dense>::GateBiasPlace},
    {kMlpUp, kFeedForward, "mlp up", Mlp<Dense>::Up, Mlp<Dense>::UpPlace, kIn1},
    {kMlpUpBias, kFeedForward, "mlp up bias", Mlp<Dense>::UpBias, Mlp<Dense>::UpBiasPlace},
    {kMlpInnerNorm, kFeedForward, "norm before mlp down", InnerWeight, InnerWeightPlace},
    {kMlpAlphaP, kFeedForward, "mlp alpha_p", XieluValue, XieluPlace<0>},
    {kMlpAlphaN, kFeedForward, "mlp alpha_n", XieluValue, XieluPlace<1>},
    {kMlpBeta, kFeedForward, "mlp beta", XieluValue, XieluPlace<2>},
    {kMlpEps, kFeedForward, "mlp eps", XieluValue, XieluPlace<3>},
    {kMlpDown, kFeedForward, "mlp down", Mlp<Dense>::Down, Mlp<Dense>::DownPlace, kOut},
    {kMlpDownBias, kFeedForward, "mlp down bias", Mlp<Dense>::DownBias, OutBias},

    {kRouter, kMixture, "router",
     [](const Site& at) {
       return Shape{at.router().n_experts, at.model.width};
     },
     [](const Site&, BlockWeights& w) { return Rows(w.router); }, kF32},
    {kRouterBias, kMixture, "router bias",
     [](const Site& at) { return If(at.router().bias, {at.router().n_experts}); },
     [](const Site& at, BlockWeights& w) {
       return Values(w.router_bias, at.mixture().n_logits());
     }},
    {kSelectionBias, kMixture, "selection bias",
     [](const Site& at) { return If(at.router().selection_bias, {at.router().n_experts}); },
     SelectionBiasPlace},
    {kSelectionBiasRow, kMixture, "selection bias",
     [](const Site& at) {
       return If(at.router().selection_bias, {1, at.router().n_experts});
     },
     SelectionBiasPlace},
    {kSharedGateUp, kMixture, "shared gate and up", Mlp<Shared>::GateUp, Mlp<Shared>::GateUpPlace,
     kIn0 | kIn1},
    {kSharedGate, kMixture, "shared gate", Mlp<Shared>::Gate, Mlp<Shared>::GatePlace, kIn0},
    {kSharedUp, kMixture, "shared up", Mlp<Shared>::Up, Mlp<Shared>::UpPlace, kIn1},
    {kSharedDown, kMixture, "shared down", Mlp<Shared>::Down, Mlp<Shared>::DownPlace, kOut},
    {kSharedRouter, kMixture, "weight of the shared expert",
     [](const Site& at) {
       return If(at.mixture().shared_gate, {1, at.model.width});
     },
     [](const Site& at, BlockWeights& w) { return Rows(w.router, at.router().n_experts); }, kF32},
    {kExpertGateUp, kMixture, "expert gate and up", Mlp<Expert>::GateUp, Mlp<Expert>::GateUpPlace,
     kIn0 | kIn1, true},
    {kExpertGateUpBias, kMixture, "expert gate and up bias", Mlp<Expert>::GateUpBias,
     Mlp<Expert>::GateUpBiasPlace, 0, true},
    {kExpertGate, kMixture, "expert gate", Mlp<Expert>::Gate, Mlp<Expert>::GatePlace, kIn0, true},
    {kExpertGateBias, kMixture, "expert gate bias", Mlp<Expert>::GateBias,
     Mlp<Expert>::GateBiasPlace, 0, true},
    {kExpertUp, kMixture, "expert up", Mlp<Expert>::Up, Mlp<Expert>::UpPlace, kIn1, true},
    {kExpertUpBias, kMixture, "expert up bias", Mlp<Expert>::UpBias, Mlp<Expert>::UpBiasPlace, 0,
     true},
    {kExpertDown, kMixture, "expert down", Mlp<Expert>::Down, Mlp<Expert>::DownPlace, kOut, true},
    {kExpertDownBias, kMixture, "expert down bias", Mlp<Expert>::DownBias,
     Mlp<Expert>::DownBiasPlace, 0, true},
    {kExpertScales, kMixture, "weights of experts",
     [](const Site& at) { return If(at.router().expert_scales, {at.router().n_experts}); },
     [](const Site& at, BlockWeights& w) {
       return Values(w.expert_scales, at.router().n_experts);
     }},
    {kRouterNorm, kMixture, "router norm", NormApart<&MixtureSpec::router_norm>,
     NormApartPlace<&MixtureSpec::router_norm, &BlockWeights::router_norm>},
    {kSharedNorm, kMixture, "norm before the shared feed-forward",
     NormApart<&MixtureSpec::shared_norm>,
     NormApartPlace<&MixtureSpec::shared_norm, &BlockWeights::shared_norm>},
    {kSharedPostNorm, kMixture, "norm after the shared feed-forward",
     NormApart<&MixtureSpec::shared_after>,
     NormApartPlace<&MixtureSpec::shared_after, &BlockWeights::shared_after>},
    {kExpertsPostNorm, kMixture, "norm after the experts", NormApart<&MixtureSpec::experts_after>,
     NormApartPlace<&MixtureSpec::experts_after, &BlockWeights::experts_after>},

    {kLayerInputGate, kLayerInput, "layer input gate", Mlp<Dense>::Up, Mlp<Dense>::UpPlace, kIn1},
    {kLayerInputOut, kLayerInput, "layer input projection", Mlp<Dense>::Down, Mlp<Dense>::DownPlace,
     kOut},
    {kLayerInputPostNorm, kLayerInput, "norm after the layer input", PostWeight, PostWeightPlace},
    {kLayerInputFactor, kLayerInput, "layer scalar", StreamFactor, StreamFactorPlace},
};

}  // namespace ng::roles

#endif  // NG_CORE_MODEL_WEIGHTS_MLP_ROLES_H_
