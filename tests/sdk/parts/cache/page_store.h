// A store of pages of 16 tokens, one for each sequence, layer and tile, to derive from.
//
// A page is the K tiles [head_dim][16] of all kv heads and then their V tiles [16][head_dim], of
// elements that a codec encodes one by one. With Float32 that is layout "tiles16". A derived store
// says where the memory is, and may drop pages.
#ifndef NG_TESTS_SDK_PARTS_CACHE_PAGE_STORE_H_
#define NG_TESTS_SDK_PARTS_CACHE_PAGE_STORE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/cache_store.h"
#include "ng/kv_view.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

namespace parts {

struct Float32 {
  using Element = float;
  static Element Encode(float x) { return x; }
  static float Decode(Element e) { return e; }
};

inline int64_t Tiles(int64_t tokens) { return (tokens + ng::kTileTokens - 1) / ng::kTileTokens; }

// OK when the backend reads `layout` and cache.codec was left at f32.
inline absl::Status CheckSpec(const ng::CacheSpec& spec, std::string_view layout) {
  const bool asked = std::ranges::any_of(spec.layouts, [&](std::string_view other) {
    return other == layout || other == ng::kLayoutAny;
  });
  if (!asked) {
    return ng::PluginError("writes only layout " + std::string(layout) +
                           ", which the attention backend does not read");
  }
  if (spec.codec_k == ng::Codec::kF32 && spec.codec_v == ng::Codec::kF32) return absl::OkStatus();
  return ng::PluginError("stores in one way only; leave cache.codec at f32");
}

template <class Codec>
class PageStore : public ng::CacheStore {
 public:
  using Element = typename Codec::Element;
  using Memory = std::shared_ptr<std::byte>;

