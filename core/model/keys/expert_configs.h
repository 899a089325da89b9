// Mixtures of experts as config.json has them: a row for each family, of what its keys are called
// and what an absent one means.
//
// Errors of the readers: ModelFileError naming `path`, the key, the value found and what is
// allowed.
#ifndef NG_CORE_MODEL_KEYS_EXPERT_CONFIGS_H_
#define NG_CORE_MODEL_KEYS_EXPERT_CONFIGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/model/keys/config_fields.h"
#include "core/model/spec/model_spec.h"
#include "ng/status.h"

namespace ng {

// Which layers have experts; the others have a feed-forward.
enum class ExpertLayers {
  kAll,
  kBehindDense,  // all but the first so many
  kStep,         // each decoder_sparse_step-th, but for those that mlp_only_layers lists
  kRange,        // each moe_layer_interval-th from moe_layer_start_index to moe_layer_end_index
  kListed,       // those that mlp_layer_types lists as "sparse"; without it as kBehindDense
  kMoeLayers,    // those in moe_layers; without it each interleave_moe_layer_step-th
};

struct ExpertsRow {
  SizeKey n_experts = {"num_experts"};
  int64_t n_experts_absent = 0;  // 0: the key must be there
  SizeKey n_used = {"num_experts_per_tok"};
  int64_t n_used_absent = 0;  // the same
  const char* width = "";     // empty: that of the feed-forward
  int64_t width_absent = 0;   // 0: likewise
  bool sigmoid = false;
  bool selection_bias = false;
  const char* selection_bias_key = "";  // a switch for it; empty: none
  bool router_bias = false;
  const char* gating_key = "";  // says 1: softmax, or 2: sigmoid; empty: `sigmoid` does
  bool groups = false;
  const char* n_groups = "n_group";
  const char* n_groups_used = "topk_group";
  bool group_method = false;  // those only where topk_method is group_limited_greedy
  bool normalised = false;    // always, or where norm_key is absent
  const char* norm_key = "";
  double least_sum = 0.0;
  const char* least_sum_key = "";
  double added_to_sum = 0.0;
  const char* scale = "";
  double scale_absent = 1.0;
  bool weighs_input = false;
  bool clamped = false;  // swiglu_alpha, swiglu_limit
  // What all rows share: of so many times the width of an expert, or of a width of its own. Both
  // empty: nothing, or with `shared_is_dense` a feed-forward like that of a layer without experts.
  const char* n_shared = "";
  int64_t n_shared_absent = 0;
  const char* shared_width = "";
  int64_t shared_width_absent = 0;
  bool shared_is_dense = false;
  bool shared_gate = false;
  ExpertLayers layers = ExpertLayers::kAll;
  const char* n_dense = "first_k_dense_replace";  // kBehindDense, kListed; empty: n_dense_absent
  int64_t n_dense_absent = 0;
};

// The mixture of each layer; none where it has a feed-forward.
// feed_forward: of layers without experts.
absl::StatusOr<std::vector<std::optional<MixtureSpec>>> ReadMixtures(
    const JsonFields& config, const std::string& path, const ExpertsRow& row, const ModelSpec& spec,
    const FeedForwardSpec& feed_forward);

}  // namespace ng

#endif  // NG_CORE_MODEL_KEYS_EXPERT_CONFIGS_H_
