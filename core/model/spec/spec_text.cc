#include "core/model/spec/spec_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ng {
namespace {

using Words = std::vector<std::string>;

std::string NormText(const NormSpec& norm) {
  return absl::StrCat(norm.kind == NormKind::kRmsNorm ? "rms norm" : "layer norm",
                      norm.weight ? "" : " without weights", norm.bias ? " with biases" : "",
                      ", eps ", norm.eps,
                      norm.offset == 0.0F ? "" : absl::StrCat(", weights + ", norm.offset));
}

const char* ActivationTitle(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "silu";
    case Activation::kGeluErf:
      return "gelu by erf";
    case Activation::kGeluTanh:
      return "gelu by tanh";
    case Activation::kRelu:
      return "relu";
    case Activation::kReluSquared:
      return "squared relu";
    case Activation::kXielu:
      return "xielu";
  }
  return "unknown";
}

std::string RopeText(const RopeSpec& rope) {
  std::string text = absl::StrCat(
      rope.pairing == RopePairing::kHalfSplit ? "half-split" : "interleaved", " theta ", rope.theta,
      " over ", rope.n_dims, " dimensions", rope.backwards ? " backwards" : "");
  if (rope.n_turning > 0) absl::StrAppend(&text, ", the first ", rope.n_turning, " pairs turn");
  const RopeScaling& scaling = rope.scaling;
  switch (scaling.kind) {
    case RopeScalingKind::kNone:
      return rope.factors ? absl::StrCat(text, ", frequencies divided by a tensor's factors",
                                         scaling.far ? " for long runs" : "")
                          : text;
    case RopeScalingKind::kLinear:
      return absl::StrCat(text, " scaled linear by ", scaling.factor);
    case RopeScalingKind::kLlama3:
      return absl::StrCat(text, " scaled llama3 by ", scaling.factor, " (turns ",
                          scaling.low_freq_factor, " to ", scaling.high_freq_factor, " of ",
                          scaling.original_positions, " positions)");
    case RopeScalingKind::kYarn:
      return absl::StrCat(text, " scaled yarn by ", scaling.factor, " (pairs ", scaling.low_pair,
                          " to ", scaling.high_pair, "), times ", scaling.magnitude);
    case RopeScalingKind::kLongRope:
      return absl::StrCat(text, " scaled longrope ", scaling.far ? "for runs beyond " : "within ",
                          scaling.original_positions, " positions, times ", scaling.magnitude);
  }
  return text;
}

std::string BiasText(const Words& biases) {
  return biases.empty() ? "no biases" : "biases of " + absl::StrJoin(biases, ", ");
}

const char* QkNormTitle(QkNormKind kind) {
  switch (kind) {
    case QkNormKind::kHeads:
      return "norms of q and k heads";
    case QkNormKind::kHeadsAfterRope:
      return "norms of q and k heads behind rope";
    case QkNormKind::kEachHead:
      return "norms of each q and k head";
    case QkNormKind::kWidth:
      return "norms of q and k";
  }
  return "unknown";
}

std::string AttentionText(const SelfAttentionSpec& attention) {
  Words parts = {absl::StrCat(attention.n_heads, " heads over ", attention.n_kv_heads, " of ",
                              attention.head_dim)};
  if (attention.v_head_dim != 0) parts.push_back(absl::StrCat("v of ", attention.v_head_dim));
  if (!attention.has_keys()) {
    parts.push_back(absl::StrCat("keys and values of layer ", attention.keys_of));
  }
  if (attention.rope >= 0) parts.push_back(absl::StrCat("rope ", attention.rope));
  if (attention.window > 0) {
    parts.push_back(
        absl::StrCat(attention.chunks ? "chunks of " : "sliding window ", attention.window));
  }
  if (attention.scale != 0.0) parts.push_back(absl::StrCat("scores times ", attention.scale));
  if (attention.soft_cap > 0.0) {
    parts.push_back(absl::StrCat("scores capped at ", attention.soft_cap));
  }
  if (attention.clip > 0.0) parts.push_back(absl::StrCat("q, k, v clipped at ", attention.clip));
  if (!attention.alibi_slopes.empty()) {
    parts.push_back("alibi slopes " + absl::StrJoin(attention.alibi_slopes, " "));
  }
  if (!attention.sinks.empty()) parts.emplace_back("a sink for each head");
  if (const auto& [coefficient, length, offset] = attention.temperature; coefficient != 0.0) {
    parts.push_back(absl::StrCat("queries times 1 + ", coefficient, " log(1 + floor((position + ",
                                 offset, ") / ", length, "))"));
  }
  if (const LatentSpec& latent = attention.latent; latent.is_there()) {
    const std::string of_q =
        latent.q_rank > 0 ? absl::StrCat(" of q of ", latent.q_rank, " and") : std::string();
    parts.push_back(absl::StrCat(
        "latents", of_q, " of k and v of ", latent.kv_rank, " (", NormText(latent.norm),
        "), the last ", latent.rope_dim, " dimensions turn, the cache holds one head of ",
        attention.key_dim(), " whose first ", attention.attended_dim(), " are its values"));
  }
  if (attention.gate) parts.emplace_back("times the sigmoid of a gate");
  if (attention.qk_norm.is_there()) {
    parts.push_back(
        absl::StrCat(QkNormTitle(attention.qk_norm_kind), " (", NormText(attention.qk_norm), ")"));
  }
  if (attention.v_norm.is_there()) {
    parts.push_back(absl::StrCat("norms of v heads (", NormText(attention.v_norm), ")"));
  }
  if (attention.v_is_k) parts.emplace_back("v is k before its norm");
  Words biases;
  if (attention.qkv_bias) biases.emplace_back("q, k, v");
  if (attention.out_bias) biases.emplace_back("output");
  parts.push_back(BiasText(biases));
  return absl::StrJoin(parts, "; ");
}

