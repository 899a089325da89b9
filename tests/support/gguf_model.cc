#include "tests/support/gguf_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace ng::test {
namespace {

// In GGUF's words, "{}" for the layer.
std::string NameOf(const TensorBinding& binding, const ModelSpec& spec) {
  static const std::map<TensorRole, std::string> kNames = {
      {TensorRole::kTokenEmbedding, "token_embd.weight"},
      {TensorRole::kPositions, "position_embd.weight"},
      {TensorRole::kHead, "output.weight"},
      {TensorRole::kFinalNorm, "output_norm.weight"},
      {TensorRole::kFinalNormBias, "output_norm.bias"},
      {TensorRole::kAttnNorm, "blk.{}.attn_norm.weight"},
      {TensorRole::kAttnNormBias, "blk.{}.attn_norm.bias"},
      {TensorRole::kQkv, "blk.{}.attn_qkv.weight"},
      {TensorRole::kQkvBias, "blk.{}.attn_qkv.bias"},
      {TensorRole::kQ, "blk.{}.attn_q.weight"},
      {TensorRole::kQBias, "blk.{}.attn_q.bias"},
      {TensorRole::kK, "blk.{}.attn_k.weight"},
      {TensorRole::kKBias, "blk.{}.attn_k.bias"},
      {TensorRole::kV, "blk.{}.attn_v.weight"},
      {TensorRole::kVBias, "blk.{}.attn_v.bias"},
      {TensorRole::kQNorm, "blk.{}.attn_q_norm.weight"},
      {TensorRole::kKNorm, "blk.{}.attn_k_norm.weight"},
      {TensorRole::kAttnInnerNorm, "blk.{}.attn_sub_norm.weight"},
      {TensorRole::kMlpInnerNorm, "blk.{}.ffn_sub_norm.weight"},
      {TensorRole::kAttnOut, "blk.{}.attn_output.weight"},
      {TensorRole::kAttnOutBias, "blk.{}.attn_output.bias"},
      {TensorRole::kQAndGate, "blk.{}.attn_q.weight"},
      {TensorRole::kStateIn, "blk.{}.ssm_in.weight"},
      {TensorRole::kStateConvIn, "blk.{}.attn_qkv.weight"},
      {TensorRole::kStateGate, "blk.{}.attn_gate.weight"},
      {TensorRole::kStateWrite, "blk.{}.ssm_beta.weight"},
      {TensorRole::kStateStep, "blk.{}.ssm_alpha.weight"},
      {TensorRole::kStateGroups, "blk.{}.ssm_in.weight"},
      {TensorRole::kStateValues, "blk.{}.ssm_ba.weight"},
      {TensorRole::kStateConv, "blk.{}.ssm_conv1d.weight"},
      {TensorRole::kStateConvBias, "blk.{}.ssm_conv1d.bias"},
      {TensorRole::kStateDecayLog, "blk.{}.ssm_a"},
      {TensorRole::kStateStepBias, "blk.{}.ssm_dt.bias"},
      {TensorRole::kStateSkip, "blk.{}.ssm_d"},
      {TensorRole::kStateNorm, "blk.{}.ssm_norm.weight"},
      {TensorRole::kStateOut, "blk.{}.ssm_out.weight"},
      {TensorRole::kMlpNorm, "blk.{}.ffn_norm.weight"},
      {TensorRole::kMlpNormBias, "blk.{}.ffn_norm.bias"},
      {TensorRole::kMlpGate, "blk.{}.ffn_gate.weight"},
      {TensorRole::kMlpGateBias, "blk.{}.ffn_gate.bias"},
      {TensorRole::kMlpUp, "blk.{}.ffn_up.weight"},
      {TensorRole::kMlpUpBias, "blk.{}.ffn_up.bias"},
      {TensorRole::kMlpDown, "blk.{}.ffn_down.weight"},
      {TensorRole::kMlpDownBias, "blk.{}.ffn_down.bias"},
      {TensorRole::kMlpGateUp, "blk.{}.ffn_up.weight"},
      {TensorRole::kAttnPostNorm, "blk.{}.post_attention_norm.weight"},
      {TensorRole::kMlpPostNorm, "blk.{}.post_ffw_norm.weight"},
      {TensorRole::kQDown, "blk.{}.attn_q_a.weight"},
      {TensorRole::kQDownNorm, "blk.{}.attn_q_a_norm.weight"},
      {TensorRole::kQUp, "blk.{}.attn_q_b.weight"},
      {TensorRole::kKvDown, "blk.{}.attn_kv_a_mqa.weight"},
      {TensorRole::kKvDownNorm, "blk.{}.attn_kv_a_norm.weight"},
      {TensorRole::kRouter, "blk.{}.ffn_gate_inp.weight"},
      {TensorRole::kSelectionBias, "blk.{}.exp_probs_b.bias"},
      {TensorRole::kSharedRouter, "blk.{}.ffn_gate_inp_shexp.weight"},
      {TensorRole::kSharedGate, "blk.{}.ffn_gate_shexp.weight"},
      {TensorRole::kSharedUp, "blk.{}.ffn_up_shexp.weight"},
      {TensorRole::kSharedDown, "blk.{}.ffn_down_shexp.weight"},
      {TensorRole::kExpertGate, "blk.{}.ffn_gate_exps.weight"},
      {TensorRole::kExpertUp, "blk.{}.ffn_up_exps.weight"},
      {TensorRole::kExpertDown, "blk.{}.ffn_down_exps.weight"},
      {TensorRole::kExpertGateUp, "blk.{}.ffn_gate_up_exps.weight"},
      {TensorRole::kExpertScales, "blk.{}.ffn_down_exps.scale"},
      {TensorRole::kRouterNorm, "blk.{}.ffn_gate_inp.scale"},
      {TensorRole::kSharedPostNorm, "blk.{}.post_ffw_norm_1.weight"},
      {TensorRole::kExpertsPostNorm, "blk.{}.post_ffw_norm_2.weight"},
      {TensorRole::kMlpFactor, "blk.{}.layer_output_scale.weight"},
      {TensorRole::kLayerInputFactor, "blk.{}.layer_output_scale.weight"},
      {TensorRole::kLayerEmbedding, "per_layer_token_embd.weight"},
      {TensorRole::kLayerProjection, "per_layer_model_proj.weight"},
      {TensorRole::kLayerInputNorm, "per_layer_proj_norm.weight"},
      {TensorRole::kLayerInputGate, "blk.{}.inp_gate.weight"},
      {TensorRole::kLayerInputOut, "blk.{}.proj.weight"},
      {TensorRole::kLayerInputPostNorm, "blk.{}.post_norm.weight"},
  };
  // Of layers whose feed-forward and experts have norms apart.
  static const std::map<TensorRole, std::string> kOfNormsApart = {
      {TensorRole::kMlpNorm, "blk.{}.pre_ffw_norm_2.weight"},
      {TensorRole::kSharedNorm, "blk.{}.ffn_norm.weight"},
      {TensorRole::kSharedGate, "blk.{}.ffn_gate.weight"},
      {TensorRole::kSharedUp, "blk.{}.ffn_up.weight"},
      {TensorRole::kSharedDown, "blk.{}.ffn_down.weight"},
  };
  std::vector<std::pair<absl::string_view, std::string>> changes = {
      {"{}", absl::StrCat(binding.at.layer)}};
  const StateSpec* const state = spec.states.empty() ? nullptr : &spec.states[0];
  if (state != nullptr && state->kind == StateKind::kShortConv) {
    changes.insert(changes.end(), {{"ssm_in", "shortconv.in_proj"},
                                   {"ssm_conv1d", "shortconv.conv"},
                                   {"ssm_out", "shortconv.out_proj"},
                                   {"output_norm", "token_embd_norm"}});
  }
  if (state != nullptr && state->kind == StateKind::kDeltaRule) {
    changes.emplace_back("ffn_norm", "post_attention_norm");
  }
  const bool one_block =
      binding.at.layer >= 0 && spec.layers[static_cast<size_t>(binding.at.layer)].size() == 1;
  if (one_block) changes.emplace_back("ffn_norm", "attn_norm");
  const bool apart = !spec.mixtures.empty() && spec.mixtures[0].norms_apart() &&
                     kOfNormsApart.contains(binding.role);
  return absl::StrReplaceAll((apart ? kOfNormsApart : kNames).at(binding.role), changes);
}

// The second matrix of k and v, as two tensors of a matrix for each head; that of k is turned.
void AddKvUp(const SelfAttentionSpec& attention, int layer, const std::vector<float>& rows,
             const AddMatrix& add_matrix, GgufBuilder* gguf) {
  const LatentSpec& latent = attention.latent;
  const int64_t rank = latent.kv_rank;
  const int64_t n_k = attention.head_dim - latent.rope_dim;
  const int64_t n_v = attention.value_dim();
  std::vector<float> k;
  std::vector<float> v;
  for (int64_t head = 0; head < attention.n_heads; ++head) {
    const auto first = rows.begin() + head * (n_k + n_v) * rank;
    for (int64_t r = 0; r < rank; ++r) {
      for (int64_t i = 0; i < n_k; ++i) k.push_back(first[i * rank + r]);
    }
    v.insert(v.end(), first + n_k * rank, first + (n_k + n_v) * rank);
  }
  const std::string prefix = absl::StrCat("blk.", layer, ".");
  const std::vector<int64_t> k_shape = {attention.n_heads, rank, n_k};
  const std::vector<int64_t> v_shape = {attention.n_heads, n_v, rank};
  add_matrix(*gguf, prefix + "attn_k_b.weight", k_shape, k);
  add_matrix(*gguf, prefix + "attn_v_b.weight", v_shape, v);
}

// Heads of q, of k and of v by turns, as all of q, then all of k, then all of v.
std::vector<float> Ungrouped(const std::vector<float>& rows, const SelfAttentionSpec& attention) {
  const auto k = std::ssize(rows) / attention.qkv_width();
  const int64_t per_group = attention.n_heads / attention.n_kv_heads;
  std::vector<float> parts[3];
  for (int64_t head = 0; head < attention.n_heads + 2 * attention.n_kv_heads; ++head) {
    const int64_t in_group = head % (per_group + 2);
    const auto from = rows.begin() + head * attention.head_dim * k;
    std::vector<float>& part = parts[in_group < per_group ? 0 : in_group - per_group + 1];
    part.insert(part.end(), from, from + attention.head_dim * k);
  }
  for (const int i : {1, 2}) parts[0].insert(parts[0].end(), parts[i].begin(), parts[i].end());
  return parts[0];
}

// rows: [inputs, outputs], or as many such as there are experts -> [outputs, inputs]
std::vector<float> Transposed(const std::vector<float>& rows, const std::vector<int64_t>& shape) {
  const auto n = static_cast<size_t>(shape.back());
  const auto k = static_cast<size_t>(shape[shape.size() - 2]);
  std::vector<float> turned(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t in_matrix = i % (n * k);
    turned[i - in_matrix + in_matrix % n * k + in_matrix / n] = rows[i];
  }
  return turned;
}

// Gates and ups of all experts, as two tensors.
void AddGatesAndUps(int layer, std::vector<int64_t> shape, const std::vector<float>& rows,
                    const AddMatrix& add_matrix, GgufBuilder* gguf) {
  const std::string prefix = absl::StrCat("blk.", layer, ".ffn_");
  const int64_t part = shape[1] / 2 * shape[2];
  std::vector<float> gates;
  std::vector<float> ups;
  for (auto expert = rows.begin(); expert != rows.end(); expert += 2 * part) {
    gates.insert(gates.end(), expert, expert + part);
    ups.insert(ups.end(), expert + part, expert + 2 * part);
  }
  shape[1] /= 2;
  add_matrix(*gguf, prefix + "gate_exps.weight", shape, gates);
  add_matrix(*gguf, prefix + "up_exps.weight", shape, ups);
}

// Row j of a head and row j + head_dim / 2, side by side.
std::vector<float> Paired(const std::vector<float>& rows, int64_t n_rows, int64_t head_dim) {
  const auto k = static_cast<int64_t>(rows.size()) / n_rows;
  std::vector<float> paired;
  for (int64_t head = 0; head < n_rows; head += head_dim) {
    for (int64_t j = 0; j < head_dim; ++j) {
      const auto from = rows.begin() + (head + j / 2 + j % 2 * (head_dim / 2)) * k;
      paired.insert(paired.end(), from, from + k);
    }
  }
  return paired;
}

// Of `n_heads` parts side by side in each row of `k` values, or of as many parts of all rows: first
// those that each group has first, then the second ones.
std::vector<float> InTurn(const std::vector<float>& values, const StateSpec& state, int64_t k) {
  const int64_t part = k / state.n_heads;
  const int64_t per_group = state.n_heads / state.n_groups;
  std::vector<float> turned;
  for (auto row = values.begin(); row != values.end(); row += k) {
    for (int64_t i = 0; i < state.n_heads; ++i) {
      const auto from = row + (i % state.n_groups * per_group + i / state.n_groups) * part;
      turned.insert(turned.end(), from, from + part);
    }
  }
  return turned;
}

// The heads of Qwen 3.5's states as its files have them.
void TurnHeads(const StateSpec& state, TensorRole role, std::vector<float>* values) {
  using enum TensorRole;
  const auto size = std::ssize(*values);
  if (role == kStateOut) {
    *values = InTurn(*values, state, state.out_width());
  } else if (role == kStateConvIn || role == kStateConv) {  // q and k go before
    const auto first = values->begin() + size / state.conv_width * 2 * state.key_width();
    const std::vector<float> heads(first, values->end());
    std::ranges::copy(InTurn(heads, state, std::ssize(heads)), first);
  } else if (role == kStateGate || role == kStateWrite || role == kStateStep ||
             role == kStateDecayLog || role == kStateStepBias) {
    *values = InTurn(*values, state, size);
  }
}

// What the file holds of a state, in its shape.
void ChangeState(const StateSpec& state, TensorRole role, std::vector<int64_t>* shape,
                 std::vector<float>* values) {
  const bool mamba = state.kind == StateKind::kMamba2;
  if (role == TensorRole::kStateConv) *shape = {state.conv_width, state.taps};
  if (role == TensorRole::kStateDecayLog) {
    for (float& value : *values) value = -std::exp(value);
  }
  if (!mamba) return;
  if (role == TensorRole::kStateDecayLog || role == TensorRole::kStateSkip) shape->push_back(1);
  if (role == TensorRole::kStateNorm) {
    *shape = {state.n_groups, state.out_width() / state.n_groups};
  }
}

bool IsRotated(TensorRole role) {
  return role == TensorRole::kQ || role == TensorRole::kQBias || role == TensorRole::kK ||
         role == TensorRole::kKBias;
}

bool IsNorm(TensorRole role) {
  using enum TensorRole;
  constexpr TensorRole kNorms[] = {kFinalNorm,   kAttnNorm, kAttnPostNorm, kMlpNorm,
                                   kMlpPostNorm, kQNorm,    kKNorm};
  return std::ranges::count(kNorms, role) > 0;
}

// Of each layer where some have no feed-forward.
void AddFfnWidth(const ModelSpec& spec, const std::string& architecture, GgufBuilder* gguf) {
  const std::string key = architecture + ".feed_forward_length";
  const auto width = static_cast<uint32_t>(
      spec.feed_forwards.empty() ? spec.mixtures[0].expert.width : spec.feed_forwards[0].width);
  std::string widths;
  for (const LayerSpec& blocks : spec.layers) {
    const Operation last = blocks.back().operation;
    const bool has = last == Operation::kFeedForward || last == Operation::kMixture;
    widths += Raw(has ? width : 0U);
  }
  const bool all =
      std::ranges::all_of(spec.layers, [](const LayerSpec& blocks) { return blocks.size() == 2; });
  all ? gguf->U32(key, width) : gguf->Array(key, GgufType::kU32, spec.layers.size(), widths);
}

// The heads of keys, of each layer where some have a state in place of them, and what a state is
// of.
void AddStateKeys(const ModelSpec& spec, const std::string& architecture, GgufBuilder* gguf) {
  const auto u32 = [&](const char* name, int64_t value) {
    gguf->U32(absl::StrCat(architecture, ".", name), static_cast<uint32_t>(value));
  };
  constexpr char kKvHeads[] = "attention.head_count_kv";
  if (spec.states.empty()) return u32(kKvHeads, spec.shape.n_kv_heads);
  const StateSpec& state = spec.states[0];
  if (state.kind == StateKind::kDeltaRule) {
    u32(kKvHeads, spec.shape.n_kv_heads);
  } else {
    std::string heads;
    for (const LayerSpec& blocks : spec.layers) {
      const bool attends = blocks[0].operation == Operation::kAttention;
      heads += Raw(static_cast<uint32_t>(attends ? spec.shape.n_kv_heads : 0));
    }
    gguf->Array(absl::StrCat(architecture, ".", kKvHeads), GgufType::kU32, spec.layers.size(),
                heads);
  }
  if (state.kind == StateKind::kShortConv) return u32("shortconv.l_cache", state.taps);
  u32("ssm.conv_kernel", state.taps);
  u32("ssm.group_count", state.n_groups);
  u32("ssm.time_step_rank", state.n_heads);
  u32("ssm.state_size", state.key_dim);
  u32("ssm.inner_size", state.out_width());
}

}  // namespace

