// Keeps any tokens: what every other policy must beat. A token's score comes of the seed, its
// layer, kv head and position alone.
#ifndef NG_PLUGINS_POLICY_RANDOM_RANDOM_H_
#define NG_PLUGINS_POLICY_RANDOM_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "ng/policy.h"

namespace ng {

inline constexpr OptionSpec kRandomOptions[] = {
    IntOption("seed", 0, {.min = 0}, "of the scores; the sampler's has no part in them")};

class RandomPolicy final : public Policy {
 public:
  explicit RandomPolicy(const PluginContext& context)
      : seed_(static_cast<uint64_t>(context.options.Int("seed"))) {}

  absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const override {
    const uint64_t head = Mixed(Mixed(seed_ ^ Word(tokens.layer)) ^ Word(tokens.kv_head));
    for (size_t i = 0; i < scores.size(); ++i) {
      // As many bits as a float has.
      scores[i] = static_cast<float>(Mixed(head ^ Word(tokens.positions[i])) >> 40) * 0x1p-24F;
    }
    return absl::OkStatus();
  }

 private:
  static uint64_t Word(int32_t x) { return static_cast<uint32_t>(x); }
  // The last step of SplitMix64 (Steele, Lea & Flood 2014).
  static uint64_t Mixed(uint64_t x) {
    x += 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }

  const uint64_t seed_;
};

}  // namespace ng

#endif  // NG_PLUGINS_POLICY_RANDOM_RANDOM_H_