std::string GateText(const FeedForwardSpec& feed_forward) {
  if (feed_forward.plain_gate()) return "";
  std::string text = absl::StrCat(" with slope ", feed_forward.slope);
  if (feed_forward.limit > 0.0F) absl::StrAppend(&text, ", within ", feed_forward.limit);
  return absl::StrCat(text, ", up + ", feed_forward.up_offset);
}

std::string FeedForwardText(const FeedForwardSpec& feed_forward) {
  return absl::StrCat("width ", feed_forward.width, "; ", ActivationTitle(feed_forward.activation),
                      feed_forward.gated ? " of a gate" : "", GateText(feed_forward), "; ",
                      feed_forward.bias ? "biases" : "no biases");
}

std::string RouterText(const RouterSpec& router) {
  Words parts = {absl::StrCat(router.n_used, " of ", router.n_experts, " by ",
                              router.sigmoid ? "sigmoid" : "softmax")};
  if (router.bias) parts.emplace_back("logits with biases");
  if (router.selection_bias) parts.emplace_back("chosen with biases");
  if (router.n_groups > 1) {
    parts.push_back(absl::StrCat("in the best ", router.n_groups_used, " of ", router.n_groups,
                                 " groups", router.n_best == 1 ? " by their best one" : ""));
  }
  if (router.normalised) {
    parts.push_back(absl::StrCat(
        "weights divided by their sum",
        router.added_to_sum > 0.0F ? absl::StrCat(" + ", router.added_to_sum) : std::string(),
        router.least_sum > 0.0F ? absl::StrCat(", at least ", router.least_sum) : std::string()));
  }
  if (router.logit_scale != 1.0F) {
    parts.push_back(absl::StrCat("logits times ", router.logit_scale));
  }
  if (router.expert_scales) parts.emplace_back("weights times a value of each expert");
  if (router.scale != 1.0F) parts.push_back(absl::StrCat("weights times ", router.scale));
  if (router.weighs_input) parts.emplace_back("weights of what they read");
  return absl::StrJoin(parts, "; ");
}

std::string MixtureText(const MixtureSpec& mixture) {
  std::string text = absl::StrCat("experts ", RouterText(mixture.router), "; each ",
                                  FeedForwardText(mixture.expert));
  if (!mixture.has_shared()) return text;
  absl::StrAppend(&text, "; shared by all", mixture.shared_gate ? " with a weight: " : ": ",
                  FeedForwardText(mixture.shared));
  if (mixture.norms_apart()) {
    absl::StrAppend(&text, "; router and shared feed-forward behind norms of their own (",
                    NormText(mixture.router_norm), "), both results normed");
  }
  return text;
}

std::string StateText(const StateSpec& state) {
  const std::string conv =
      absl::StrCat("convolution of ", state.conv_width, " columns over ", state.taps, " tokens",
                   state.conv_bias ? " with a bias" : "");
  const char* const biases = state.in_bias || state.out_bias ? "biases" : "no biases";
  if (state.kind == StateKind::kShortConv) {
    return absl::StrCat("short ", conv, " between two gates; ", biases);
  }
  const bool mamba = state.kind == StateKind::kMamba2;
  std::string text = absl::StrCat(mamba ? "mamba 2" : "delta rule", "; ", state.n_heads, " heads ",
                                  state.heads_in_turn ? "in turn " : "", "over ", state.n_groups,
                                  " of ", state.key_dim, " by ", state.value_dim, "; ", conv);
  if (mamba) {
    absl::StrAppend(&text, "; steps of ", state.least_step, " to ", state.largest_step);
  }
  return absl::StrCat(text, "; gated, ", NormText(state.norm),
                      mamba ? " of each group" : " of each head", "; ", biases);
}

