// Tensors that GGUF files hold in a form of their own, as the decoder's weights.
#ifndef NG_CORE_MODEL_GGUF_GGUF_TENSORS_H_
#define NG_CORE_MODEL_GGUF_GGUF_TENSORS_H_

#include <memory>

#include "core/formats/gguf.h"
#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

// The tensors of the file, and in place of
// - attn_k_b [n_heads, kv_rank, k] and attn_v_b [n_heads, v, kv_rank] of a layer: attn_kv_b, one
//   matrix with the rows of k and of v of each head, as F32;
// - xielu.alpha_n, alpha_p, beta and eps among the key-values of apertus: ffn_act.* of each layer,
//   as F32.
// Errors: ModelFileError naming the tensor or the key.
absl::StatusOr<std::unique_ptr<TensorSource>> WithDerivedTensors(
    const GgufMetadata& metadata, std::unique_ptr<TensorSource> tensors);

}  // namespace ng

#endif  // NG_CORE_MODEL_GGUF_GGUF_TENSORS_H_
