// Families in which some layers keep a state in place of keys and values: which layers those are,
// and what the state is made of. The rest of them is read as llama's (llama_configs.h).
//
// Errors of every reader: ModelFileError naming `path`, the key, the value found and what is
// allowed.
#ifndef NG_CORE_MODEL_KEYS_STATE_CONFIGS_H_
#define NG_CORE_MODEL_KEYS_STATE_CONFIGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/model/spec/model_spec.h"
#include "ng/status.h"

namespace ng {

struct HybridRow {
  // What each layer does: kAttention or kState, and where layers have one block kFeedForward or
  // kMixture too. n_layers: where the list of layers does not say it.
  absl::StatusOr<std::vector<Operation>> (*read_layers)(const JsonFields& config,
                                                        const std::string& path, int64_t n_layers);
  // eps: that of the model's norms.
  absl::StatusOr<StateSpec> (*read_state)(const JsonFields& config, const std::string& path,
                                          int64_t width, float eps);
  bool one_block = false;  // a layer has that block alone
};

extern const HybridRow kLfm2Hybrid;
extern const HybridRow kQwenNextHybrid;
extern const HybridRow kGraniteHybrid;
extern const HybridRow kNemotronHybrid;

}  // namespace ng

#endif  // NG_CORE_MODEL_KEYS_STATE_CONFIGS_H_
