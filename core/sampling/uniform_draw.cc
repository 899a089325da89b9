#include <Random123/philox.h>

#include <cstdint>
#include <string_view>

#include "core/base/hash.h"
#include "ng/sampler.h"

namespace ng {

double UniformDraw(const DrawKey& key, uint32_t n) {
  const auto low = [](int64_t bits) { return static_cast<uint32_t>(bits); };
  const auto high = [](int64_t bits) { return static_cast<uint32_t>(bits >> 32); };
  const r123::Philox4x32::ctr_type counter = {
      {low(key.step), high(key.step) ^ n, low(key.request), high(key.request) ^ key.stream}};
  const r123::Philox4x32::key_type philox_key = {{low(key.seed), high(key.seed)}};
  const r123::Philox4x32::ctr_type random = r123::Philox4x32()(counter, philox_key);
  const uint64_t bits = (static_cast<uint64_t>(random[1]) << 32) | random[0];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

uint32_t DrawStream(std::string_view stage) {
  const auto hash = static_cast<uint32_t>(HashOf(stage));
  return hash == 0 ? 1 : hash;
}

}  // namespace ng