GgufBuilder GgufKeys(const ModelSpec& spec, const std::string& architecture) {
  const auto key = [&](const char* name) { return absl::StrCat(architecture, ".", name); };
  const auto u32 = [](int64_t value) { return static_cast<uint32_t>(value); };
  GgufBuilder gguf;
  gguf.Text("general.architecture", architecture)
      .U32(key("vocab_size"), u32(spec.shape.vocab_size))
      .U32(key("context_length"), u32(spec.shape.max_positions))
      .U32(key("embedding_length"), u32(spec.width))
      .U32(key("block_count"), u32(spec.shape.n_layers))
      .U32(key("attention.head_count"), u32(spec.shape.n_heads))
      .U32(key("attention.key_length"), u32(spec.shape.head_dim))
      .F32(key(spec.head.norm.kind == NormKind::kRmsNorm ? "attention.layer_norm_rms_epsilon"
                                                         : "attention.layer_norm_epsilon"),
           spec.head.norm.eps);
  AddFfnWidth(spec, architecture, &gguf);
  AddStateKeys(spec, architecture, &gguf);
  for (const RopeSpec& rope : spec.ropes) {
    gguf.F32(key("rope.freq_base"), static_cast<float>(rope.theta));
    if (rope.scaling.kind == RopeScalingKind::kLinear) {
      gguf.Text(key("rope.scaling.type"), "linear")
          .F32(key("rope.scaling.factor"), static_cast<float>(rope.scaling.factor));
    }
  }
  return gguf;
}

