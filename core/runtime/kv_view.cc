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
    case Codec::kInt8:
      return "int8";
    case Codec::kInt4:
      return "int4";
  }
  return "unknown";
}

std::optional<Codec> CodecFromName(std::string_view name) {
  for (const Codec codec : {Codec::kF32, Codec::kBf16, Codec::kF16, Codec::kInt8, Codec::kInt4}) {
    if (name == CodecName(codec)) return codec;
  }
  return std::nullopt;
}

}  // namespace ng
