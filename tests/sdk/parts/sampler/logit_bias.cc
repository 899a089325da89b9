// Adds a bias to the logits of given tokens.
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "ng/plugin.h"
#include "ng/sampler.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::TextListOption("bias", "", "id=bias pairs; a bias of -inf: the token is never drawn")};

// Whether the whole text is a number, which goes to `out`.
template <class T>
bool ParseNumber(std::string_view text, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

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
  for (const std::string_view pair : context.options.TextList("bias")) {
    const size_t equals = std::min(pair.find('='), pair.size());
    int32_t id = -1;
    float value = 0.0F;
    if (!ParseNumber(pair.substr(0, equals), &id) || id < 0 || id >= std::ssize(bias) ||
        !ParseNumber(pair.substr(std::min(equals + 1, pair.size())), &value) ||
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
