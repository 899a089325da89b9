// A cache store made to be hard on its readers: pages of 16 tokens handed out in shuffled order,
// and NaN in every byte that holds no token of the sequence.
//
// For tests only: slow, one element at a time, so that it can be checked by eye.
#ifndef NG_CONFORM_SCATTERED_STORE_H_
#define NG_CONFORM_SCATTERED_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ng/cache_capabilities.h"
#include "ng/cache_store.h"
#include "ng/conform/plain_tiles.h"
#include "ng/plugin.h"
#include "ng/status.h"

namespace ng::conform {

class ScatteredStore : public CacheStore, public Snapshots {
 public:
  explicit ScatteredStore(const CacheSpec& spec);

  // As CacheFactory::create.
  static absl::StatusOr<std::unique_ptr<CacheStore>> Create(const PluginContext& context,
                                                            const CacheSpec& spec);

  void* Capability(std::string_view name) override {
    return OfferCapability<Snapshots>(this, name);
  }
  CachePlan plan() const override;
  absl::StatusOr<SequenceId> Open(int64_t capacity) override;
  void Close(SequenceId sequence) override;
  int64_t Length(SequenceId sequence) const override { return At(sequence).length; }
  int64_t Capacity(SequenceId sequence) const override { return At(sequence).capacity; }
  absl::Status Truncate(SequenceId sequence, int64_t length) override;
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, int64_t capacity) override;
  absl::Status Append(int layer, std::span<const SequenceRows> rows,
                      const TensorView<const float, 3>& k,
                      const TensorView<const float, 3>& v) override;
  absl::Status Commit(std::span<const SequenceRows> rows) override;
  KvView View(int layer, SequenceId sequence, int64_t length) const override;
  void CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
               float* out) const override;
  absl::Status ExportLayer(int layer, SequenceId sequence,
                           std::span<std::byte> image) const override;
  absl::Status ImportLayer(int layer, const SequenceRows& rows,
                           std::span<const std::byte> image) override;

 protected:
  struct Sequence {
    bool open = false;
    int64_t length = 0;
    int64_t capacity = 0;
    int64_t written = 0;  // no byte beyond this token is anything but NaN
    std::vector<std::byte*> pages;
  };

  const Sequence& At(SequenceId sequence) const {
    return sequences_[static_cast<size_t>(sequence)];
  }
  Sequence& At(SequenceId sequence) { return sequences_[static_cast<size_t>(sequence)]; }

  // Where a page keeps one kv head of one layer.
  int64_t Offset(KvPart part, int layer, int kv_head) const;
  Codec codec(KvPart part) const { return part == KvPart::kKey ? spec_.codec_k : spec_.codec_v; }
  Tiles16Side Side(KvPart part) const {
    if (HoldsKeysAlone(spec_)) part = KvPart::kKey;
    return {.part = part, .codec = codec(part), .head_dim = WidthOf(spec_, part)};
  }
  // Makes tokens [begin, end) NaN in one layer.
  void Poison(const Sequence& sequence, int layer, int64_t begin, int64_t end) const;

  const CacheSpec spec_;

 private:
  // What is held: K, and V where that is not in it.
  std::span<const KvPart> parts() const;
  int64_t tile_bytes(KvPart part) const;
  // From one kv head's tile to the next one's: behind a K tile are its bounds.
  int64_t head_bytes(KvPart part) const;
  absl::Status CheckFits(const SequenceRows& entry) const;
  int64_t layer_bytes() const;

  std::vector<std::byte> memory_;
  std::vector<std::byte*> free_pages_;
  std::vector<Sequence> sequences_;
};

}  // namespace ng::conform

#endif  // NG_CONFORM_SCATTERED_STORE_H_
