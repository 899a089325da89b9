// Keeps the tokens with the longest keys: the opposite of what the shipped `knorm` does.
#include "ng/plugin.h"
#include "ng/policy.h"

class LongKeys final : public ng::Policy {
 public:
  explicit LongKeys(const ng::PluginContext&) {}

  std::span<const std::string_view> needs() const override { return {&ng::kNeedKeys, 1}; }

  absl::Status Score(const ng::HeldTokens& tokens, std::span<float> scores) const override {
    for (int64_t i = 0; i < tokens.n_tokens(); ++i) {
      const float* key = tokens.keys.Row(i);
      float sum = 0.0F;
      for (int64_t d = 0; d < tokens.keys.extent[1]; ++d) sum += key[d] * key[d];
      scores[static_cast<size_t>(i)] = sum;
    }
    return absl::OkStatus();
  }
};

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::PolicyPlugin<LongKeys>("long_keys", "1.0.0", "keeps the tokens with the longest keys", {});
