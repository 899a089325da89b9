#include "core/conform/kept_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "ng/tiles16.h"

namespace ng::conform {
namespace {

bool SameBits(std::span<const float> row, std::span<const float> want) {
  return std::ranges::equal(row, want, [](float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  });
}

// As near as two bits for each element allow.
bool Near(std::span<const float> row, std::span<const float> want) {
  float largest = 0.0F;
  for (const float x : want) largest = std::max(largest, std::fabs(x));
  return std::ranges::equal(row, want,
                            [&](float a, float b) { return std::fabs(a - b) <= 0.35F * largest; });
}

std::string Where(const std::string& what, KvPart part, SequenceId id, int layer, int64_t token) {
  return what + " of " + (part == KvPart::kKey ? "key " : "value ") + std::to_string(token) +
         " in layer " + std::to_string(layer) + " of sequence " + std::to_string(id) + " is wrong";
}

}  // namespace

uint64_t Mix(uint64_t sum, uint64_t id) {
  sum = (sum ^ id) * 0x9E3779B97F4A7C15;
  return sum ^ (sum >> 29);
}

std::vector<float> KeptRows::RowOf(uint64_t sum, int part) const {
  if (part == 1 && spec_.v_in_k) return InKeys(RowOf(sum, 0));
  std::vector<float> row(
      static_cast<size_t>(spec_.n_layers * spec_.n_kv_heads * WidthOf(spec_, kParts[part])));
  uint64_t state = Mix(sum, 0x100 + static_cast<uint64_t>(part));
  for (float& x : row) {
    state = Mix(state, 1);
    x = static_cast<float>(static_cast<int64_t>(state % 2000001) - 1000000) * 1.1e-4F;
  }
  return row;
}

std::vector<float> KeptRows::InKeys(const std::vector<float>& keys) const {
  std::vector<float> values;
  for (auto head = keys.begin(); head != keys.end(); head += spec_.head_dim) {
    values.insert(values.end(), head, head + spec_.value_dim());
  }
  return values;
}

std::vector<float> KeptRows::Rounded(std::vector<float> row, int part) const {
  const Codec codec = kParts[part] == KvPart::kKey ? spec_.codec_k : spec_.codec_v;
  if (exactness_ != Exactness::kCodec) return row;
  const int width = WidthOf(spec_, kParts[part]);
  for (int64_t d = 0; d < std::ssize(row); d += width) RoundToCodec(codec, width, row.data() + d);
  return row;
}

void KeptRows::AddToken(uint64_t sum, int32_t id, KeptSequence* kept) const {
  kept->sums.push_back(sum);
  kept->ids.push_back(id);
  for (int part = 0; part < 2; ++part) {
    const bool in_keys = part == 1 && keys_alone_;
    kept->rows[part].push_back(in_keys ? InKeys(kept->rows[0].back())
                                       : Rounded(RowOf(sum, part), part));
  }
}

Tiles16Side KeptRows::SideOf(KvPart part) const {
  const Codec codec = part == KvPart::kKey ? spec_.codec_k : spec_.codec_v;
  return {.part = part, .codec = codec, .head_dim = WidthOf(spec_, part)};
}

int64_t KeptRows::ImageTileBytes() const {
  const int64_t values = keys_alone_ ? 0 : SideOf(KvPart::kValue).TileBytes();
  return spec_.n_kv_heads * (SideOf(KvPart::kKey).TileBytes() + values);
}

std::vector<std::byte> KeptRows::ImageOf(const KeptSequence& kept, int layer) const {
  std::vector<std::byte> image(static_cast<size_t>(TilesFor(kept.length()) * ImageTileBytes()));
  const std::vector<float> none(static_cast<size_t>(spec_.n_layers * spec_.n_kv_heads *
                                                    std::max(spec_.head_dim, spec_.value_dim())));
  for (int64_t token = 0; token < TilesFor(kept.length()) * kTileTokens; ++token) {
    std::byte* tile = image.data() + token / kTileTokens * ImageTileBytes();
    for (int part = 0; part < (keys_alone_ ? 1 : 2); ++part) {
      const Tiles16Side side = SideOf(kParts[part]);
      const std::vector<float> row =
          token < kept.length() ? RowOf(kept.sums[static_cast<size_t>(token)], part) : none;
      for (int head = 0; head < spec_.n_kv_heads; ++head, tile += side.TileBytes()) {
        WriteTiles16Row(side,
                        row.data() + (int64_t{layer} * spec_.n_kv_heads + head) * side.head_dim,
                        token % kTileTokens, tile);
      }
    }
  }
  return image;
}

bool KeptRows::IsAsWanted(std::span<const float> row, std::span<const float> want, uint64_t place) {
  if (exactness_ == Exactness::kCodec) return SameBits(row, want);
  if (exactness_ == Exactness::kNear) return Near(row, want);
  const auto [learned, is_new] = learned_.try_emplace(place, row.begin(), row.end());
  return is_new ? Near(row, want) : SameBits(row, learned->second);
}

std::string KeptRows::CompareLayer(const CacheStore& store, SequenceId id, const KeptSequence& kept,
                                   int layer) {
  const KvView view = store.View(layer, id, kept.length());
  if (view.length != kept.length()) return "a view has another length";
  if (view.page_tokens <= 0 || view.page_tokens % kTileTokens != 0) return "bad page_tokens";
  if (!view.present.empty() && !holes_) return "a view lacks tokens, and the plan has no holes";
  if (view.gone != 0 && slots_ == 0) return "tokens have left, and the plan has no slots";
  if (!view.heads.empty() && !head_slots_) return "heads differ, and the plan has no head_slots";
  if (slots_ > 0 && view.n_slots() > slots_) return "more tokens are held than the plan has slots";
  if (kept.length() > 0 && !view.Holds(0, kept.length() - 1)) return "the last token is not held";
  const int64_t seen = spec_.FirstSeen(std::min(store.Length(id), kept.length()));
  if (view.first < 0 || view.first > seen) {
    return "tokens from " + std::to_string(view.first) + " on are held, queries see those from " +
           std::to_string(seen) + " on";
  }
  const bool tiles16 = view.layout == kLayoutTiles16 || view.layout == kLayoutTiles16Bounds;
  for (const KvPart part : kParts) {
    const auto dim = static_cast<size_t>(WidthOf(spec_, part));
    std::vector<float> row(dim);
    const auto side = static_cast<size_t>(part == KvPart::kKey ? 0 : 1);
    for (int64_t token = 0; token < kept.length(); ++token) {
      const auto at = static_cast<size_t>(token);
      for (int head = 0; head < spec_.n_kv_heads; ++head) {
        if (!view.Holds(head, token)) continue;
        const auto own = static_cast<size_t>(int64_t{layer} * spec_.n_kv_heads + head);
        const auto want = std::span(kept.rows[side][at]).subspan(own * dim, dim);
        const uint64_t place = Mix(kept.sums[at], side << 32 | own);
        store.CopyRow(part, view, token, head, row.data());
        if (!IsAsWanted(row, want, place)) return Where("CopyRow", part, id, layer, token);
        if (!tiles16) continue;
        ReadTiles16Row(view.v_in_k ? KvPart::kKey : part, view, token, head, WidthOf(spec_, part),
                       row.data());
        if (!IsAsWanted(row, want, place)) return Where("the tile", part, id, layer, token);
      }
      const bool pads = tiles16 && (part == KvPart::kKey || !view.v_in_k) && view.Holds(0, token);
      if (pads && !PadIsZero(part, view, token)) {
        return Where("a pad dimension", part, id, layer, token);
      }
    }
  }
  return "";
}

bool KeptRows::PadIsZero(KvPart part, const KvView& view, int64_t token) const {
  const KvSide& stored = part == KvPart::kKey ? view.k : view.v;
  const Tiles16Side side{.part = part, .codec = stored.codec, .head_dim = WidthOf(spec_, part)};
  const int64_t slot = view.SlotOf(0, token);
  const std::byte* tile = view.Tile(stored, 0, slot / kTileTokens);
  for (int64_t d = side.head_dim; d < side.StoredDims(); ++d) {
    if (ReadElement(side, tile, slot % kTileTokens, d) != 0.0F) return false;
  }
  return true;
}

}  // namespace ng::conform
