#include "ng/kv_view.h"

namespace ng {

std::string_view CodecName(Codec codec) {
  switch (codec) {
    case Codec::kF32:
      return "f32";
    case Codec::kBf16:
      return "bf16";
    case Codec::kF16:
      return "f16";
  }
  return "unknown";
}

std::optional<Codec> CodecFromName(std::string_view name) {
  for (const Codec codec : {Codec::kF32, Codec::kBf16, Codec::kF16}) {
    if (name == CodecName(codec)) return codec;
  }
  return std::nullopt;
}

int64_t CodecBytes(Codec codec) { return codec == Codec::kF32 ? 4 : 2; }

}  // namespace ng
