#include "tests/conformance/tiles16.h"

#include <cstring>

#include "ng/half.h"

namespace ng {

int64_t Tiles16TileBytes(KvPart part, Codec codec, int64_t head_dim) {
  if (codec == Codec::kF32) return head_dim * 16 * 4;
  if (part == KvPart::kKey) return (head_dim + 1) / 2 * 16 * 2 * 2;
  return 8 * head_dim * 2 * 2;
}

int64_t Tiles16Element(KvPart part, Codec codec, int64_t head_dim, int64_t slot, int64_t dim) {
  if (codec == Codec::kF32) {
    return part == KvPart::kKey ? dim * 16 + slot : slot * head_dim + dim;
  }
  if (part == KvPart::kKey) return ((dim / 2) * 16 + slot) * 2 + dim % 2;
  return ((slot / 2) * head_dim + dim) * 2 + slot % 2;
}

float DecodeElement(Codec codec, const std::byte* tile, int64_t element) {
  if (codec == Codec::kF32) {
    float value = 0.0F;
    std::memcpy(&value, tile + element * 4, 4);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, tile + element * 2, 2);
  return codec == Codec::kBf16 ? Bf16ToF32(bits) : F16ToF32(bits);
}

void EncodeElement(Codec codec, float value, std::byte* tile, int64_t element) {
  if (codec == Codec::kF32) {
    std::memcpy(tile + element * 4, &value, 4);
    return;
  }
  const uint16_t bits = codec == Codec::kBf16 ? F32ToBf16(value) : F32ToF16(value);
  std::memcpy(tile + element * 2, &bits, 2);
}

float RoundToCodec(Codec codec, float value) {
  std::byte memory[4];
  EncodeElement(codec, value, memory, 0);
  return DecodeElement(codec, memory, 0);
}

void ReadTiles16Row(KvPart part, const KvView& view, int64_t token, int kv_head, int64_t head_dim,
                    float* out) {
  const KvSide& side = part == KvPart::kKey ? view.k : view.v;
  const std::byte* tile = view.Tile(side, kv_head, token / 16);
  for (int64_t d = 0; d < head_dim; ++d) {
    out[d] =
        DecodeElement(side.codec, tile, Tiles16Element(part, side.codec, head_dim, token % 16, d));
  }
}

}  // namespace ng
