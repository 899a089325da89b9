// Layout "tiles16" spelled out one element at a time, from the words of ng/kv_view.h alone: what
// tests hold a store's memory against.
#ifndef NG_TESTS_CONFORMANCE_TILES16_H_
#define NG_TESTS_CONFORMANCE_TILES16_H_

#include <cstddef>
#include <cstdint>

#include "ng/cache_store.h"
#include "ng/kv_view.h"

namespace ng {

int64_t Tiles16TileBytes(KvPart part, Codec codec, int64_t head_dim);

// The element's number, in elements, from the start of its tile. dim may be the pad dimension.
int64_t Tiles16Element(KvPart part, Codec codec, int64_t head_dim, int64_t slot, int64_t dim);

float DecodeElement(Codec codec, const std::byte* tile, int64_t element);
void EncodeElement(Codec codec, float value, std::byte* tile, int64_t element);

// What a value reads as once it has been stored.
float RoundToCodec(Codec codec, float value);

// One row read through the view's pages. out: [head_dim]
void ReadTiles16Row(KvPart part, const KvView& view, int64_t token, int kv_head, int64_t head_dim,
                    float* out);

}  // namespace ng

#endif  // NG_TESTS_CONFORMANCE_TILES16_H_
