#include "plugins/sampler/logit_bias/logit_bias.h"

#include <charconv>
#include <limits>
#include <string>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {
namespace {

// Whether the whole text is a number, which goes to `out`.
template <class T>
bool ParseNumber(std::string_view text, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SamplerStage>> LogitBias::Create(
    std::span<const std::string_view> pairs, int64_t vocab_size) {
  auto stage = absl::WrapUnique(new LogitBias(vocab_size));
  std::vector<bool> listed(vocab_size);
  for (const std::string_view pair : pairs) {
    const size_t equals = pair.find('=');
    int32_t id = -1;
    float bias = 0.0F;
    const bool two = equals != pair.npos && ParseNumber(pair.substr(0, equals), &id) &&
                     ParseNumber(pair.substr(equals + 1), &bias);
    // Written so that a NaN fails too.
    if (!two || id < 0 || id >= vocab_size || !(bias < std::numeric_limits<float>::infinity())) {
      return UsageError(absl::StrCat("sampler.logit_bias.bias has '", std::string(pair),
                                     "', must be id=bias with an id in [0, ", vocab_size,
                                     ") (the vocabulary) and a number or -inf"));
    }
    if (!listed[id]) stage->ids_.push_back(id);
    listed[id] = true;
    stage->bias_[id] += bias;
  }
  return stage;
}

absl::Status LogitBias::Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) {
  if (candidates.dense()) {
    for (const int32_t id : ids_) candidates.LogitOf(id) += bias_[id];
  } else if (!ids_.empty()) {
    for (Candidate& candidate : candidates.items()) candidate.logit += bias_[candidate.id];
  }
  const absl::Status status = candidates.MaxLogit().status();
  return status.ok() ? status : Annotate(status, "after the biases of sampler.logit_bias.bias: ");
}

}  // namespace ng
