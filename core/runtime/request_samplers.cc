#include "core/runtime/request_samplers.h"

#include <algorithm>
#include <utility>

namespace ng {
namespace {

// Chains that are kept though no request has them: they take memory, a few times the vocabulary.
constexpr size_t kRecentChains = 4;

// Texts that have the same chain. A line's end cannot be in a setting.
std::string ChainKey(std::span<const std::string> settings) {
  std::string key;
  for (const std::string& setting : settings) {
    if (!setting.starts_with("sampler.seed=")) key += setting + '\n';
  }
  return key;
}

}  // namespace

RequestSamplers::RequestSamplers(SamplerChain& common, int64_t seed, Make make)
    // The pointer owns nothing: the engine's chain outlives the run.
    : common_{{std::shared_ptr<SamplerChain>(), &common}, seed}, make_(std::move(make)) {}

absl::StatusOr<RequestSampler> RequestSamplers::For(std::span<const std::string> settings) {
  if (settings.empty()) return common_;
  if (!make_) return RuntimeError("this run has no samplers of requests' own");
  std::weak_ptr<SamplerChain>& known = chains_[ChainKey(settings)];
  absl::StatusOr<RequestSampler> sampler = make_(settings, known.lock());
  if (sampler.ok()) {
    known = sampler->chain;
    std::erase(recent_, sampler->chain);
    recent_.push_back(sampler->chain);
    if (recent_.size() > kRecentChains) recent_.erase(recent_.begin());
  }
  std::erase_if(chains_, [](const auto& entry) { return entry.second.expired(); });
  return sampler;
}

}  // namespace ng
