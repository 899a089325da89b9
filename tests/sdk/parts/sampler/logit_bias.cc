// Adds a bias to the logits of given tokens.
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "part.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng_parts::Text("bias", "", "id=bias pairs separated by commas; -inf: never drawn")};

class LogitBias final : public ng::SamplerStage {
 public:
  // [vocab_size]
  explicit LogitBias(std::vector<float> bias) : bias_(std::move(bias)) {}

  absl::Status Apply(int /*slot*/, const ng::DrawKey& /*key*/, ng::CandidateSet& set) override {
    for (ng::Candidate& c : set.items()) c.logit += bias_[c.id];
    return ng::Annotate(set.MaxLogit().status(), "after the biases of logit_bias.bias: ");
  }

 private:
  const std::vector<float> bias_;
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  std::vector<float> bias(context.model.vocab_size);
  for (const std::string_view pair : ng_parts::Split(context.options.Text("bias"), ',')) {
    const size_t equals = std::min(pair.find('='), pair.size());
    int32_t id = -1;
    float value = 0.0F;
    if (!ng_parts::ParseNumber(pair.substr(0, equals), &id) || id < 0 || id >= std::ssize(bias) ||
        !ng_parts::ParseNumber(pair.substr(std::min(equals + 1, pair.size())), &value) ||
        !(value < std::numeric_limits<float>::infinity())) {
      return ng::UsageError("sampler.logit_bias.bias: '" + std::string(pair) +
                            "', must be id=bias with an id in [0, " + std::to_string(bias.size()) +
                            ")");
    }
    bias[id] += value;
  }
  return std::make_unique<LogitBias>(std::move(bias));
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<Create>("logit_bias", "1.0.0", "biases given tokens", kOptions);
