// Which codecs cache.codec, cache.codec_k and cache.codec_v name together.
#ifndef NG_CORE_CONFIG_CACHE_CODECS_H_
#define NG_CORE_CONFIG_CACHE_CODECS_H_

#include <string_view>

#include "ng/config.h"

namespace ng {

// What keys and values are stored as; `own_k` and `own_v` are empty where the choice is left to
// `codec`. Keys suffer more from four bits than values do, so "int4" leaves them in int8.
CodecNames ResolveCodecs(std::string_view codec, std::string_view own_k, std::string_view own_v);

}  // namespace ng

#endif  // NG_CORE_CONFIG_CACHE_CODECS_H_
