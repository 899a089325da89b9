// The codecs of a config's cache, as reports name them.
#ifndef NG_APPS_COMMON_CODECS_H_
#define NG_APPS_COMMON_CODECS_H_

#include <string>

#include "core/config/config.h"

namespace ng {

struct CodecNames {
  std::string k;
  std::string v;

  std::string Text() const { return k == v ? k : k + "/" + v; }
};

CodecNames CodecsOf(const Config& config);

}  // namespace ng

#endif  // NG_APPS_COMMON_CODECS_H_
