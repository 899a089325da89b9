// How each family's config.json is read. What a model is made of is in its ModelSpec; what cannot
// run is refused here.
//
// Errors of every reader: ModelFileError naming `path`, the key, the value found and what is
// allowed.
#ifndef NG_CORE_MODEL_FAMILIES_FAMILY_CONFIGS_H_
#define NG_CORE_MODEL_FAMILIES_FAMILY_CONFIGS_H_

#include <string>

#include "core/formats/json.h"
#include "core/formats/tensor_source.h"
#include "core/model/keys/llama_configs.h"
#include "core/model/spec/model_spec.h"
#include "ng/status.h"

namespace ng {

// niels-gpt: pre-norm RMSNorm, interleaved RoPE, attention without biases, a SwiGLU with biases
// whose gate is fc_g, a head tied to the embedding.
absl::StatusOr<ModelSpec> ReadNielsSpec(const JsonFields& config, const std::string& path);

// nanogpt: pre-norm LayerNorm, learned positions, all biases or none, GELU by erf, a tied head.
absl::StatusOr<ModelSpec> ReadNanoGptSpec(const JsonFields& config, const std::string& path);
// gpt2: nanogpt with all biases, GELU by tanh, a head that is tied unless config.json says
// otherwise.
absl::StatusOr<ModelSpec> ReadGpt2Spec(const JsonFields& config, const std::string& path);

// postln: LayerNorm without weights after each block, learned positions, GELU by tanh,
// no biases, a head of its own without a norm before it. Its config.json has heads and eps only;
// the sizes are those of its tensors.
absl::StatusOr<ModelSpec> ReadPostLnSpec(const JsonFields& config, const std::string& path);
absl::Status ReadPostLnSizes(const TensorSource& tensors, const std::string& path, ModelSpec* spec);

// lfm2: the width of its feed-forward is computed from what config.json says.
absl::StatusOr<ModelSpec> ReadLfm2Spec(const JsonFields& config, const std::string& path);

// mpt: slopes for positions; attn_config says a scale of the scores and a clip of q, k and v.
absl::StatusOr<ModelSpec> ReadMptSpec(const JsonFields& config, const std::string& path);

// xglm: positions of sines, LayerNorm, GELU by erf, a tied head.
absl::StatusOr<ModelSpec> ReadXglmSpec(const JsonFields& config, const std::string& path);

// ministral3: mistral whose queries have a temperature that grows with the position.
absl::StatusOr<ModelSpec> ReadMinistral3Spec(const JsonFields& config, const std::string& path);

// llama4_text: experts whose weights are of what they read. Layers that rotate q and k also norm
// them, and see chunks of keys; in the others the queries have a temperature.
absl::StatusOr<ModelSpec> ReadLlama4Like(const JsonFields& config, const std::string& path,
                                         const LlamaRow& row);
absl::StatusOr<ModelSpec> ReadLlama4Spec(const JsonFields& config, const std::string& path);

// gemma4_text: gemma3's blocks with norms of v too. Layers that see all keys have other heads, the
// last layers may read the keys of others, each layer may get an input of its own, and experts may
// be beside the feed-forward.
absl::StatusOr<ModelSpec> ReadGemma4Spec(const JsonFields& config, const std::string& path);
bool Gemma4HasExperts(const JsonFields& config);

// What differs between the files of such models.
struct Gemma4Form {
  bool last_is_full = true;    // the last layer sees all keys, whatever layer_types says of it
  bool rope_factors = false;   // of layers that see all keys, in a tensor
  bool stream_factors = true;  // of the stream behind each layer
  bool expert_scales = true;   // of the experts' weights
};
// The second half of that reader: what depends on the layer.
absl::StatusOr<ModelSpec> EditGemma4Layers(const JsonFields& config, const std::string& path,
                                           const Gemma4Form& form, ModelSpec spec);

// Which of falcon's forms a config.json is of: blocks in turn, in parallel behind one norm, or,
// with groups of heads, behind two norms or one.
enum class FalconForm { kInTurn, kOneNorm, kGroupedTwoNorms, kGroupedOneNorm };
FalconForm FalconFormOf(const JsonFields& config);

}  // namespace ng

#endif  // NG_CORE_MODEL_FAMILIES_FAMILY_CONFIGS_H_