const char* OperationTitle(Operation operation) {
  switch (operation) {
    case Operation::kAttention:
      return "attention ";
    case Operation::kFeedForward:
      return "feed-forward ";
    case Operation::kMixture:
      return "mixture ";
    case Operation::kState:
      return "state ";
    case Operation::kLayerInput:
      return "layer input by feed-forward ";
  }
  return "unknown ";
}

// "(rms norm, eps 1e-05) attention 0"
std::string BlockText(const BlockSpec& block) {
  std::string text;
  if (block.before.is_there()) absl::StrAppend(&text, "(", NormText(block.before), ") ");
  absl::StrAppend(&text, OperationTitle(block.operation), block.part);
  if (block.inner.is_there()) {
    absl::StrAppend(&text, " (", NormText(block.inner), " before the output)");
  }
  if (block.after.is_there()) absl::StrAppend(&text, " (", NormText(block.after), ")");
  if (block.scale != 1.0F) absl::StrAppend(&text, " times ", block.scale);
  if (block.input == BlockInput::kOfBlockBefore) text += " in parallel";
  if (block.stream_factor) text += ", then the stream times a value";
  if (block.stream_norm.is_there()) {
    absl::StrAppend(&text, ", then (", NormText(block.stream_norm), ") of the stream");
  }
  return text;
}

// "0-3, 5"
std::string RangesText(const std::vector<LayerSpec>& layers, const LayerSpec& wanted) {
  Words ranges;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] != wanted) continue;
    const size_t first = i;
    while (i + 1 < layers.size() && layers[i + 1] == wanted) ++i;
    ranges.push_back(first == i ? absl::StrCat(i) : absl::StrCat(first, "-", i));
  }
  return absl::StrJoin(ranges, ", ");
}

std::string BlocksText(const LayerSpec& blocks) {
  return absl::StrJoin(blocks, "; ", [](std::string* to, const BlockSpec& block) {
    absl::StrAppend(to, BlockText(block));
  });
}

template <typename Part>
void AddParts(const char* name, const std::vector<Part>& parts, std::string (*text)(const Part&),
              Words* lines) {
  for (size_t i = 0; i < parts.size(); ++i) {
    lines->push_back(absl::StrCat(name, " ", i, ": ", text(parts[i])));
  }
}

}  // namespace

std::vector<std::string> SpecLines(const ModelSpec& spec) {
  const EmbeddingSpec& embedding = spec.embedding;
  Words lines = {"embedding of tokens"};
  if (embedding.scale != 1.0F) absl::StrAppend(&lines[0], " times ", embedding.scale);
  if (embedding.positions) {
    lines[0] += embedding.sinusoids ? " and positions of sines" : " and learned positions";
  }
  if (embedding.position_offset > 0) {
    absl::StrAppend(&lines[0], " from row ", embedding.position_offset);
  }
  if (embedding.norm.is_there()) absl::StrAppend(&lines[0], " (", NormText(embedding.norm), ")");
  if (const LayerInputSpec& input = spec.layer_input; input.is_there()) {
    lines.push_back(absl::StrCat("input of each layer: ", input.width,
                                 " values of the token times ", input.scale,
                                 " and of its embedding by a matrix times ", input.projection_scale,
                                 " (", NormText(input.norm), ")"));
  }
  std::vector<LayerSpec> kinds;
  for (const LayerSpec& blocks : spec.layers) {
    if (std::ranges::find(kinds, blocks) != kinds.end()) continue;
    kinds.push_back(blocks);
    lines.push_back(absl::StrCat("layers ", RangesText(spec.layers, blocks), ": ",
                                 blocks.empty() ? "on other ranks" : BlocksText(blocks)));
  }
  AddParts("attention", spec.attentions, AttentionText, &lines);
  AddParts("rope", spec.ropes, RopeText, &lines);
  AddParts("feed-forward", spec.feed_forwards, FeedForwardText, &lines);
  AddParts("mixture", spec.mixtures, MixtureText, &lines);
  AddParts("state", spec.states, StateText, &lines);
  const HeadSpec& head = spec.head;
  lines.push_back(absl::StrCat(
      head.norm.is_there() ? absl::StrCat("(", NormText(head.norm), ") ") : std::string(),
      head.tied ? "head tied to the embedding" : "head of its own", head.bias ? " with a bias" : "",
      head.scale == 1.0F ? "" : absl::StrCat(", logits times ", head.scale),
      head.soft_cap == 0.0F ? "" : absl::StrCat(", logits capped at ", head.soft_cap)));
  return lines;
}

}  // namespace ng
