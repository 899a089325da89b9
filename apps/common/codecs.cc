#include "apps/common/codecs.h"

namespace ng {

CodecNames CodecsOf(const Config& config) {
  const auto codec = [&](const char* key) {
    return config.Text(key).empty() ? config.Text("cache.codec") : config.Text(key);
  };
  return {codec("cache.codec_k"), codec("cache.codec_v")};
}

}  // namespace ng
