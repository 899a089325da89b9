#include "core/config/cache_codecs.h"

#include <gtest/gtest.h>

#include <string>

#include "core/config/config.h"
#include "ng/kv_view.h"

namespace ng {
namespace {

TEST(CacheCodecs, AnOwnCodecWinsAndInt4AloneLeavesKeysInInt8) {
  struct Case {
    const char* codec;
    const char* own_k;
    const char* own_v;
    const char* text;
  };
  for (const Case& c : {Case{"f32", "", "", "f32"}, Case{"int4", "", "", "int8/int4"},
                        Case{"int4", "int4", "", "int4"}, Case{"int4", "", "bf16", "int8/bf16"},
                        Case{"bf16", "f16", "int8", "f16/int8"}}) {
    EXPECT_EQ(ResolveCodecs(c.codec, c.own_k, c.own_v).Text(), c.text);
  }
}

// The config and the table of codecs know the same ones.
TEST(CacheCodecs, ThreeKeysTakeTheCodecsOfTheTable) {
  EXPECT_EQ(AllCodecNames(), "f32, bf16, f16, int8, int4");
  int n_keys = 0;
  for (const ConfigKey& key : CoreConfigKeys()) {
    if (!key.key.starts_with("cache.codec")) continue;
    ++n_keys;
    EXPECT_STREQ(key.spec->choices, "f32|bf16|f16|int8|int4");
  }
  EXPECT_EQ(n_keys, 3);
}

}  // namespace
}  // namespace ng
