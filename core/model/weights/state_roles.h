// The roles in a block that keeps a state, in the order of TensorRole.
#ifndef NG_CORE_MODEL_WEIGHTS_STATE_ROLES_H_
#define NG_CORE_MODEL_WEIGHTS_STATE_ROLES_H_

#include "core/model/weights/role_row.h"

namespace ng::roles {

inline bool IsDelta(const Site& at) { return at.state().kind == StateKind::kDeltaRule; }
inline bool IsMamba(const Site& at) { return at.state().kind == StateKind::kMamba2; }
inline Shape StateHeads(const Site& at) { return If(at.state().n_heads > 0, {at.state().n_heads}); }
inline Shape StateHeadRows(const Site& at) {
  return If(IsDelta(at), {at.state().n_heads, at.model.width});
}
// Where the values of the heads begin in a row of the first matrix.
inline int64_t ValuesBegin(const Site& at) {
  return at.state().conv_width + at.state().out_width();
}
inline int64_t StateNormValues(const Site& at) {
  return IsMamba(at) ? at.state().out_width() : at.state().value_dim;
}
// Mamba's files have the gate first, and then the columns of the convolution.
inline Place StateInPlace(const Site& at, Place place) {
  if (!IsMamba(at)) return place;
  const StateSpec& s = at.state();
  place.order = RowOrder::kGroups;
  place.segments = {
      {{s.out_width(), s.conv_width}, {s.conv_width, 0}, {s.head_values(), ValuesBegin(at)}}};
  return place;
}

inline constexpr BlockRow kStateRows[] = {
    {kStateIn, kState, "state input",
     [](const Site& at) {
       return If(!IsDelta(at), {at.state().in_width(), at.model.width});
     },
     [](const Site& at, BlockWeights& w) { return StateInPlace(at, Rows(w.in)); },
     kIn0 | kIn1 | kIn2},
    {kStateInBias, kState, "state input bias",
     [](const Site& at) { return If(at.state().in_bias, {at.state().in_width()}); },
     [](const Site& at, BlockWeights& w) {
       return StateInPlace(at, Values(w.in_bias, at.state().in_width()));
     }},
    {kStateConvIn, kState, "state q, k, v",
     [](const Site& at) {
       return If(IsDelta(at), {at.state().conv_width, at.model.width});
     },
     [](const Site&, BlockWeights& w) { return Rows(w.in); }, kIn0},
    {kStateGate, kState, "state gate",
     [](const Site& at) {
       return If(IsDelta(at), {at.state().out_width(), at.model.width});
     },
     [](const Site& at, BlockWeights& w) { return Rows(w.in, at.state().conv_width); }, kIn1},
    {kStateWrite, kState, "state write", StateHeadRows,
     [](const Site& at, BlockWeights& w) { return Rows(w.in, ValuesBegin(at)); }, kIn2},
    {kStateStep, kState, "state step", StateHeadRows,
     [](const Site& at, BlockWeights& w) {
       return Rows(w.in, ValuesBegin(at) + at.state().n_heads);
     },
     kIn2},
    {kStateGroups, kState, "state q, k, v and gate",
     [](const Site& at) {
       return If(IsDelta(at), {ValuesBegin(at), at.model.width});
     },
     [](const Site& at, BlockWeights& w) {
       const StateSpec& s = at.state();
       const int64_t values = s.out_width() / s.n_groups;
       return Grouped(w.in, {{{s.key_dim, 0},
                              {s.key_dim, s.key_width()},
                              {values, 2 * s.key_width()},
                              {values, s.conv_width}}});
     },
     kIn0 | kIn1},
    {kStateValues, kState, "state write and step",
     [](const Site& at) {
       return If(IsDelta(at), {at.state().head_values(), at.model.width});
     },
     [](const Site& at, BlockWeights& w) {
       const int64_t heads = at.state().n_heads / at.state().n_groups;
       const int64_t begin = ValuesBegin(at);
       return Grouped(w.in, {{{heads, begin}, {heads, begin + at.state().n_heads}}});
     },
     kIn2},
    {kStateConv, kState, "state convolution",
     [](const Site& at) {
       return Shape{at.state().conv_width, 1, at.state().taps};
     },
     [](const Site& at, BlockWeights& w) {
       Place place = Values(w.state.conv, at.state().conv_width * at.state().taps);
       place.order = RowOrder::kTaps;
       place.unit = at.state().taps;
       return place;
     }},
    {kStateConvBias, kState, "state convolution bias",
     [](const Site& at) { return If(at.state().conv_bias, {at.state().conv_width}); },
     [](const Site& at, BlockWeights& w) {
       return Values(w.state.conv_bias, at.state().conv_width);
     }},
    {kStateDecayLog, kState, "state decay", StateHeads,
     [](const Site& at, BlockWeights& w) { return Values(w.state.decay_log, at.state().n_heads); }},
    {kStateStepBias, kState, "state step bias", StateHeads,
     [](const Site& at, BlockWeights& w) { return Values(w.state.step_bias, at.state().n_heads); }},
    {kStateSkip, kState, "state skip",
     [](const Site& at) { return If(IsMamba(at), {at.state().n_heads}); },
     [](const Site& at, BlockWeights& w) { return Values(w.state.skip, at.state().n_heads); }},
    {kStateNorm, kState, "state norm",
     [](const Site& at) { return If(at.state().norm.has_weight(), {StateNormValues(at)}); },
     [](const Site& at, BlockWeights& w) {
       return NormValues(at.state().norm, w.state.norm, StateNormValues(at));
     }},
    {kStateOut, kState, "state output",
     [](const Site& at) {
       return Shape{at.model.width, at.state().out_width()};
     },
     [](const Site&, BlockWeights& w) { return Rows(w.out); }, kOut},
    {kStateOutBias, kState, "state output bias",
     [](const Site& at) { return If(at.state().out_bias, {at.model.width}); }, OutBias},
};

}  // namespace ng::roles

#endif  // NG_CORE_MODEL_WEIGHTS_STATE_ROLES_H_