  static int64_t PageBytes(const ng::CacheSpec& spec) {
    return int64_t{2} * spec.n_kv_heads * spec.head_dim * ng::kTileTokens *
           int64_t{sizeof(Element)};
  }
  // Pages of all sequences, if each has so many tokens.
  static int64_t CountPages(const ng::CacheSpec& spec, int64_t tokens) {
    return Tiles(tokens) * spec.n_layers * spec.max_sequences;
  }
  static ng::CachePlan PlanOf(const ng::CacheSpec& spec, std::string_view layout) {
    ng::CachePlan plan;
    plan.layout = layout;
    plan.bytes = CountPages(spec, spec.max_tokens) * PageBytes(spec);
    plan.bytes_per_token = PageBytes(spec) / ng::kTileTokens * spec.n_layers;
    return plan;
  }
  static Memory Reserve(int64_t bytes) {
    return {static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes))),
            [](std::byte* memory) { ::operator delete(memory); }};
  }

  // memory: [n_pages][PageBytes]
  PageStore(const ng::CacheSpec& spec, ng::CachePlan plan, Memory memory, int64_t n_pages)
      : spec_(spec), plan_(std::move(plan)), memory_(std::move(memory)) {
    spec_.layouts = {};
    for (int64_t i = n_pages; i-- > 0;) free_.push_back(memory_.get() + i * PageBytes(spec));
    const std::vector<const std::byte*> none(static_cast<size_t>(Tiles(spec.max_tokens)));
    sequences_.resize(static_cast<size_t>(spec.max_sequences));
    for (Sequence& sequence : sequences_) {
      sequence.pages.assign(static_cast<size_t>(spec.n_layers), none);
    }
  }

  ng::CachePlan plan() const override { return plan_; }

  absl::StatusOr<ng::SequenceId> Open(int64_t capacity) override {
    if (capacity > spec_.max_tokens) {
      return ng::LimitError("a sequence of " + std::to_string(capacity) +
                            " tokens, must be at most " + std::to_string(spec_.max_tokens));
    }
    const auto closed = std::ranges::find(sequences_, false, &Sequence::open);
    if (closed == sequences_.end()) return ng::LimitError("all sequences are open");
    closed->open = true;
    closed->length = 0;
    closed->capacity = capacity;
    return static_cast<ng::SequenceId>(closed - sequences_.begin());
  }

  void Close(ng::SequenceId id) override {
    DropFrom(id, 0);
    At(id).open = false;
  }

  int64_t Length(ng::SequenceId id) const override { return At(id).length; }
  int64_t Capacity(ng::SequenceId id) const override { return At(id).capacity; }

  absl::Status Truncate(ng::SequenceId id, int64_t length) override {
    if (length < 0 || length > At(id).length) {
      return ng::RuntimeError("cannot truncate " + std::to_string(At(id).length) + " tokens to " +
                              std::to_string(length));
    }
    DropFrom(id, Tiles(length));
    At(id).length = length;
    return absl::OkStatus();
  }

  absl::StatusOr<ng::SequenceId> Fork(ng::SequenceId from, int64_t capacity) override {
    if (capacity < At(from).length) return ng::LimitError("the fork cannot hold its tokens");
    NG_ASSIGN_OR_RETURN(const ng::SequenceId to, Open(capacity));
    for (int layer = 0; layer < spec_.n_layers; ++layer) {
      for (int64_t tile = 0; tile < Tiles(At(from).length); ++tile) {
        const std::byte* const page = Page(from, layer, tile);
        if (page == nullptr) continue;
        std::byte* const copy = Take(to, layer, tile);
        if (copy == nullptr) {
          Close(to);
          return ng::LimitError("no page is free for a fork");
        }
        std::memcpy(copy, page, static_cast<size_t>(PageBytes(spec_)));
      }
    }
    At(to).length = At(from).length;
    return to;
  }

  absl::Status Append(int layer, std::span<const ng::SequenceRows> rows,
                      const ng::TensorView<const float, 3>& k,
                      const ng::TensorView<const float, 3>& v) override {
    int64_t n_wanted = 0;
    for (const ng::SequenceRows& entry : rows) {
      const int64_t end = entry.start_pos + entry.n_tokens;
      if (end > At(entry.sequence).capacity) {
        return ng::LimitError("cache overflow: " + std::to_string(end) +
                              " tokens, must be at most " +
                              std::to_string(At(entry.sequence).capacity));
      }
      for (int64_t tile = entry.start_pos / ng::kTileTokens; tile < Tiles(end); ++tile) {
        n_wanted += Page(entry.sequence, layer, tile) == nullptr ? 1 : 0;
      }
    }
    if (n_wanted > std::ssize(free_)) return ng::LimitError("cache overflow: no page is free");
    for (const ng::SequenceRows& entry : rows) {
      for (int64_t i = 0; i < entry.n_tokens; ++i) Write(layer, entry, i, k, v);
    }
    return absl::OkStatus();
  }

  absl::Status Commit(std::span<const ng::SequenceRows> rows) override {
    for (const ng::SequenceRows& entry : rows) At(entry.sequence).length += entry.n_tokens;
    return absl::OkStatus();
  }

  ng::KvView View(int layer, ng::SequenceId id, int64_t length) const override {
    const int64_t tile_bytes = spec_.head_dim * ng::kTileTokens * int64_t{sizeof(Element)};
    ng::KvView view;
    view.layout = plan_.layout;
    view.pages = std::span(At(id).pages[static_cast<size_t>(layer)])
                     .first(static_cast<size_t>(Tiles(length)));
    view.page_tokens = ng::kTileTokens;
    view.length = length;
    view.k = {spec_.codec_k, 0, tile_bytes, tile_bytes};
    view.v = {spec_.codec_v, spec_.n_kv_heads * tile_bytes, tile_bytes, tile_bytes};
    view.store = this;
    view.sequence = id;
    view.layer = layer;
    return view;
  }

  void CopyRow(ng::KvPart part, const ng::KvView& view, int64_t token, int kv_head,
               float* out) const override {
    const bool keys = part == ng::KvPart::kKey;
    const auto* const tile = reinterpret_cast<const Element*>(
        view.Tile(keys ? view.k : view.v, kv_head, token / ng::kTileTokens));
    for (int d = 0; d < spec_.head_dim; ++d) out[d] = Codec::Decode(tile[Place(keys, token, d)]);
  }

 protected:
  const std::byte* Page(ng::SequenceId id, int layer, int64_t tile) const {
    return At(id).pages[static_cast<size_t>(layer)][static_cast<size_t>(tile)];
  }
  void Drop(ng::SequenceId id, int layer, int64_t tile) {
    const std::byte*& page = PageOf(id, layer, tile);
    if (page != nullptr) free_.push_back(const_cast<std::byte*>(page));
    page = nullptr;
  }

  ng::CacheSpec spec_;
  const ng::CachePlan plan_;

 private:
  struct Sequence {
    bool open = false;
    int64_t length = 0;
    int64_t capacity = 0;
    std::vector<std::vector<const std::byte*>> pages;  // [n_layers][tiles], null: none
  };

  const Sequence& At(ng::SequenceId id) const { return sequences_[static_cast<size_t>(id)]; }
  Sequence& At(ng::SequenceId id) { return sequences_[static_cast<size_t>(id)]; }
  const std::byte*& PageOf(ng::SequenceId id, int layer, int64_t tile) {
    return At(id).pages[static_cast<size_t>(layer)][static_cast<size_t>(tile)];
  }

  // Where a token's element lies in its tile.
  int64_t Place(bool keys, int64_t token, int dim) const {
    const int64_t slot = token % ng::kTileTokens;
    return keys ? dim * ng::kTileTokens + slot : slot * spec_.head_dim + dim;
  }

  // The page of a tile, a free one where it has none; null: none is free.
  std::byte* Take(ng::SequenceId id, int layer, int64_t tile) {
    const std::byte*& page = PageOf(id, layer, tile);
    if (page == nullptr && !free_.empty()) {
      page = free_.back();
      free_.pop_back();
    }
    return const_cast<std::byte*>(page);
  }

  void DropFrom(ng::SequenceId id, int64_t first) {
    for (int layer = 0; layer < spec_.n_layers; ++layer) {
      for (int64_t tile = first; tile < Tiles(spec_.max_tokens); ++tile) Drop(id, layer, tile);
    }
  }

  void Write(int layer, const ng::SequenceRows& entry, int64_t i,
             const ng::TensorView<const float, 3>& k, const ng::TensorView<const float, 3>& v) {
    const int64_t token = entry.start_pos + i;
    std::byte* const page = Take(entry.sequence, layer, token / ng::kTileTokens);
    auto* tile = reinterpret_cast<Element*>(page);
    for (const bool keys : {true, false}) {
      for (int head = 0; head < spec_.n_kv_heads; ++head) {
        const float* const row = (keys ? k : v).Row(entry.row_begin + i, head);
        for (int d = 0; d < spec_.head_dim; ++d)
          tile[Place(keys, token, d)] = Codec::Encode(row[d]);
        tile += spec_.head_dim * ng::kTileTokens;
      }
    }
  }

  const Memory memory_;
  std::vector<std::byte*> free_;
  std::vector<Sequence> sequences_;  // [max_sequences]
};

}  // namespace parts

#endif  // NG_TESTS_SDK_PARTS_CACHE_PAGE_STORE_H_
