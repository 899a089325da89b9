#include "core/config/cache_codecs.h"

namespace ng {

CodecNames ResolveCodecs(std::string_view codec, std::string_view own_k, std::string_view own_v) {
  const std::string_view keys = codec == "int4" ? "int8" : codec;
  return {std::string(own_k.empty() ? keys : own_k), std::string(own_v.empty() ? codec : own_v)};
}

CodecNames CodecsOf(const Config& config) {
  return ResolveCodecs(config.Text("cache.codec"), config.Text("cache.codec_k"),
                       config.Text("cache.codec_v"));
}

}  // namespace ng
