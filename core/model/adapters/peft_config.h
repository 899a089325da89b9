// adapter_config.json, as PEFT writes it: what an adapter is, and by how much its products count.
// Source: PEFT's documentation of LoraConfig.
#ifndef NG_CORE_MODEL_ADAPTERS_PEFT_CONFIG_H_
#define NG_CORE_MODEL_ADAPTERS_PEFT_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/key_policy.h"
#include "core/text/regex/regex.h"
#include "ng/status.h"

namespace ng {

struct PeftConfig {
  template <typename T>
  using Pattern = std::vector<std::pair<Regex, T>>;  // the first that fits counts

  int64_t rank = 0;
  double alpha = 0.0;
  Pattern<int64_t> ranks;
  Pattern<double> alphas;
  bool by_root = false;     // the scale is alpha / sqrt(rank), and not alpha / rank (rsLoRA)
  bool magnitudes = false;  // outputs have magnitudes (DoRA)
  // Parameters that are no module's weight and have pairs too: those of all experts of a layer,
  // gate_up_proj and down_proj, perhaps with the end of their module's name before.
  std::vector<std::string> parameters;

  // Of a module such as "model.layers.0.self_attn.q_proj"; the scale is alpha over the rank.
  // Errors: ModelFileError for a pattern that takes too long to be looked for in the name.
  absl::StatusOr<int64_t> RankOf(const std::string& module) const;
  absl::StatusOr<double> ScaleOf(const std::string& module) const;
};

// Errors: ModelFileError naming the file, the key, its value and what is allowed: another kind of
// adapter than LoRA, and what would compute something else. Keys that nobody knows are in doubt.
absl::StatusOr<PeftConfig> ReadPeftConfig(const std::string& path, const KeyPolicy& keys);

}  // namespace ng

#endif  // NG_CORE_MODEL_ADAPTERS_PEFT_CONFIG_H_
