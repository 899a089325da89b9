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
  };
  return absl::StrReplaceAll(kNames.at(binding.role), {{"{}", absl::StrCat(binding.at.layer)}});
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
  for (const TensorBinding& binding : model.bindings) {
    const TensorInfo& tensor = *binding.tensor;
    std::vector<std::byte> raw(static_cast<size_t>(tensor.n_bytes));
    ASSERT_TRUE(model.source->Read(tensor, raw).ok());
    std::vector<float> values(static_cast<size_t>(tensor.n_elements));
    ConvertToF32(tensor.dtype, raw.data(), values);
    std::vector<int64_t> shape = tensor.shape;
    if (binding.transposed) {
      values = Transposed(values, shape[0]);
      std::ranges::reverse(shape);
    }
    if (model.spec.family == "llama" && IsRotated(binding.role)) {
      values = Paired(values, shape[0], model.spec.shape.head_dim);
    }
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
