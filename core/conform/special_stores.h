// Scattered stores for features of attention: tokens that are gone from their places, and tokens
// that have left for good, in each kv head others.
#ifndef NG_CORE_CONFORM_SPECIAL_STORES_H_
#define NG_CORE_CONFORM_SPECIAL_STORES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ng/conform/attention_rig.h"
#include "ng/conform/scattered_store.h"

namespace ng::conform {

// Drops the tokens that IsHole names when they are written: their rows are NaN, pages without any
// other token are null, and CopyRow throws for them.
class HoleStore final : public ScatteredStore {
 public:
  explicit HoleStore(const CacheSpec& spec);

  void* Capability(std::string_view /*name*/) override { return nullptr; }
  CachePlan plan() const override;
  absl::Status Append(int layer, std::span<const SequenceRows> rows,
                      const TensorView<const float, 3>& k,
                      const TensorView<const float, 3>& v) override;
  KvView View(int layer, SequenceId sequence, int64_t length) const override;
  void CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
               float* out) const override;

 private:
  std::vector<uint64_t> present_;
  mutable std::vector<std::vector<const std::byte*>> pages_;  // [max_sequences], as views have them
};

// Lets the tokens go that Leaves names, at multiples of kSlotBoundary. Its views show copies of the
// rows that are held, in f32 and 16 bits as they are.
class SlotStore final : public ScatteredStore {
 public:
  // uneven: other numbers leave in each kv head, whose tiles then begin in other pages.
  SlotStore(const CacheSpec& spec, bool uneven);

  void* Capability(std::string_view /*name*/) override { return nullptr; }
  CachePlan plan() const override;
  KvView View(int layer, SequenceId sequence, int64_t length) const override;

 private:
  // What a view of a layer shows.
  struct Shown {
    std::vector<std::vector<std::byte>> memory;  // of the pages
    std::vector<const std::byte*> pages;
    std::vector<int32_t> positions;
    std::vector<HeadSlots> heads;
  };

  const bool uneven_;
  mutable std::vector<Shown> shown_;  // [max_sequences, n_layers]
};

}  // namespace ng::conform

#endif  // NG_CORE_CONFORM_SPECIAL_STORES_H_
