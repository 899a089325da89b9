#include "tests/support/gguf_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace ng::test {
namespace {

// In GGUF's words, "{}" for the layer.
std::string NameOf(const TensorBinding& binding) {
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
      {TensorRole::kAttnOut, "blk.{}.attn_output.weight"},
      {TensorRole::kAttnOutBias, "blk.{}.attn_output.bias"},
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
  };
  return absl::StrReplaceAll(kNames.at(binding.role), {{"{}", absl::StrCat(binding.at.layer)}});
}

// The second matrix of k and v, as two tensors of a matrix for each head; that of k is turned.
void AddKvUp(const SelfAttentionSpec& attention, int layer, const std::vector<float>& rows,
             GgufBuilder* gguf) {
  const LatentSpec& latent = attention.latent;
  const int64_t rank = latent.kv_rank;
  const int64_t n_k = attention.head_dim - latent.rope_dim;
  std::vector<float> k;
  std::vector<float> v;
  for (int64_t head = 0; head < attention.n_heads; ++head) {
    const auto first = rows.begin() + head * (n_k + latent.v_dim) * rank;
    for (int64_t r = 0; r < rank; ++r) {
      for (int64_t i = 0; i < n_k; ++i) k.push_back(first[i * rank + r]);
    }
    v.insert(v.end(), first + n_k * rank, first + (n_k + latent.v_dim) * rank);
  }
  const std::string prefix = absl::StrCat("blk.", layer, ".");
  const std::vector<int64_t> k_shape = {attention.n_heads, rank, n_k};
  const std::vector<int64_t> v_shape = {attention.n_heads, latent.v_dim, rank};
  gguf->Tensor(prefix + "attn_k_b.weight", k_shape, DType::kF32, k)
      .Tensor(prefix + "attn_v_b.weight", v_shape, DType::kF32, v);
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

// rows: [inputs, outputs] -> [outputs, inputs]
std::vector<float> Transposed(const std::vector<float>& rows, int64_t n_inputs) {
  const auto k = static_cast<size_t>(n_inputs);
  const size_t n = rows.size() / k;
  std::vector<float> turned(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) turned[i % n * k + i / n] = rows[i];
  return turned;
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

bool IsRotated(TensorRole role) {
  return role == TensorRole::kQ || role == TensorRole::kQBias || role == TensorRole::kK ||
         role == TensorRole::kKBias;
}

bool IsNorm(TensorRole role) {
  using enum TensorRole;
  constexpr TensorRole kNorms[] = {kFinalNorm, kAttnNorm, kAttnPostNorm, kMlpNorm, kMlpPostNorm};
  return std::ranges::count(kNorms, role) > 0;
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
      .U32(key("feed_forward_length"), u32(spec.feed_forwards[0].width))
      .U32(key("block_count"), u32(spec.shape.n_layers))
      .U32(key("attention.head_count"), u32(spec.shape.n_heads))
      .U32(key("attention.head_count_kv"), u32(spec.shape.n_kv_heads))
      .U32(key("attention.key_length"), u32(spec.shape.head_dim))
      .F32(key(spec.head.norm.kind == NormKind::kRmsNorm ? "attention.layer_norm_rms_epsilon"
                                                         : "attention.layer_norm_epsilon"),
           spec.head.norm.eps);
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
    std::vector<int64_t> shape = tensor.shape;
    if (binding.transposed) {
      values = Transposed(values, shape[0]);
      std::ranges::reverse(shape);
    }
    const bool in_pairs = model.spec.family == "llama" || model.spec.family == "granite";
    if (in_pairs && IsRotated(binding.role)) {
      values = Paired(values, shape[0], model.spec.shape.head_dim);
    }
    const BlockSpec* const attends =
        binding.at.layer < 0 ? nullptr
                             : &model.spec.layers[static_cast<size_t>(binding.at.layer)][0];
    if (binding.order == StoredOrder::kGroups) {
      values = Ungrouped(values, model.spec.AttentionOf(*attends));
    }
    if (binding.role == TensorRole::kKvUp) {
      AddKvUp(model.spec.AttentionOf(*attends), binding.at.layer, values, gguf);
      continue;
    }
    if (IsOfExpert(binding.role)) {
      of_experts.insert(of_experts.end(), values.begin(), values.end());
      const int n_experts = ExpertsOf(model.spec, binding.at.layer);
      if (binding.at.expert < n_experts - 1) continue;
      values = std::exchange(of_experts, {});
      shape.insert(shape.begin(), n_experts);
    }
    // What the decoder adds to a norm's weights the file has added.
    for (float& value : values) value += IsNorm(binding.role) ? model.spec.head.norm.offset : 0.0F;
    if (shape.size() == 1 || binding.role == TensorRole::kPositions) {
      gguf->Tensor(NameOf(binding), shape, DType::kF32, values);
    } else {
      add_matrix(*gguf, NameOf(binding), shape, values);
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