void AddTensors(const ModelFile& model, const AddMatrix& add_matrix, GgufBuilder* gguf) {
  std::vector<float> of_experts;  // of those before this one
  for (const TensorBinding& binding : model.bindings) {
    const TensorInfo& tensor = *binding.tensor;
    const bool one_norm = binding.role == TensorRole::kMlpNorm &&
                          model.Find(TensorRole::kAttnNorm, binding.at.layer) == &tensor;
    if (one_norm) continue;
    std::vector<std::byte> raw(static_cast<size_t>(tensor.n_bytes));
    ASSERT_TRUE(model.source->Read(tensor, raw).ok());
    std::vector<float> values(static_cast<size_t>(tensor.n_elements));
    ConvertToF32(tensor.dtype, raw.data(), values);
    const BlockSpec* const attends =
        binding.at.layer < 0 ? nullptr
                             : &model.spec.layers[static_cast<size_t>(binding.at.layer)][0];
    if (binding.role == TensorRole::kKUp || binding.role == TensorRole::kVUp) {
      // Once for all heads.
      if (binding.role == TensorRole::kKUp && binding.at.expert == 0) {
        AddKvUp(model.spec.AttentionOf(*attends), binding.at.layer, values, add_matrix, gguf);
      }
      continue;
    }
    std::vector<int64_t> shape = tensor.shape;
    if (binding.transposed) {
      values = Transposed(values, shape);
      std::swap(shape[shape.size() - 2], shape.back());
    }
    const std::string& family = model.spec.family;
    const bool in_pairs = family == "llama" || family == "granite" || family == "granitemoehybrid";
    if (in_pairs && IsRotated(binding.role)) {
      values = Paired(values, shape[0], model.spec.shape.head_dim);
    }
    if (binding.order == StoredOrder::kGroups) {
      values = Ungrouped(values, model.spec.AttentionOf(*attends));
    }
    if (attends != nullptr && attends->operation == Operation::kState) {
      const StateSpec& state = model.spec.StateOf(*attends);
      if (family.starts_with("qwen3_5")) TurnHeads(state, binding.role, &values);
      ChangeState(state, binding.role, &shape, &values);
    }
    if (IsOfExpert(binding.role)) {
      const int n_experts = ExpertsOf(model.spec, binding.at.layer);
      const bool has_all = shape.size() == 3;
      if (!has_all) of_experts.insert(of_experts.end(), values.begin(), values.end());
      if (binding.at.expert < n_experts - 1) continue;
      if (!has_all) {
        values = std::exchange(of_experts, {});
        shape.insert(shape.begin(), n_experts);
      }
    }
    if (family == "llama4_text" && binding.role == TensorRole::kExpertGateUp) {
      AddGatesAndUps(binding.at.layer, shape, values, add_matrix, gguf);
      continue;
    }
    // What the decoder adds to a norm's weights the file has added.
    for (float& value : values) value += IsNorm(binding.role) ? model.spec.head.norm.offset : 0.0F;
    if (family == "granitemoehybrid" && binding.role == TensorRole::kMlpGateUp) {
      const auto half = values.begin() + std::ssize(values) / 2;
      const std::string prefix = absl::StrCat("blk.", binding.at.layer, ".ffn_");
      shape[0] /= 2;
      add_matrix(*gguf, prefix + "gate.weight", shape, {values.begin(), half});
      add_matrix(*gguf, prefix + "up.weight", shape, {half, values.end()});
      continue;
    }
    // Programs have written a matrix of one row as a vector, too.
    const bool as_vector = binding.role == TensorRole::kSharedRouter && binding.at.layer % 2 == 0;
    if (as_vector) shape = {shape.back()};
    if (shape.size() == 1 || binding.role == TensorRole::kPositions) {
      gguf->Tensor(NameOf(binding, model.spec), shape, DType::kF32, values);
    } else {
      add_matrix(*gguf, NameOf(binding, model.spec), shape, values);
    }
  }
}

GgufBuilder GgufOf(const ModelFile& model, const std::string& architecture, DType dtype) {
  GgufBuilder gguf = GgufKeys(model.spec, architecture);
  AddTensors(
      model,
      [dtype](GgufBuilder& to, const std::string& name, const std::vector<int64_t>& shape,
              const std::vector<float>& values) { to.Tensor(name, shape, dtype, values); },
      &gguf);
  return gguf;
}

}  // namespace ng::test
