#include "core/runtime/assembly/request_samplers.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

namespace ng {
namespace {

// Chains that are kept though no request has them: they take memory, a few times the vocabulary.
constexpr size_t kRecentChains = 4;

constexpr std::string_view kSeed = "sampler.seed=";

// Texts that have the same chain. A line's end cannot be in a setting.
std::string ChainKey(std::span<const std::string> settings) {
  std::string key;
  for (const std::string& setting : settings) {
    if (!setting.starts_with(kSeed)) key += setting + '\n';
  }
  return key;
}

// The seed of a request, where the settings say it as numbers are written, or say nothing of it:
// everything else is for the config to read.
std::optional<int64_t> PlainSeed(std::span<const std::string> settings, int64_t common) {
  int64_t seed = common;
  for (const std::string& setting : settings) {
    if (!setting.starts_with("sampler.")) return std::nullopt;  // another spelling
    if (!setting.starts_with(kSeed)) continue;
    const char* const end = setting.data() + setting.size();
    const auto read = std::from_chars(setting.data() + kSeed.size(), end, seed);
    if (read.ec != std::errc() || read.ptr != end || seed < 0) return std::nullopt;
  }
  return seed;
}

}  // namespace

RequestSamplers::RequestSamplers(SamplerChain& common, int64_t seed, Make make)
    // The pointer owns nothing: the engine's chain outlives the run.
    : common_{{std::shared_ptr<SamplerChain>(), &common}, seed}, make_(std::move(make)) {}

absl::StatusOr<RequestSampler> RequestSamplers::For(std::span<const std::string> settings,
                                                    const Stop& stop) {
  if (settings.empty()) return common_;
  if (!make_) return RuntimeError("this run has no samplers of requests' own");
  const std::string key = ChainKey(settings);
  absl::StatusOr<RequestSampler> sampler = make_(settings, Find(key), stop);
  if (sampler.ok()) Keep(key, sampler->chain);
  return sampler;
}

std::optional<RequestSampler> RequestSamplers::Known(std::span<const std::string> settings) {
  if (settings.empty()) return common_;
  const std::optional<int64_t> seed = PlainSeed(settings, common_.seed);
  if (!seed) return std::nullopt;
  const std::string key = ChainKey(settings);
  const std::shared_ptr<SamplerChain> chain = Find(key);
  if (chain == nullptr) return std::nullopt;
  Keep(key, chain);
  return RequestSampler{chain, *seed};
}

std::shared_ptr<SamplerChain> RequestSamplers::Find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = chains_.find(key);
  return found == chains_.end() ? nullptr : found->second.lock();
}

void RequestSamplers::Keep(const std::string& key, const std::shared_ptr<SamplerChain>& chain) {
  std::shared_ptr<SamplerChain> oldest;  // is let go behind the lock
  const std::lock_guard lock(mutex_);
  recent_.reserve(kRecentChains + 1);
  chains_[key] = chain;
  std::erase(recent_, chain);
  recent_.push_back(chain);
  if (recent_.size() > kRecentChains) {
    oldest = std::move(recent_.front());
    recent_.erase(recent_.begin());
  }
  std::erase_if(chains_, [](const auto& entry) { return entry.second.expired(); });
}

}  // namespace ng
